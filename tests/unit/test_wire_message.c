/* The schema table and every message that it describes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/wire/job_state.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

static enum cs_status check_row(const struct cs_message *row, const json_t *value,
                                struct cs_err *err)
{
    if (row->kind == CS_KIND_OBJECT)
        return cs_object_check(value, row->type, err);
    if (row->kind == CS_KIND_DOCUMENT)
        return cs_doc_check(value, err);
    return cs_msg_check(value, err);
}

static void every_example_passes_and_survives_the_wire(void **state)
{
    (void)state;
    size_t n;
    const struct cs_message *rows = cs_schema_messages(&n);
    assert_int_equal(n, CS_MSG_COUNT);
    for (size_t i = 0; i < n; i++) {
        struct cs_err err = {0};
        struct cs_buf line = {0};
        json_t *value = cs_msg_example(&rows[i]), *back;
        if (check_row(&rows[i], value, &err) != CS_OK)
            fail_msg("%s: %s", rows[i].type, err.text);
        assert_int_equal(cs_msg_encode(value, &line, &err), CS_OK);
        assert_int_equal(line.data[line.len - 1], '\n');
        assert_null(memchr(line.data, '\n', line.len - 1));
        assert_int_equal(cs_line_parse(line.data, line.len, &back, &err), CS_OK);
        assert_true(json_equal(value, back));
        json_decref(back);
        json_decref(value);
        cs_buf_free(&line);
    }
}

static void every_required_field_is_missed_by_name(void **state)
{
    (void)state;
    size_t n, n_fields, required = 0;
    const struct cs_message *rows = cs_schema_messages(&n);
    for (size_t i = 0; i < n; i++) {
        const struct cs_field *fields = cs_schema_fields(rows[i].id, &n_fields);
        for (size_t k = 0; k < n_fields; k++) {
            struct cs_err err = {0};
            json_t *value = cs_msg_example(&rows[i]);
            assert_int_equal(fields[k].message, rows[i].id);
            json_object_set_new(value, fields[k].key, json_null());
            enum cs_status with_null = check_row(&rows[i], value, NULL);
            json_object_del(value, fields[k].key);
            enum cs_status st = check_row(&rows[i], value, &err);
            assert_int_equal(st, fields[k].is_required ? CS_INVALID : CS_OK);
            /* null means unknown, except for an envelope's own key */
            assert_int_equal(with_null, st);
            if (st != CS_OK)
                assert_non_null(strstr(err.text, fields[k].key));
            required += fields[k].is_required;
            json_decref(value);
        }
    }
    assert_true(required > 50);
}

static void every_field_refuses_another_type(void **state)
{
    (void)state;
    size_t n, n_fields;
    const struct cs_message *rows = cs_schema_messages(&n);
    for (size_t i = 0; i < n; i++) {
        const struct cs_field *fields = cs_schema_fields(rows[i].id, &n_fields);
        for (size_t k = 0; k < n_fields; k++) {
            struct cs_err err = {0};
            json_t *value = cs_msg_example(&rows[i]);
            bool wants_string = fields[k].type == CS_FIELD_STR;
            if (fields[k].type == CS_FIELD_ANY) {
                json_decref(value);
                continue;
            }
            json_object_set_new(value, fields[k].key,
                                wants_string ? json_integer(3) : json_string("wrong"));
            if (check_row(&rows[i], value, &err) != CS_INVALID)
                fail_msg("%s.%s accepts a wrong type", rows[i].type, fields[k].key);
            assert_non_null(strstr(err.text, fields[k].key));
            json_decref(value);
        }
    }
}

static json_t *too_long(const struct cs_field *f)
{
    struct cs_buf text = {0};
    json_t *value = json_array();
    for (int64_t i = 0; f->type == CS_FIELD_STR && i <= f->max; i++)
        cs_buf_addc(&text, 'x');
    for (int64_t i = 0; f->type != CS_FIELD_STR && i <= f->max; i++)
        json_array_append_new(value, json_object());
    if (f->type == CS_FIELD_STR) {
        json_decref(value);
        value = json_string(text.data);
    }
    cs_buf_free(&text);
    return value;
}

