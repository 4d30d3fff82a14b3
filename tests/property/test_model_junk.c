/* Every value of a job specification, replaced in turn by every kind of junk, is accepted or
 * refused with a text, never a crash: what the daemon reads comes from anybody who can reach its
 * socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/model/graph.h"
#include "support/spec.h"

static const char *const junk[] = {"null",
                                   "true",
                                   "0",
                                   "-1",
                                   "1",
                                   "7",
                                   "2147483648",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "1e308",
                                   "-0.5",
                                   "\"\"",
                                   "\"x\"",
                                   "\"/\"",
                                   "\"llm\"",
                                   "\"*\"",
                                   "\"\\u0000\"",
                                   "[]",
                                   "[[]]",
                                   "[1,2]",
                                   "[null]",
                                   "{}",
                                   "{\"\":1}",
                                   "{\"pp\":{}}",
                                   "{\"kind\":\"llm\"}",
                                   "{\"model_type\":\"siglip\"}",
                                   "{\"model_type\":\"llama\"}"};

struct count {
    int tried, refused;
};

static void try_document(const json_t *root, struct count *count)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    enum cs_status status = cs_spec_read(root, arena, &spec, &err);
    if (status == CS_OK)
        status = cs_graph_build(spec, true, arena, &graph, &err);
    count->tried++;
    if (status != CS_OK) {
        count->refused++;
        assert_true(strlen(err.text) > 10);
        assert_int_equal(err.status, status);
    } else {
        assert_true(graph->n_layers > 0);
    }
    cs_arena_free(arena);
}

static void replace_all(const json_t *root, json_t *at, struct count *count);

/* Junk in the place of one child; the child itself is put back and entered. */
static void replace_one(const json_t *root, json_t *at, const char *key, size_t index,
                        struct count *count)
{
    json_t *old = key != NULL ? json_object_get(at, key) : json_array_get(at, index);
    json_incref(old);
    for (size_t i = 0; i < CS_ARRAY_LEN(junk); i++) {
        json_t *value = json_loads(junk[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        if (key != NULL)
            json_object_set_new(at, key, value);
        else
            json_array_set_new(at, index, value);
        try_document(root, count);
    }
    if (key != NULL)
        json_object_set(at, key, old);
    else
        json_array_set(at, index, old);
    replace_all(root, old, count);
    json_decref(old);
}

static void replace_all(const json_t *root, json_t *at, struct count *count)
{
    const char *keys[64];
    const char *key;
    json_t *value;
    int n = 0;
    json_object_foreach(at, key, value)
    {
        assert_true(n < 64);
        keys[n++] = key;
    }
    for (int i = 0; i < n; i++)
        replace_one(root, at, keys[i], 0, count);
    for (size_t i = 0; i < json_array_size(at); i++)
        replace_one(root, at, NULL, i, count);
}

static void junk_in_any_place_is_refused_or_taken(void **state)
{
    struct count count = {0};
    (void)state;
    json_t *root =
        cs_test_spec_json(&(struct cs_test_spec){.has_feature_layer = true,
                                                 .feature_layer = -2,
                                                 .rules = "train:llm freeze:llm.layers.0-1"});
    json_object_set_new(root, "eval", json_pack("{s:{s:s}}", "data", "json", "/t.json"));
    json_object_set_new(root, "lr", json_pack("{s:s}", "kind", "cosine"));
    json_object_set_new(root, "checkpoint", json_pack("{s:i}", "keep", 2));
    json_object_set_new(json_object_get(root, "plan"), "encoder_rows",
                        json_pack("{s:i}", "vision", 64));
    try_document(root, &count);
    assert_int_equal(count.refused, 0);
    replace_all(root, root, &count);
    assert_true(count.tried > 1500);
    assert_true(count.refused > count.tried / 2 && count.refused < count.tried);
    try_document(root, &count); /* all is back in place */
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junk_in_any_place_is_refused_or_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
