/* Random JSON through random cuts: what goes in comes out, whatever the reads look like, and the
 * raw scan never refuses what the writer makes within the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static json_t *random_text(uint64_t *seed)
{
    static const char special[] = "\"\\{}[],:\n\t\xc3\xa9";
    char bytes[24];
    size_t n = next(seed) % sizeof(bytes);
    for (size_t i = 0; i < n; i++) {
        if (next(seed) % 4)
            bytes[i] = special[next(seed) % (sizeof(special) - 1)];
        else
            bytes[i] = (char)next(seed);
    }
    return cs_json_bytes(bytes, n);
}

static double random_double(uint64_t *seed)
{
    double value;
    uint64_t bits = next(seed);
    memcpy(&value, &bits, sizeof(value));
    return value; /* any bit pattern: also NaN, infinities, denormals */
}

static json_t *random_value(uint64_t *seed, int depth)
{
    json_t *value;
    switch (next(seed) % (depth < CS_JSON_MAX_DEPTH ? 7 : 5)) {
    case 0:
        return random_text(seed);
    case 1:
        return json_integer((json_int_t)next(seed));
    case 2:
        return cs_json_num(random_double(seed));
    case 3:
        return json_boolean(next(seed) % 2);
    case 4:
        return json_null();
    case 5:
        value = json_array();
        for (uint64_t i = next(seed) % 4; i > 0; i--)
            json_array_append_new(value, random_value(seed, depth + 1));
        return value;
    default:
        value = json_object();
        for (uint64_t i = next(seed) % 4; i > 0; i--) {
            json_t *key = random_text(seed);
            json_object_set_new(value, json_string_value(key), random_value(seed, depth + 1));
            json_decref(key);
        }
        return value;
    }
}

#define MESSAGES 20

static void run_once(uint64_t seed)
{
    json_t *sent[MESSAGES];
    struct cs_buf stream = {0}, one = {0}, two = {0};
    struct cs_line_reader *reader = cs_line_reader_new();
    int got = 0;
    cs_line_reader_limit(reader, 0);
    for (int i = 0; i < MESSAGES; i++) {
        sent[i] = cs_msg_request("x", i);
        cs_msg_set(sent[i], "value", random_value(&seed, 1));
        assert_int_equal(cs_msg_encode(sent[i], &stream, NULL), CS_OK);
    }
    for (size_t at = 0; at < stream.len;) {
        size_t n = 1 + next(&seed) % 97;
        n = n < stream.len - at ? n : stream.len - at;
        assert_int_equal(cs_line_feed(reader, stream.data + at, n, NULL), CS_OK);
        at += n;
        for (;;) {
            json_t *msg;
            struct cs_err err;
            if (cs_line_next(reader, &msg, &err) != CS_OK)
                fail_msg("%s", err.text);
            if (!msg)
                break;
            assert_true(got < MESSAGES);
            assert_true(json_equal(msg, sent[got]));
            cs_buf_reset(&one);
            cs_buf_reset(&two);
            cs_json_canonical(msg, &one);
            cs_json_canonical(sent[got], &two);
            assert_string_equal(one.data, two.data);
            json_decref(msg);
            got++;
        }
    }
    assert_int_equal(got, MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        json_decref(sent[i]);
    cs_line_reader_free(reader);
    cs_buf_free(&stream);
    cs_buf_free(&one);
    cs_buf_free(&two);
}

static void random_messages_survive_random_cuts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++)
        run_once(seed * UINT64_C(0x9E3779B97F4A7C15));
}

/* every damaged byte gives an error or another message, never a crash, and the reader lives on */
static void one_damaged_byte_never_breaks_the_reader(void **state)
{
    (void)state;
    uint64_t seed = 4711;
    size_t n;
    const struct cs_message *rows = cs_schema_messages(&n);
    for (int i = 0; i < 20000; i++) {
        struct cs_buf line = {0};
        struct cs_line_reader *reader = cs_line_reader_new();
        json_t *msg = cs_msg_example(&rows[next(&seed) % n]);
        assert_int_equal(cs_msg_encode(msg, &line, NULL), CS_OK);
        json_decref(msg);
        line.data[next(&seed) % (line.len - 1)] = (char)next(&seed);
        cs_buf_adds(&line, "{\"type\":\"ping\",\"id\":99}\n");
        assert_int_equal(cs_line_feed(reader, line.data, line.len, NULL), CS_OK);
        bool saw_ping = false;
        for (int k = 0; k < 4 && !saw_ping; k++) {
            enum cs_status st = cs_line_next(reader, &msg, NULL);
            if (st == CS_OK && msg) {
                (void)!cs_msg_check(msg, NULL);
                saw_ping = cs_msg_id(msg) == 99;
            }
            json_decref(msg);
        }
        assert_true(saw_ping);
        cs_line_reader_free(reader);
        cs_buf_free(&line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_messages_survive_random_cuts),
        cmocka_unit_test(one_damaged_byte_never_breaks_the_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