static void every_range_is_enforced(void **state)
{
    (void)state;
    size_t n, n_fields, tried = 0;
    const struct cs_message *rows = cs_schema_messages(&n);
    for (size_t i = 0; i < n; i++) {
        const struct cs_field *fields = cs_schema_fields(rows[i].id, &n_fields);
        for (size_t k = 0; k < n_fields; k++) {
            const struct cs_field *f = &fields[k];
            bool is_int = f->type == CS_FIELD_INT;
            bool is_counted =
                f->type == CS_FIELD_STR || f->type == CS_FIELD_ARR || f->type == CS_FIELD_STRARR;
            if (!(is_int || is_counted) || (f->min == 0 && f->max == 0))
                continue;
            json_t *value = cs_msg_example(&rows[i]);
            if (is_int && f->max < INT64_MAX) {
                json_object_set_new(value, f->key, json_integer(f->max + 1));
                assert_int_equal(check_row(&rows[i], value, NULL), CS_INVALID);
            }
            if (is_int) {
                json_object_set_new(value, f->key, json_integer(f->min - 1));
                assert_int_equal(check_row(&rows[i], value, NULL), CS_INVALID);
            } else {
                json_object_set_new(value, f->key, too_long(f));
                assert_int_equal(check_row(&rows[i], value, NULL), CS_LIMIT);
            }
            json_decref(value);
            tried++;
        }
    }
    assert_true(tried > 100);
}

static void table_is_consistent(void **state)
{
    (void)state;
    size_t n, n_fields;
    const struct cs_message *rows = cs_schema_messages(&n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(rows[i].id, i);
        for (size_t j = 0; j < i; j++)
            assert_false(rows[j].kind == rows[i].kind && !strcmp(rows[j].type, rows[i].type));
        const struct cs_field *fields = cs_schema_fields(rows[i].id, &n_fields);
        for (size_t k = 0; k < n_fields; k++) {
            for (size_t j = 0; j < k; j++)
                assert_string_not_equal(fields[j].key, fields[k].key);
            if (fields[k].of[0])
                assert_non_null(cs_schema_object(fields[k].of));
            assert_true(strlen(fields[k].help) > 0);
            assert_true(fields[k].min <= fields[k].max || fields[k].max == 0);
        }
        if (rows[i].kind == CS_KIND_REPLY && strcmp(rows[i].type, "hello.ok") != 0 &&
            strcmp(rows[i].type, "pong") != 0)
            assert_int_equal(cs_schema_find(rows[i].type, false)->kind, CS_KIND_REQUEST);
    }
}

static void errors_inside_arrays_name_the_item(void **state)
{
    (void)state;
    struct cs_err err;
    json_t *msg;
    static const char text[] =
        "{\"type\":\"jobs.list\",\"reply\":true,\"jobs\":[{\"id\":1,\"name\":"
        "\"a\",\"state\":\"RUN\"},{\"id\":0,\"name\":\"b\",\"state\":\"RUN\"}]}";
    assert_int_equal(cs_line_parse(text, sizeof(text) - 1, &msg, &err), CS_OK);
    assert_int_equal(cs_msg_check(msg, &err), CS_INVALID);
    assert_string_equal(err.text, "jobs.list: jobs[1].id is 0, outside 1..9007199254740991");
    json_decref(msg);
}

static void unknown_type_is_unsupported_and_unknown_keys_pass(void **state)
{
    (void)state;
    struct cs_err err;
    json_t *msg = cs_msg_request("no.such", 1);
    assert_int_equal(cs_msg_check(msg, &err), CS_UNSUPPORTED);
    assert_int_equal(strncmp(err.text, "E_UNKNOWN_TYPE", 14), 0);
    cs_msg_set_str(msg, "type", "ping");
    cs_msg_set_str(msg, "from.the.future", "x");
    assert_int_equal(cs_msg_check(msg, &err), CS_OK);
    cs_msg_set_str(msg, "id", "seven");
    assert_int_equal(cs_msg_check(msg, &err), CS_INVALID);
    cs_msg_set_int(msg, "id", -1);
    assert_int_equal(cs_msg_check(msg, &err), CS_INVALID);
    cs_msg_set_str(msg, "type", "job"); /* an object is not a message */
    assert_int_equal(cs_msg_check(msg, &err), CS_UNSUPPORTED);
    json_decref(msg);
    msg = json_array();
    assert_int_equal(cs_msg_check(msg, &err), CS_INVALID);
    json_decref(msg);
    msg = json_object();
    assert_int_equal(cs_msg_check(msg, &err), CS_INVALID);
    json_decref(msg);
}

