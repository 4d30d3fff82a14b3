/* Column tables at many widths, and the string functions below them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/str.h"
#include "core/base/table.h"

static const struct cs_column columns[] = {
    {"ID",    2, 6,  0, CS_ALIGN_RIGHT},
    {"NAME",  6, 20, 0, CS_ALIGN_LEFT },
    {"STATE", 5, 0,  1, CS_ALIGN_LEFT },
    {"OWNER", 5, 0,  3, CS_ALIGN_LEFT },
    {"LOSS",  6, 0,  2, CS_ALIGN_RIGHT},
};
#define N ((int)CS_ARRAY_LEN(columns))

static struct cs_table *jobs(void)
{
    static const char *const rows[][5] = {
        {"1",  "tiny",                      "RUN",  "ada",      "0.125"},
        {"12", "a-very-long-name-of-a-job", "DONE", "b\x1b[1m", NULL   },
        {"3",  "\xe7\x8c\xab\xe7\x8c\xab",  "RUN",  "\xc3\xa9", "nan"  },
    };
    struct cs_table *table = cs_table_new(columns, N);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        cs_table_add(table, rows[i]);
    assert_int_equal(cs_table_rows(table), 3);
    return table;
}

static void check(int width, const char *golden)
{
    struct cs_table *table = jobs();
    struct cs_buf out = {0};
    cs_table_render(table, width, true, &out);
    assert_string_equal(out.data, golden);
    cs_buf_free(&out);
    cs_table_free(table);
}

static void wide_table_shows_everything(void **state)
{
    (void)state;
    static const char golden[] =
        "ID  NAME                  STATE  OWNER       LOSS\n"
        " 1  tiny                  RUN    ada        0.125\n"
        "12  a-very-long-name-of~  DONE   b\\x1b[1m       -\n"
        " 3  \xe7\x8c\xab\xe7\x8c\xab                  RUN    \xc3\xa9            nan\n";
    check(0, golden);
    check(200, golden);
}

static void narrow_table_shrinks_then_drops_by_priority(void **state)
{
    (void)state;
    check(40, "ID  NAME         STATE  OWNER       LOSS\n"
              " 1  tiny         RUN    ada        0.125\n"
              "12  a-very-lon~  DONE   b\\x1b[1m       -\n"
              " 3  \xe7\x8c\xab\xe7\x8c\xab         RUN    \xc3\xa9            nan\n");
    check(25, "ID  NAME    STATE    LOSS\n"
              " 1  tiny    RUN     0.125\n"
              "12  a-ver~  DONE        -\n"
              " 3  \xe7\x8c\xab\xe7\x8c\xab    RUN       nan\n");
    check(11, "ID  NAME\n"
              " 1  tiny\n"
              "12  a-very~\n"
              " 3  \xe7\x8c\xab\xe7\x8c\xab\n");
    check(5, "ID  ~\n"
             " 1  ~\n"
             "12  ~\n"
             " 3  ~\n");
}

/* What is aligned to the right is read as a number: "736/18~" would be a lie. */
static void figures_are_whole_or_not_there(void **state)
{
    (void)state;
    static const struct cs_column figures[] = {
        {"NAME",   4, 0, 0, CS_ALIGN_LEFT },
        {"STEP",   4, 0, 0, CS_ALIGN_RIGHT},
        {"LOSS",   4, 0, 1, CS_ALIGN_RIGHT},
        {"MEMORY", 4, 0, 2, CS_ALIGN_RIGHT},
    };
    static const char *const row[] = {"a-name-of-a-job", "1736/180000", "0.0193471", "19.6 MiB"};
    struct cs_table *table = cs_table_new(figures, (int)CS_ARRAY_LEN(figures));
    cs_table_add(table, row);
    for (int width = 17; width < 60; width++) { /* 17: the narrowest name beside the step */
        int widths[CS_ARRAY_LEN(figures)], shown = 0;
        cs_table_widths(table, width, widths);
        for (size_t i = 1; i < CS_ARRAY_LEN(figures); i++) {
            assert_true(widths[i] == 0 || widths[i] >= (int)strlen(row[i]));
            shown += widths[i] > 0;
        }
        assert_int_equal(shown, width < 28 ? 1 : width < 38 ? 2 : 3);
    }
    cs_table_free(table);
}

