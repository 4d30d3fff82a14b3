/* data check: counts, reasons with examples, longest samples; and the picture cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/data/check.h"
#include "input/media/cache.h"
#include "support/chat.h"
#include "support/spec.h"
#include "support/tmpdir.h"

#define TEXT(id, image, question, answer)                                                          \
    "{\"id\":\"" id "\"," image "\"conversations\":[{\"from\":\"human\",\"value\":\"" question     \
    "\"},{\"from\":\"gpt\",\"value\":\"" answer "\"}]}"

static void every_fault_is_counted_by_reason(void **state)
{
    static const char samples[] = "[" TEXT("a", "", "hello", "red") "," TEXT(
        "b", "\"image\":\"no1.png\",", "q",
        "a") "," TEXT("c", "\"image\":\"no22.png\",", "q",
                      "a") "," TEXT("d", "", "q", "") "," TEXT("e", "", "hello hello hello",
                                                               "red") "]";
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    struct cs_source *source = NULL;
    struct cs_err err = {0};
    char *dir = tmpdir_new();
    json_t *tok = chat_tokenizer_json(), *module = NULL;
    char *text = json_dumps(tok, JSON_COMPACT);
    size_t i = 0;

    (void)state;
    tmpdir_write(tmpdir_path(dir, "tokenizer.json"), text, strlen(text));
    tmpdir_write(tmpdir_path(dir, "train.json"), samples, sizeof(samples) - 1);
    json_t *root = cs_test_spec_json(NULL);
    json_array_foreach(json_object_get(json_object_get(root, "model"), "modules"), i, module)
    {
        if (strcmp(json_string_value(json_object_get(module, "kind")), "llm") != 0)
            continue;
        json_object_set_new(module, "tokenizer", json_string(dir));
        json_object_set_new(json_object_get(module, "config"), "vocab_size", json_integer(300));
    }
    json_t *data = json_object_get(root, "data");
    json_object_set_new(data, "json", json_string(tmpdir_path(dir, "train.json")));
    json_object_set_new(data, "images", json_string(""));
    json_object_set_new(data, "template", json_pack("{s:s}", "name", "plain"));
    if (cs_spec_read(root, arena, &spec, &err) != CS_OK ||
        cs_graph_build(spec, true, arena, &graph, &err) != CS_OK ||
        cs_source_open(spec, graph, NULL, &spec->data, 0, &source, &err) != CS_OK)
        fail_msg("%s", err.text);

    struct cs_check *check = malloc(sizeof(*check));
    assert_non_null(check);
    assert_int_equal(cs_data_check(source, NULL, NULL, check, &err), CS_OK);
    assert_int_equal(check->n_samples, 5);
    assert_int_equal(check->n_good, 2);
    assert_int_equal(check->n_bad, 3);
    assert_int_equal(check->n_labels, 4); /* "red" and the newline, twice */
    assert_int_equal(check->n_reasons, 2);
    assert_int_equal(check->reasons[0].count, 2); /* two missing pictures are one reason */
    assert_int_equal(check->reasons[0].example[1], 2);
    assert_non_null(strstr(check->reasons[0].text, "missing file"));
    assert_non_null(strstr(check->reasons[1].text, "empty answer"));
    assert_int_equal(check->n_longest, 2);
    assert_string_equal(check->longest[0].id, "e");
    assert_true(check->longest[0].tokens > check->longest[1].tokens);
    uint64_t n = 0;
    for (int b = 0; b < CS_CHECK_BINS; b++)
        n += check->bins[b];
    assert_int_equal(n, 2);

    free(check);
    cs_source_close(source);
    cs_arena_free(arena);
    json_decref(root);
    json_decref(tok);
    free(text);
    tmpdir_free(dir);
}

static void cache_gives_back_what_was_put_and_stays_small(void **state)
{
    enum { N = 1000 };
    struct cs_cache *cache = cs_cache_new(20000), *none = cs_cache_new(0);
    uint8_t in[N], out[N];
    char path[32];

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof(path), "p%d", i);
        memset(in, i, N);
        cs_cache_put(cache, i % 2, path, in, N);
        assert_true(cs_cache_bytes(cache) <= 20000);
        assert_true(cs_cache_get(cache, i % 2, path, out, N));
        assert_memory_equal(in, out, N);
        assert_false(cs_cache_get(cache, 1 - i % 2, path, out, N));  /* another encoder's size */
        assert_true(i == 0 || cs_cache_get(cache, 0, "p0", out, N)); /* in use: stays */
    }
    assert_false(cs_cache_get(cache, 1, "p1", out, N)); /* not used: gone */
    cs_cache_put(none, 0, "x", in, N);
    assert_false(cs_cache_get(none, 0, "x", out, N));
    cs_cache_free(cache);
    cs_cache_free(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_counted_by_reason),
        cmocka_unit_test(cache_gives_back_what_was_put_and_stays_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