static void reply_repeats_type_and_id(void **state)
{
    (void)state;
    json_t *request = cs_msg_request("job.stop", 41);
    json_t *reply = cs_msg_reply(request);
    assert_string_equal(cs_msg_type(reply), "job.stop");
    assert_int_equal(cs_msg_id(reply), 41);
    assert_true(cs_msg_is_reply(reply));
    assert_int_equal(cs_msg_check(reply, NULL), CS_OK);
    json_decref(reply);
    json_decref(request);
    request = cs_msg_new("ping");
    reply = cs_msg_reply(request);
    assert_string_equal(cs_msg_type(reply), "pong");
    assert_int_equal(cs_msg_id(reply), -1);
    json_decref(reply);
    json_decref(request);
}

static void error_travels_with_status_and_text(void **state)
{
    (void)state;
    struct cs_err err, back;
    assert_int_equal(cs_fail(&err, CS_NOT_FOUND, "no job %d", 12), CS_NOT_FOUND);
    json_t *request = cs_msg_request("job.show", 3);
    json_t *msg = cs_msg_error(request, &err);
    struct cs_buf text = {0};
    assert_int_equal(cs_msg_check(msg, NULL), CS_OK);
    assert_int_equal(cs_msg_encode(msg, &text, NULL), CS_OK);
    assert_string_equal(text.data,
                        "{\"type\":\"error\",\"id\":3,\"reply\":true,\"error\":{\"status\":"
                        "\"not_found\",\"text\":\"no job 12\"}}\n");
    assert_int_equal(cs_msg_to_err(msg, &back), CS_NOT_FOUND);
    assert_string_equal(back.text, "no job 12");
    json_decref(msg);
    msg = cs_msg_error(NULL, &err);
    assert_int_equal(cs_msg_check(msg, NULL), CS_OK);
    assert_false(cs_msg_is_reply(msg));
    json_decref(msg);
    json_decref(request);
    cs_buf_free(&text);
}

static void non_finite_numbers_travel_as_words(void **state)
{
    (void)state;
    struct cs_buf line = {0};
    json_t *msg = cs_msg_new("event.step"), *back;
    cs_msg_set_int(msg, "step", 4);
    cs_msg_set_str(msg, "kind", "train");
    cs_msg_set_num(msg, "loss", (double)NAN);
    cs_msg_set_num(msg, "grad_norm", -(double)INFINITY);
    cs_msg_set_num(msg, "lr", (double)INFINITY);
    assert_int_equal(cs_msg_check(msg, NULL), CS_OK);
    assert_int_equal(cs_msg_encode(msg, &line, NULL), CS_OK);
    assert_non_null(strstr(line.data, "\"loss\":\"nan\",\"grad_norm\":\"-inf\",\"lr\":\"inf\""));
    assert_int_equal(cs_line_parse(line.data, line.len, &back, NULL), CS_OK);
    assert_true(isnan(cs_msg_num(back, "loss", 0)));
    assert_true(isinf(cs_msg_num(back, "grad_norm", 0)) && cs_msg_num(back, "grad_norm", 0) < 0);
    assert_true(isinf(cs_msg_num(back, "lr", 0)) && cs_msg_num(back, "lr", 0) > 0);
    cs_msg_set_str(back, "loss", "NaN");
    assert_int_equal(cs_msg_check(back, NULL), CS_INVALID); /* only the three words */
    cs_msg_set_str(back, "loss", NULL);
    assert_int_equal(cs_msg_check(back, NULL), CS_OK); /* null: unknown */
    cs_msg_set_str(back, "step", "inf");
    assert_int_equal(cs_msg_check(back, NULL), CS_INVALID); /* not in integer fields */
    json_decref(msg);
    json_decref(back);
    cs_buf_free(&line);
}

