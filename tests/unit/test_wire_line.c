/* Hostile and honest lines against the reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"

static enum cs_status feed_text(struct cs_line_reader *reader, const char *text)
{
    return cs_line_feed(reader, text, strlen(text), NULL);
}

static enum cs_status parse(const char *text, struct cs_err *err)
{
    json_t *msg;
    enum cs_status st = cs_line_parse(text, strlen(text), &msg, err);
    assert_true((st == CS_OK) == (msg != NULL));
    json_decref(msg);
    return st;
}

static char *repeat(const char *head, const char *unit, size_t times, const char *tail)
{
    struct cs_buf buf = {0};
    cs_buf_adds(&buf, head);
    for (size_t i = 0; i < times; i++)
        cs_buf_adds(&buf, unit);
    cs_buf_adds(&buf, tail);
    return buf.data;
}

static void line_arrives_byte_by_byte(void **state)
{
    (void)state;
    static const char text[] = "{\"type\":\"ping\",\"id\":7}\n{\"type\":\"pong\"}\n";
    struct cs_line_reader *reader = cs_line_reader_new();
    int messages = 0;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        json_t *msg;
        assert_int_equal(cs_line_feed(reader, text + i, 1, NULL), CS_OK);
        assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
        assert_true((msg != NULL) == (text[i] == '\n'));
        if (msg)
            assert_string_equal(cs_msg_type(msg), messages++ ? "pong" : "ping");
        json_decref(msg);
    }
    assert_int_equal(messages, 2);
    assert_int_equal(cs_line_reader_pending(reader), 0);
    cs_line_reader_free(reader);
}

static void several_lines_in_one_read_come_in_order(void **state)
{
    (void)state;
    struct cs_line_reader *reader = cs_line_reader_new();
    json_t *msg;
    assert_int_equal(feed_text(reader, "\n \r\n{\"id\":0}\r\n{\"id\":1}\n\n{\"id\":2}\n{\"id\":3}"),
                     CS_OK);
    for (int64_t i = 0; i < 3; i++) {
        assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
        assert_int_equal(cs_msg_id(msg), i);
        json_decref(msg);
    }
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
    assert_null(msg); /* half a line is never delivered */
    assert_int_equal(cs_line_reader_pending(reader), 8);
    cs_line_reader_free(reader);
}

static void over_long_line_is_refused_while_it_arrives(void **state)
{
    (void)state;
    struct cs_line_reader *reader = cs_line_reader_new();
    struct cs_err err;
    json_t *msg;
    char chunk[1024];
    memset(chunk, 'a', sizeof(chunk));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(cs_line_feed(reader, chunk, sizeof(chunk), &err), CS_OK);
        assert_int_equal(cs_line_next(reader, &msg, &err), CS_OK);
    }
    assert_int_equal(cs_line_feed(reader, "a", 1, &err), CS_OK);
    assert_int_equal(cs_line_next(reader, &msg, &err), CS_LIMIT);
    assert_null(msg);
    assert_non_null(strstr(err.text, "4096"));
    assert_true(cs_line_reader_is_broken(reader));
    assert_int_equal(feed_text(reader, "\n{}\n"), CS_LIMIT); /* for good */
    assert_int_equal(cs_line_next(reader, &msg, &err), CS_LIMIT);
    assert_int_equal(cs_line_reader_pending(reader), 0);
    cs_line_reader_free(reader);
}

static void limit_counts_the_line_without_its_newline(void **state)
{
    (void)state;
    struct cs_line_reader *reader = cs_line_reader_new();
    json_t *msg;
    cs_line_reader_limit(reader, 10);
    assert_int_equal(feed_text(reader, "{\"a\":1234}\n"), CS_OK);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
    assert_non_null(msg);
    json_decref(msg);
    assert_int_equal(feed_text(reader, "{\"a\":12345}\n"), CS_OK);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_LIMIT);
    cs_line_reader_free(reader);
}

static void limit_raised_after_hello_holds_for_the_next_line(void **state)
{
    (void)state;
    struct cs_line_reader *reader = cs_line_reader_new();
    json_t *msg;
    char *big = repeat("{\"id\":1}\n{\"type\":\"", "x", 9000, "\"}\n");
    assert_int_equal(feed_text(reader, big), CS_OK);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
    assert_int_equal(cs_msg_id(msg), 1);
    json_decref(msg);
    cs_line_reader_limit(reader, 0);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
    assert_int_equal(strlen(cs_msg_type(msg)), 9000);
    json_decref(msg);
    free(big);
    cs_line_reader_free(reader);
}

static void reader_that_is_never_emptied_does_not_grow(void **state)
{
    (void)state;
    struct cs_line_reader *reader = cs_line_reader_new();
    char *lines = repeat("", "{}\n", 20000, "");
    enum cs_status st = CS_OK;
    for (int i = 0; i < 100 && st == CS_OK; i++)
        st = feed_text(reader, lines);
    assert_int_equal(st, CS_LIMIT);
    free(lines);
    cs_line_reader_free(reader);
}

static void bad_line_is_dropped_and_the_next_is_read(void **state)
{
    (void)state;
    struct cs_line_reader *reader = cs_line_reader_new();
    json_t *msg;
    assert_int_equal(feed_text(reader, "{\"a\":}\n[1]\n{\"type\":\"ping\"}\n"), CS_OK);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_INVALID);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_INVALID);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
    assert_string_equal(cs_msg_type(msg), "ping");
    assert_false(cs_line_reader_is_broken(reader));
    json_decref(msg);
    cs_line_reader_free(reader);
}

