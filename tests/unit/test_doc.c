/* The reader of documents: what it says of unknown keys, wrong types, refused values, two spellings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/doc/doc.h"
#include "core/doc/json_text.h"

static const struct cs_doc_key inner_rows[] = {
    {.names = "factor",         .types = CS_DOC_POSITIVE, .max = 1e6                },
    {.names = "rope_type|type", .types = CS_DOC_STRING,   .accept = "default|linear"},
};
static const struct cs_doc_table inner = CS_DOC_TABLE(inner_rows, NULL);

static const struct cs_doc_key by_id_rows[] = {
    {.names = "*", .types = CS_DOC_OBJECT, .inside = &inner},
};
static const struct cs_doc_table by_id = CS_DOC_TABLE(by_id_rows, NULL);

static const struct cs_doc_key common_rows[] = {
    {.names = "transformers_version", .types = CS_DOC_STRING, .use = CS_DOC_HARMLESS},
};
static const struct cs_doc_table common = CS_DOC_TABLE(common_rows, NULL);

static const struct row {
    struct cs_doc_key doc;
    int something_else;
} rows[] = {
    {{.names = "hidden_size", .types = CS_DOC_INT, .min = 1, .max = 64},                  1},
    {{.names = "eps", .types = CS_DOC_NUMBER},                                            2},
    {{.names = "tie", .types = CS_DOC_BOOL},                                              3},
    {{.names = "act", .types = CS_DOC_STRING, .accept = "gelu|silu"},                     4},
    {{.names = "rope_scaling|rope_parameters", .types = CS_DOC_OBJECT, .inside = &inner}, 5},
    {{.names = "turns", .types = CS_DOC_LIST, .inside = &inner},                          6},
    {{.names = "added", .types = CS_DOC_OBJECT, .inside = &by_id},                        7},
    {{.names = "dropout",
      .types = CS_DOC_NUMBER,
      .use = CS_DOC_REFUSED,
      .only = "0",
      .text = "dropout is not done"},
     8                                                                                     },
    {{.names = "quantization",
      .types = CS_DOC_ANY,
      .use = CS_DOC_REFUSED,
      .text = "quantized weights are not read"},
     9                                                                                     },
};
static const struct cs_doc_table table = CS_DOC_TABLE(rows, &common);

struct outcome {
    struct cs_arena *arena;
    struct cs_findings findings;
    struct cs_err err;
    enum cs_status status;
};

static struct outcome check(const char *text)
{
    struct outcome o = {.arena = cs_arena_new(0)};
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    o.findings.arena = o.arena;
    o.status =
        cs_doc_review(&(struct cs_doc){"config.json", "", json, &table}, &o.findings, &o.err);
    json_decref(json);
    return o;
}

static void done(struct outcome *o)
{
    cs_arena_free(o->arena);
}

/* The document gives one finding of this kind with this text. */
static void expect(const char *text, enum cs_finding_kind kind, const char *path, const char *said)
{
    struct outcome o = check(text);
    assert_int_equal(o.findings.n, 1);
    const struct cs_finding *f = &o.findings.items[0];
    assert_int_equal(f->kind, kind);
    assert_string_equal(f->path, path);
    assert_string_equal(f->text, said);
    assert_int_equal(o.status != CS_OK, cs_finding_is_error(kind));
    if (o.status != CS_OK)
        assert_string_equal(o.err.text, said);
    done(&o);
}

static void a_document_as_it_should_be_gives_no_finding(void **state)
{
    (void)state;
    struct outcome o = check(
        "{\"hidden_size\": 48, \"eps\": 1, \"tie\": true, \"act\": \"silu\", \"dropout\": 0.0, "
        "\"rope_parameters\": {\"type\": \"linear\", \"factor\": 2}, \"transformers_version\": 5, "
        "\"turns\": [{\"factor\": 1}], \"added\": {\"7\": {\"factor\": 1}}}");
    assert_int_equal(o.status, CS_OK);
    assert_int_equal(o.findings.n, 0);
    done(&o);
}

static void null_is_absent_everywhere(void **state)
{
    (void)state;
    struct outcome o = check("{\"hidden_size\": null, \"unheard\": null, \"quantization\": null, "
                             "\"rope_scaling\": {\"factor\": null, \"other\": null}}");
    assert_int_equal(o.status, CS_OK);
    assert_int_equal(o.findings.n, 0);
    done(&o);
}

static void an_unknown_key_is_found_with_the_nearest_name(void **state)
{
    (void)state;
    expect("{\"hiden_size\": 48}", CS_FINDING_UNKNOWN, "hiden_size",
           "config.json: hiden_size 48 is a key that nothing reads; did you mean \"hidden_size\"?");
    expect("{\"rope_scaling\": {\"facto\": 2}}", CS_FINDING_UNKNOWN, "rope_scaling.facto",
           "config.json: rope_scaling.facto 2 is a key that nothing reads; did you mean "
           "\"factor\"?");
    expect("{\"added\": {\"7\": {\"zzzzzz\": \"a\"}}}", CS_FINDING_UNKNOWN, "added[7].zzzzzz",
           "config.json: added[7].zzzzzz \"a\" is a key that nothing reads");
}