static void getters_give_the_default_for_absent_and_wrong(void **state)
{
    (void)state;
    json_t *msg = json_pack("{s:i,s:s,s:n,s:b,s:f}", "i", 5, "s", "x", "n", "b", 1, "f", 0.5);
    assert_int_equal(cs_msg_int(msg, "i", 9), 5);
    assert_int_equal(cs_msg_int(msg, "s", 9), 9);
    assert_int_equal(cs_msg_int(msg, "f", 9), 9);
    assert_int_equal(cs_msg_int(msg, "n", 9), 9);
    assert_string_equal(cs_msg_str(msg, "i", "d"), "d");
    assert_null(cs_msg_str(msg, "gone", NULL));
    assert_true(cs_msg_bool(msg, "b", false));
    assert_true(cs_msg_bool(msg, "i", true));
    assert_true(fabs(cs_msg_num(msg, "i", 9) - 5) <= 0);
    assert_true(fabs(cs_msg_num(msg, "f", 9) - 0.5) <= 0);
    assert_true(fabs(cs_msg_num(msg, "s", 9) - 9) <= 0);
    assert_null(cs_msg_obj(msg, "i"));
    assert_string_equal(cs_msg_type(NULL), "");
    json_decref(msg);
}

static void raw_bytes_become_text(void **state)
{
    (void)state;
    static const char raw[] = "ok \xff\xc3\xa9 \0 \x1b[31m\n";
    json_t *value = cs_json_bytes(raw, sizeof(raw) - 1);
    assert_string_equal(json_string_value(value), "ok \\xff\xc3\xa9 \\x00 \x1b[31m\n");
    struct cs_buf out = {0};
    cs_json_canonical(value, &out);
    assert_string_equal(out.data, "\"ok \\\\xff\xc3\xa9 \\\\x00 \\u001B[31m\\n\"");
    json_decref(value);
    cs_buf_free(&out);
}

static void canonical_form_is_golden(void **state)
{
    (void)state;
    static const char text[] =
        "{ \"b\" : [1, 2.5, 0.1, 1e22, -0.0, true, null], \"a\":{\"z\":\"\\u00e9\\n\",\"B\":3.0},"
        "\"\":\"\", \"aa\":9007199254740993 }";
    static const char golden[] =
        "{\"\":\"\",\"a\":{\"B\":3.0,\"z\":\"\xc3\xa9\\n\"},\"aa\":9007199254740993,"
        "\"b\":[1,2.5,0.10000000000000001,1e22,-0.0,true,null]}";
    struct cs_buf out = {0};
    json_t *value;
    assert_int_equal(cs_line_parse(text, sizeof(text) - 1, &value, NULL), CS_OK);
    cs_json_canonical(value, &out);
    assert_string_equal(out.data, golden);
    json_decref(value);
    cs_buf_free(&out);
}

static void line_over_16_mib_is_not_sent(void **state)
{
    (void)state;
    struct cs_buf out = {0};
    struct cs_err err;
    json_t *msg = cs_msg_new("event.log");
    char *big = test_malloc(CS_LINE_MAX + 1);
    memset(big, 'x', CS_LINE_MAX);
    big[CS_LINE_MAX] = '\0';
    cs_buf_adds(&out, "before");
    cs_msg_set_str(msg, "line", big);
    assert_int_equal(cs_msg_encode(msg, &out, &err), CS_LIMIT);
    assert_string_equal(out.data, "before");
    test_free(big);
    json_decref(msg);
    cs_buf_free(&out);
}