static void depth_16_passes_and_17_is_refused(void **state)
{
    (void)state;
    struct cs_err err;
    /* the object itself is level 1 */
    char *ok = repeat("{\"a\":", "[", 15, "]]]]]]]]]]]]]]]}");
    char *deep = repeat("{\"a\":", "[", 16, "]]]]]]]]]]]]]]]]}");
    char *bomb = repeat("{\"a\":", "[", 1000000, "");
    assert_int_equal(parse(ok, &err), CS_OK);
    assert_int_equal(parse(deep, &err), CS_LIMIT);
    assert_non_null(strstr(err.text, "16"));
    assert_int_equal(parse(bomb, &err), CS_LIMIT);
    free(ok);
    free(deep);
    free(bomb);
}

static void brackets_and_commas_inside_strings_do_not_count(void **state)
{
    (void)state;
    char *text = repeat("{\"a\":\"", "[{,\\\"\\\\", 200000, "\"}");
    assert_int_equal(parse(text, NULL), CS_OK);
    free(text);
}

static void huge_arrays_are_refused_before_parsing(void **state)
{
    (void)state;
    struct cs_err err;
    char *fits = repeat("{\"a\":[0", ",0", (size_t)cs_schema_max_items() - 1, "]}");
    char *wide = repeat("{\"a\":[0", ",0", (size_t)cs_schema_max_items(), "]}");
    /* many small arrays: the sum counts, and the line need not even be JSON */
    char *many = repeat("{\"a\":[[", "[1,2,3,4],", 300000, "");
    assert_int_equal(cs_line_scan(fits, strlen(fits), &err), CS_OK);
    assert_int_equal(parse(wide, &err), CS_LIMIT);
    assert_int_equal(parse(many, &err), CS_LIMIT);
    free(fits);
    free(wide);
    free(many);
}

static void values_in_one_line_are_limited_in_all(void **state)
{
    (void)state;
    struct cs_err err;
    struct cs_buf line = {0};
    cs_buf_adds(&line, "{\"a\":[");
    for (int i = 0; i < 20; i++) {
        char *part = repeat(i ? ",[0" : "[0", ",0", 60000, "]");
        cs_buf_adds(&line, part);
        free(part);
    }
    cs_buf_adds(&line, "]}");
    assert_int_equal(parse(line.data, &err), CS_LIMIT);
    assert_non_null(strstr(err.text, "values"));
    cs_buf_free(&line);
}

static void malformed_lines_are_invalid(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"a\":1,\"a\":2}",           /* duplicate key */
        "{\"a\":{\"b\":1,\"b\":1}}",   /* also inside */
        "{\"a\":\"\\u0000\"}",         /* NUL */
        "{\"a\":\"\xff\"}",            /* not UTF-8 */
        "{\"a\":\"\xc0\xaf\"}",        /* overlong */
        "{\"a\":\"\xed\xa0\x80\"}",    /* surrogate */
        "{\"a\":\"\\ud800\"}",         /* lone escape */
        "{\"a\":9223372036854775808}", /* over int64 */
        "{\"a\":1e400}",               /* over double */
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":1",
        "{\"a\":1}}",
        "{\"a\":1} x",
        "}{",
        "{\"a\":\"x",
        "{\"a\":\"x\\",
        "null",
        "3",
        "\"x\"",
        "[]",
        "{'a':1}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":1,}",
        "{,}",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct cs_err err;
        if (parse(lines[i], &err) != CS_INVALID)
            fail_msg("accepted: %s", lines[i]);
        assert_true(strlen(err.text) > 0);
    }
}

static void raw_nul_in_a_line_is_invalid(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":\"x\0y\"}\n\0\n{\"id\":5}\n";
    struct cs_line_reader *reader = cs_line_reader_new();
    json_t *msg;
    assert_int_equal(cs_line_feed(reader, text, sizeof(text) - 1, NULL), CS_OK);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_INVALID);
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_INVALID); /* NUL alone is no empty line */
    assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
    assert_int_equal(cs_msg_id(msg), 5);
    json_decref(msg);
    cs_line_reader_free(reader);
}

static void long_line_after_hello_passes_in_chunks(void **state)
{
    (void)state;
    struct cs_line_reader *reader = cs_line_reader_new();
    char *line = repeat("{\"type\":\"", "y", 3000000, "\"}\n");
    size_t n = strlen(line);
    json_t *msg = NULL;
    cs_line_reader_limit(reader, 0);
    for (size_t at = 0; at < n;) {
        size_t part = n - at < CS_LINE_FEED_MAX ? n - at : CS_LINE_FEED_MAX;
        assert_null(msg);
        assert_int_equal(cs_line_feed(reader, line + at, part, NULL), CS_OK);
        assert_int_equal(cs_line_next(reader, &msg, NULL), CS_OK);
        at += part;
    }
    assert_int_equal(strlen(cs_msg_type(msg)), 3000000);
    json_decref(msg);
    free(line);
    cs_line_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_arrives_byte_by_byte),
        cmocka_unit_test(several_lines_in_one_read_come_in_order),
        cmocka_unit_test(over_long_line_is_refused_while_it_arrives),
        cmocka_unit_test(limit_counts_the_line_without_its_newline),
        cmocka_unit_test(limit_raised_after_hello_holds_for_the_next_line),
        cmocka_unit_test(reader_that_is_never_emptied_does_not_grow),
        cmocka_unit_test(bad_line_is_dropped_and_the_next_is_read),
        cmocka_unit_test(depth_16_passes_and_17_is_refused),
        cmocka_unit_test(brackets_and_commas_inside_strings_do_not_count),
        cmocka_unit_test(huge_arrays_are_refused_before_parsing),
        cmocka_unit_test(values_in_one_line_are_limited_in_all),
        cmocka_unit_test(malformed_lines_are_invalid),
        cmocka_unit_test(raw_nul_in_a_line_is_invalid),
        cmocka_unit_test(long_line_after_hello_passes_in_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