static void no_line_is_wider_than_asked(void **state)
{
    (void)state;
    struct cs_table *table = jobs();
    for (int width = 4; width < 70; width++) {
        struct cs_buf out = {0};
        int widths[CS_ARRAY_LEN(columns)], shown = 0;
        cs_table_render(table, width, true, &out);
        for (const char *line = out.data; *line; line = strchr(line, '\n') + 1) {
            size_t n = strcspn(line, "\n");
            assert_true(cs_utf8_width(line, n) <= width);
            assert_true(n == 0 || line[n - 1] != ' ');
            assert_true(cs_utf8_valid(line, n));
        }
        cs_table_widths(table, width, widths);
        for (int i = 0; i < N; i++) {
            shown += widths[i] > 0;
            /* a column that may drop goes before a less important one */
            for (int k = 0; k < N; k++)
                assert_false(widths[i] && !widths[k] && columns[i].priority > columns[k].priority);
        }
        assert_true(shown >= 2);
        cs_buf_free(&out);
    }
    cs_table_free(table);
}

static void cell_is_exactly_as_wide_as_asked(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "a", "abcdef", "\xe7\x8c\xab\xe7\x8c\xab\xe7\x8c\xab", "e\xcc\x81x", "\xff\xfe"};
    for (size_t i = 0; i < CS_ARRAY_LEN(texts); i++)
        for (int width = 1; width < 9; width++)
            for (int align = 0; align < 2; align++) {
                struct cs_buf out = {0};
                cs_table_cell(&out, texts[i], width, (enum cs_align)align);
                assert_int_equal(cs_utf8_width(out.data, out.len), width);
                cs_buf_free(&out);
            }
}

static void utf8_decoder_refuses_what_is_not_utf8(void **state)
{
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xc0\xaf",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe2\x82",
                                      "\xf0\x9f\x98",
                                      "\xc3(",
                                      "\xff"};

    static const struct {
        const char *bytes;
        uint32_t code;
        int width;
    } good[] = {
        {"a",                'a',      1},
        {"\xc2\x80",         0x80,     1},
        {"\xdf\xbf",         0x7FF,    1},
        {"\xe0\xa0\x80",     0x800,    1},
        {"\xef\xbf\xbf",     0xFFFF,   1},
        {"\xf0\x90\x80\x80", 0x10000,  1},
        {"\xf4\x8f\xbf\xbf", 0x10FFFF, 1},
        {"\xcc\x81",         0x301,    0},
        {"\xe7\x8c\xab",     0x732B,   2},
        {"\xf0\x9f\x98\x80", 0x1F600,  2},
        {"\xe2\x94\x80",     0x2500,   1},
        {"\xe2\xa0\x81",     0x2801,   1},
    };

    uint32_t code;
    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        assert_int_equal(cs_utf8_decode(bad[i], strlen(bad[i]), &code), 0);
        assert_false(cs_utf8_valid(bad[i], strlen(bad[i])));
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(good); i++) {
        size_t n = strlen(good[i].bytes);
        assert_int_equal(cs_utf8_decode(good[i].bytes, n, &code), n);
        assert_int_equal(code, good[i].code);
        assert_int_equal(cs_utf8_width(good[i].bytes, n), good[i].width);
        assert_int_equal(cs_utf8_decode(good[i].bytes, n - 1, &code), 0);
    }
}