static void hello_agrees_on_the_smaller_minor(void **state)
{
    (void)state;
    struct cs_peer peer;
    struct cs_err err;
    json_t *hello = cs_hello_new(1, "cornstarch-console", "0.1.0", "owner");
    assert_int_equal(cs_hello_check(hello, &peer, &err), CS_OK);
    assert_int_equal(peer.minor, CS_PROTOCOL_MINOR);
    assert_string_equal(peer.program, "cornstarch-console");
    assert_true(peer.has_role && peer.role == CS_ROLE_OWNER);
    cs_msg_set_int(hello, "minor", 99);
    assert_int_equal(cs_hello_check(hello, &peer, &err), CS_OK);
    assert_int_equal(peer.minor, CS_PROTOCOL_MINOR);
    json_t *ok = cs_hello_ok_new(hello, "0.1.0", "node1", 42);
    assert_int_equal(cs_msg_int(ok, "minor", -1), CS_PROTOCOL_MINOR);
    assert_int_equal(cs_hello_check(ok, &peer, &err), CS_OK);
    json_decref(ok);
    cs_msg_set_int(hello, "major", 2);
    assert_int_equal(cs_hello_check(hello, &peer, &err), CS_UNSUPPORTED);
    cs_msg_set_str(hello, "major", "1");
    assert_int_equal(cs_hello_check(hello, &peer, &err), CS_INVALID);
    cs_msg_set_int(hello, "major", 1);
    cs_msg_set_str(hello, "role", "emperor");
    assert_int_equal(cs_hello_check(hello, &peer, &err), CS_INVALID);
    json_decref(hello);
    hello = cs_msg_request("jobs.list", 1);
    assert_int_equal(cs_hello_check(hello, &peer, &err), CS_STATE);
    json_decref(hello);
}

static void every_state_of_a_job_is_one_row(void **state)
{
    (void)state;
    for (enum cs_job_state i = 0; i < CS_JOB_STATE_COUNT; i++) {
        const struct cs_job_state_row *row = cs_job_state_row(i);
        const bool is_live = row->phase == CS_PHASE_LIVE, is_ended = row->phase == CS_PHASE_ENDED;
        assert_int_equal(row->state, i);
        assert_ptr_equal(cs_job_state_find(row->name), row);
        assert_true(strlen(row->name) < 16); /* what a history keeps */
        assert_true(strlen(row->help) > 0);
        assert_true(cs_job_state_is(row->name, row->phase));
        /* only a runner can pause and checkpoint, only a job without one can resume */
        assert_true(is_live || !(row->orders & (CS_ORDER_PAUSE | CS_ORDER_CHECKPOINT)));
        assert_true(!is_live || !(row->orders & CS_ORDER_RESUME));
        assert_true(!is_ended || !(row->orders & CS_ORDER_STOP));
        assert_true(row->mood != CS_MOOD_BAD || row->exit_code != 0);
        assert_non_null(strstr(CS_JOB_STATE_WORDS, row->name));
    }
    assert_null(cs_job_state_find("RESERVED"));
    assert_int_equal(cs_job_state_mood("RESERVED"), CS_MOOD_PLAIN);
}

static void documents_hide_nothing_and_lose_nothing(void **state)
{
    (void)state;
    static const char text[] = "a\x7f\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\xa1\"\\\x1b\xe7\x8c\xab";
    struct cs_buf out = {0};
    json_t *value = json_string(text), *back;
    cs_json_pretty(value, &out);
    assert_string_equal(out.data,
                        "\"a\\u007f\\u009b\\u202e\\udb40\\udc61\\\"\\\\\\u001B\xe7\x8c\xab\"\n");
    back = json_loadb(out.data, out.len, JSON_DECODE_ANY, NULL);
    assert_true(json_equal(value, back));
    json_decref(value);
    json_decref(back);
    cs_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_passes_and_survives_the_wire),
        cmocka_unit_test(every_required_field_is_missed_by_name),
        cmocka_unit_test(every_field_refuses_another_type),
        cmocka_unit_test(every_range_is_enforced),
        cmocka_unit_test(table_is_consistent),
        cmocka_unit_test(errors_inside_arrays_name_the_item),
        cmocka_unit_test(unknown_type_is_unsupported_and_unknown_keys_pass),
        cmocka_unit_test(reply_repeats_type_and_id),
        cmocka_unit_test(error_travels_with_status_and_text),
        cmocka_unit_test(non_finite_numbers_travel_as_words),
        cmocka_unit_test(getters_give_the_default_for_absent_and_wrong),
        cmocka_unit_test(raw_bytes_become_text),
        cmocka_unit_test(canonical_form_is_golden),
        cmocka_unit_test(documents_hide_nothing_and_lose_nothing),
        cmocka_unit_test(line_over_16_mib_is_not_sent),
        cmocka_unit_test(hello_agrees_on_the_smaller_minor),
        cmocka_unit_test(every_state_of_a_job_is_one_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
