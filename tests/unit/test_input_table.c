/* Tables of separated values as data sets: cells as Python's csv reads them, rows by number, what is wrong is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "input/data/dataset.h"
#include "input/data/shard/csv.h"
#include "support/keys.h"
#include "support/tmpdir.h"

/* The cells of a row, a '|' behind each. */
static void expect_cells(const char *row, char separator, const char *want)
{
    struct cs_buf got = {0};

    for (size_t at = 0; cs_csv_cell(row, strlen(row), separator, &at, &got);)
        cs_buf_addc(&got, '|');
    assert_string_equal(cs_buf_str(&got), want);
    cs_buf_free(&got);
}

/* Python: next(csv.reader([row])) */
static void cells_are_those_of_python(void **state)
{
    (void)state;
    expect_cells("a,b,c", ',', "a|b|c|");
    expect_cells("a,,c,", ',', "a||c||");
    expect_cells("", ',', "|");
    expect_cells("\"a,b\",c", ',', "a,b|c|");
    expect_cells("\"a\"\"b\",\"\"\"\"", ',', "a\"b|\"|");
    expect_cells("5\" pipe,\"x\"y", ',', "5\" pipe|xy|");
    expect_cells("\"two\nlines\",\"\"", ',', "two\nlines||");
    expect_cells("a;b,c", ';', "a|b,c|");
    expect_cells(" a, \"b\"", ',', " a| \"b\"|");
    assert_int_equal(cs_csv_separator_of("a;b;c,d", 7), ';');
    assert_int_equal(cs_csv_separator_of("\"a;b;c;d\",e", 11), ',');
    assert_int_equal(cs_csv_separator_of("a\tb", 3), '\t');
    assert_int_equal(cs_csv_separator_of("alone", 5), ',');
}

static enum cs_status open_table(const char *dir, const char *name, const char *text,
                                 struct cs_arena *arena, struct cs_dataset **out,
                                 struct cs_err *err)
{
    static const char *const tokens[] = {"<image>"};
    const char *path = tmpdir_path(dir, name);

    tmpdir_write(path, text, strlen(text));
    return cs_dataset_open(path, &(struct cs_dataset_options){.root = ""},
                           test_keys(tokens, 1, arena), out, err);
}

/* Sample i as "file: question> answer", or why it is none. */
static void expect_sample(const struct cs_dataset *set, uint64_t i, const char *want)
{
    struct cs_record *record = NULL;
    struct cs_err err = {0};
    struct cs_buf got = {0};

    if (cs_dataset_read(set, i, NULL, &record, &err) != CS_OK) {
        cs_buf_adds(&got, err.text);
    } else {
        if (record->n_files[0] > 0)
            cs_buf_addf(&got, "%s: ", record->files[0][0].name);
        for (int t = 0; t < record->n_turns; t++)
            for (int p = 0; p < record->turns[t].n_parts; p++)
                cs_buf_addf(&got, "%s%s",
                            record->turns[t].parts[p].text != NULL ? record->turns[t].parts[p].text
                                                                   : "",
                            t == 0 ? "> " : "");
    }
    if (strstr(cs_buf_str(&got), want) == NULL)
        fail_msg("sample %llu is \"%s\", not \"%s\"", (unsigned long long)i, cs_buf_str(&got),
                 want);
    cs_buf_free(&got);
    cs_record_free(record);
}

static void rows_are_samples(void **state)
{
    static const char *const texts[] = {
        "image,question,answer\na.png,what?,red\nb.png,\"who,\nand why?\",blue\n",
        "\xef\xbb\xbfimage;question;answer\r\na.png;what?;red\r\n\r\n\"b.png\";\"who,\nand "
        "why?\";blue",
        "image\tquestion\tanswer\na.png\twhat?\tred\nb.png\t\"who,\nand why?\"\tblue\n"};
    char *dir = tmpdir_new();
    struct cs_arena *arena = cs_arena_new(0);

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(texts); i++) {
        struct cs_dataset *set = NULL;
        struct cs_dataset_id id;
        struct cs_err err = {0};
        if (open_table(dir, i == 2 ? "t.TSV" : "t.csv", texts[i], arena, &set, &err) != CS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(cs_dataset_count(set), 2);
        expect_sample(set, 1, "b.png: who,\nand why?> blue");
        expect_sample(set, 0, "a.png: what?> red");
        cs_dataset_identity(set, &id);
        assert_int_equal(strlen(id.xxh3), 32);
        cs_dataset_close(set);
    }
    cs_arena_free(arena);
    tmpdir_free(dir);
}

static void lists_are_json_and_empty_cells_are_not_there(void **state)
{
    char *dir = tmpdir_new();
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_dataset *set = NULL;
    struct cs_err err = {0};

    (void)state;
    if (open_table(dir, "t.csv",
                   "images,conversations\n"
                   "\"[\"\"c.png\"\"]\",\"[{\"\"from\"\":\"\"human\"\",\"\"value\"\":\"\"q\"\"},{"
                   "\"\"from\"\":\"\"gpt\"\",\"\"value\"\":\"\"a\"\"}]\"\n"
                   ",\"[{\"\"from\"\":\"\"human\"\",\"\"value\"\":\"\"q\"\"},{\"\"from\"\":"
                   "\"\"gpt\"\",\"\"value\"\":\"\"b\"\"}]\"\n"
                   "x.png,one,two\n"
                   "\xff.png,\"[]\"\n",
                   arena, &set, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(cs_dataset_count(set), 4);
    expect_sample(set, 0, "c.png: q> a");
    expect_sample(set, 1, "q> b");
    expect_sample(set, 2, "the row has 3 cells, the row of names 2");
    expect_sample(set, 3, "images is not UTF-8");
    cs_dataset_close(set);
    cs_arena_free(arena);
    tmpdir_free(dir);
}

static void tables_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *text, *what;
    } rows[] = {
        {"",                   "holds no samples"            },
        {"image,answer\n\n\n", "holds no samples"            },
        {"a,b,a\n1,2,3\n",     "two columns are called \"a\""},
        {"a,b\n\"1,2\n3,4\n",  "inside of a cell in quotes"  },
        {"\xff\xfe"
         "a,b",       "UTF-16"                      },
        {"\x1f\x8b\x08",       "gzip"                        },
    };

    char *dir = tmpdir_new();
    struct cs_arena *arena = cs_arena_new(0);

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_dataset *set = NULL;
        struct cs_err err = {0};
        if (open_table(dir, "t.csv", rows[i].text, arena, &set, &err) == CS_OK)
            fail_msg("row %zu is a data set", i);
        if (strstr(err.text, rows[i].what) == NULL || strstr(err.text, "t.csv") == NULL)
            fail_msg("row %zu: %s", i, err.text);
    }
    cs_arena_free(arena);
    tmpdir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_those_of_python),
        cmocka_unit_test(rows_are_samples),
        cmocka_unit_test(lists_are_json_and_empty_cells_are_not_there),
        cmocka_unit_test(tables_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