static void numbers_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    int64_t i;
    uint64_t u;
    double d;
    assert_true(cs_str_to_i64("-9223372036854775808", &i) && i == INT64_MIN);
    assert_true(cs_str_to_i64("9223372036854775807", &i) && i == INT64_MAX);
    assert_false(cs_str_to_i64("9223372036854775808", &i));
    assert_false(cs_str_to_i64("-9223372036854775809", &i));
    assert_false(cs_str_to_i64("-", &i));
    assert_false(cs_str_to_i64("", &i));
    assert_false(cs_str_to_i64(" 1", &i));
    assert_false(cs_str_to_i64("--1", &i));
    assert_true(cs_str_to_u64("18446744073709551615", &u) && u == UINT64_MAX);
    assert_false(cs_str_to_u64("18446744073709551616", &u));
    assert_true(cs_str_to_double("-2.5e-3", &d) && d > -0.00251 && d < -0.00249);
    assert_true(cs_str_to_double("1e-320", &d) && d > 0);
    static const char *const bad[] = {"",     "1e999", "0x1p3", "inf", "nan",
                                      "-inf", "-nan",  "1 ",    "1,5"};
    for (size_t k = 0; k < CS_ARRAY_LEN(bad); k++)
        if (cs_str_to_double(bad[k], &d))
            fail_msg("accepted '%s'", bad[k]);
    char small[4];
    assert_false(cs_str_copy(small, sizeof(small), "abcd"));
    assert_string_equal(small, "abc");
    assert_true(cs_str_copy(small, sizeof(small), "abc"));
}

/* Every unsafe code point, between two letters, in each form of text. */
static void no_text_can_steer_a_terminal(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x1b",         "\x07",         "\x7f",         "\xc2\x9b",         "\xc2\x85",
        "\xd8\x9c",     "\xe2\x80\x8b", "\xe2\x80\x8e", "\xe2\x80\xa8",     "\xe2\x80\xae",
        "\xe2\x81\xa6", "\xe2\x81\xa9", "\xef\xbb\xbf", "\xf3\xa0\x81\xa1", "\x9b",
        "\xff"};
    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        struct cs_buf line = {0}, text = {0}, all = {0};
        cs_buf_addf(&all, "a\n\t%sb", bad[i]);
        cs_str_escape(&line, all.data, all.len, false);
        cs_str_clean(&text, all.data, all.len);
        assert_null(strstr(line.data, bad[i]));
        assert_null(strstr(text.data, bad[i]));
        assert_true(cs_utf8_valid(line.data, line.len) && cs_utf8_valid(text.data, text.len));
        assert_null(strpbrk(line.data, "\n\t"));
        assert_int_equal(strncmp(text.data, "a\n\t\\", 4), 0);
        cs_buf_free(&line);
        cs_buf_free(&text);
        cs_buf_free(&all);
    }
}

static void harmless_text_of_any_script_stays(void **state)
{
    (void)state;
    /* a family joined by U+200D, Persian with U+200C, Hebrew, combining marks, a flag */
    static const char text[] = "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7 "
                               "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae "
                               "\xd7\xa9\xd7\x9c e\xcc\x81 \xf0\x9f\x87\xa9\xf0\x9f\x87\xaa\n\tend";
    struct cs_buf out = {0};
    cs_str_clean(&out, text, sizeof text - 1);
    assert_string_equal(out.data, text);
    cs_buf_reset(&out);
    cs_str_clean(&out, "\xe2\x80\xae\x1b[1m", 7);
    assert_string_equal(out.data, "\\u{202e}\\x1b[1m");
    cs_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_table_shows_everything),
        cmocka_unit_test(narrow_table_shrinks_then_drops_by_priority),
        cmocka_unit_test(figures_are_whole_or_not_there),
        cmocka_unit_test(no_line_is_wider_than_asked),
        cmocka_unit_test(cell_is_exactly_as_wide_as_asked),
        cmocka_unit_test(utf8_decoder_refuses_what_is_not_utf8),
        cmocka_unit_test(numbers_are_read_whole_or_not_at_all),
        cmocka_unit_test(no_text_can_steer_a_terminal),
        cmocka_unit_test(harmless_text_of_any_script_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