static void a_known_key_of_a_wrong_type_is_an_error_with_its_place_and_value(void **state)
{
    (void)state;
    expect("{\"hidden_size\": \"48\"}", CS_FINDING_WRONG, "hidden_size",
           "config.json: hidden_size is \"48\"; it must be a whole number from 1 to 64");
    expect("{\"hidden_size\": 48.5}", CS_FINDING_WRONG, "hidden_size",
           "config.json: hidden_size is 48.5; it must be a whole number from 1 to 64");
    expect("{\"hidden_size\": -1}", CS_FINDING_WRONG, "hidden_size",
           "config.json: hidden_size is -1; it must be a whole number from 1 to 64");
    expect("{\"tie\": 1}", CS_FINDING_WRONG, "tie",
           "config.json: tie is 1; it must be true or false");
    expect("{\"act\": \"silo\"}", CS_FINDING_REFUSED, "act",
           "config.json: act \"silo\" is not supported (did you mean \"silu\"?); these are: "
           "gelu|silu");
    expect("{\"act\": [\"silu\"]}", CS_FINDING_WRONG, "act",
           "config.json: act is [\"silu\"]; it must be a string");
    expect("{\"turns\": [{\"factor\": 0}]}", CS_FINDING_WRONG, "turns[0].factor",
           "config.json: turns[0].factor is 0; it must be a number above 0 up to 1000000");
    expect("{\"dropout\": false}", CS_FINDING_WRONG, "dropout",
           "config.json: dropout is false; it must be a number");
}

static void a_refused_key_says_why_and_what_would_do(void **state)
{
    (void)state;
    expect("{\"dropout\": 0.1}", CS_FINDING_REFUSED, "dropout",
           "config.json: dropout is 0.1: dropout is not done; supported: 0");
    expect("{\"quantization\": {}}", CS_FINDING_REFUSED, "quantization",
           "config.json: quantization is {}: quantized weights are not read");
}

static void of_two_spellings_the_first_holds_and_the_other_is_named(void **state)
{
    (void)state;
    expect("{\"rope_parameters\": {\"factor\": 2}, \"rope_scaling\": {\"factor\": 4}}",
           CS_FINDING_SHADOWED, "rope_parameters",
           "config.json: rope_parameters {\"factor\":2} is not used: rope_scaling {\"factor\":4} "
           "holds");
    struct outcome o = check("{\"rope_scaling\": null, \"rope_parameters\": {\"factor\": 2}}");
    assert_int_equal(o.findings.n, 0);
    done(&o);
}

static void the_same_finding_of_many_elements_counts_once(void **state)
{
    (void)state;
    struct outcome o = check("{\"turns\": [{\"a1\": 1}, {\"a1\": 2}, {\"b1\": 2}]}");
    assert_int_equal(o.findings.n, 2);
    assert_int_equal(o.findings.items[0].n, 2);
    assert_string_equal(o.findings.items[0].path, "turns[0].a1");
    assert_int_equal(o.findings.items[1].n, 1);
    done(&o);
}

/* tokenizer_config.json of most models says 1000000000000000019884624838656 */
static void integers_of_any_size_are_read(void **state)
{
    static const char text[] =
        "{\"model_max_length\": 1000000000000000019884624838656, \"small\": -7, \"edge\": "
        "123456789012345678, \"text\": \"\\\"1000000000000000019884624838656\", "
        "\"e\": 1000000000000000019e1}";
    json_error_t why;
    (void)state;
    json_t *doc = cs_json_parse(text, sizeof text - 1, JSON_REJECT_DUPLICATES, &why);
    assert_non_null(doc);
    assert_true(json_real_value(json_object_get(doc, "model_max_length")) == 1e30);
    assert_int_equal(json_integer_value(json_object_get(doc, "small")), -7);
    assert_int_equal(json_integer_value(json_object_get(doc, "edge")), 123456789012345678);
    assert_string_equal(json_string_value(json_object_get(doc, "text")),
                        "\"1000000000000000019884624838656");
    assert_true(json_real_value(json_object_get(doc, "e")) == 1e19);
    json_decref(doc);
    assert_null(cs_json_parse("{\"a\": 1000000000000000019884624838656,\n\"b\": }", 46, 0, &why));
    assert_int_equal(why.line, 2);
    assert_null(cs_json_parse("{\"a\": 10000000000000000198\"", 27, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_as_it_should_be_gives_no_finding),
        cmocka_unit_test(null_is_absent_everywhere),
        cmocka_unit_test(an_unknown_key_is_found_with_the_nearest_name),
        cmocka_unit_test(a_known_key_of_a_wrong_type_is_an_error_with_its_place_and_value),
        cmocka_unit_test(a_refused_key_says_why_and_what_would_do),
        cmocka_unit_test(of_two_spellings_the_first_holds_and_the_other_is_named),
        cmocka_unit_test(the_same_finding_of_many_elements_counts_once),
        cmocka_unit_test(integers_of_any_size_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
