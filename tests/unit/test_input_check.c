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
#include "input/data/early.h"
#include "input/media/cache.h"
#include "support/chat.h"
#include "support/spec.h"
#include "support/tmpdir.h"

#define TEXT(id, image, question, answer)                                                          \
    "{\"id\":\"" id "\"," image "\"conversations\":[{\"from\":\"human\",\"value\":\"" question     \
    "\"},{\"from\":\"gpt\",\"value\":\"" answer "\"}]}"

#define LONG "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"

/* A source over samples, text of a data set, and pictures in a directory of its own. */
struct world {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_source *source;
    char *dir;
};

static void open_world(struct world *w, const char *samples)
{
    const struct cs_source_options options = {0};
    struct cs_err err = {0};
    json_t *tok = chat_tokenizer_json(), *module = NULL;
    char *text = json_dumps(tok, JSON_COMPACT);
    size_t i = 0;

    *w = (struct world){
        .arena = cs_arena_new(0), .root = cs_test_spec_json(NULL), .dir = tmpdir_new()};
    tmpdir_write(tmpdir_path(w->dir, "tokenizer.json"), text, strlen(text));
    tmpdir_write(tmpdir_path(w->dir, "train.json"), samples, strlen(samples));
    json_array_foreach(json_object_get(json_object_get(w->root, "model"), "modules"), i, module)
    {
        if (strcmp(json_string_value(json_object_get(module, "kind")), "llm") != 0)
            continue;
        json_object_set_new(module, "tokenizer", json_string(w->dir));
        json_object_set_new(json_object_get(module, "config"), "vocab_size", json_integer(300));
    }
    json_t *data = json_object_get(w->root, "data");
    json_object_set_new(data, "json", json_string(tmpdir_path(w->dir, "train.json")));
    json_object_set_new(data, "images", json_string(w->dir));
    json_object_set_new(data, "template", json_pack("{s:s}", "name", "plain"));
    if (cs_spec_read(w->root, w->arena, &w->spec, &err) != CS_OK ||
        cs_graph_build(w->spec, true, w->arena, &w->graph, &err) != CS_OK ||
        cs_source_open(w->spec, w->graph, &w->spec->data, &options, &w->source, &err) != CS_OK)
        fail_msg("%s", err.text);
    json_decref(tok);
    free(text);
}

static void close_world(struct world *w)
{
    cs_source_close(w->source);
    cs_arena_free(w->arena);
    json_decref(w->root);
    tmpdir_free(w->dir);
}

static void every_fault_is_counted_by_reason(void **state)
{
    static const char samples[] = "[" TEXT("a", "", "hello", "red") "," TEXT(
        "b", "\"image\":\"no1.png\",", "q",
        "a") "," TEXT("c", "\"image\":\"no22.png\",", "q",
                      "a") "," TEXT("d", "", "q", "") "," TEXT("e", "", "hello hello hello",
                                                               "red") "]";
    struct cs_err err = {0};
    struct world w;

    (void)state;
    open_world(&w, samples);
    struct cs_check *check = malloc(sizeof(*check));
    assert_non_null(check);
    check->findings.arena = w.arena;
    assert_int_equal(cs_data_check(w.source, NULL, NULL, check, &err), CS_OK);
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
    close_world(&w);
}

/* 1 x 1 pixel, gray of 16 bits */
static const unsigned char gray16[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
    0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x10, 0x00, 0x00, 0x00,
    0x00, 0x6a, 0xee, 0x47, 0x16, 0x00, 0x00, 0x00, 0x0b, 0x49, 0x44, 0x41, 0x54, 0x78,
    0x9c, 0x63, 0x70, 0x60, 0x00, 0x00, 0x00, 0x83, 0x00, 0x41, 0x53, 0xff, 0x51, 0x58,
    0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

struct told {
    int n, n_bad, tokens;
};

static bool tell(void *user, const struct cs_check *so_far, const struct cs_loaded *sample,
                 const char *why)
{
    struct told *t = user;
    assert_int_equal(so_far->n_samples, ++t->n);
    t->n_bad += why != NULL;
    t->tokens += why == NULL ? sample->sample.n_tokens : 0;
    return true;
}

/* A slot has room for one picture: a sample with two is left out, and the counts say so. */
static void samples_larger_than_a_slot_are_counted(void **state)
{
    struct cs_slot_budget budget = {.seq_tokens = 128, .n_encoders = 1};
    const struct cs_source_options options = {.budget = &budget};
    struct cs_check *check = malloc(sizeof(*check));
    struct cs_source *source = NULL;
    struct cs_err err = {0};
    struct told told = {0};
    struct world w;

    (void)state;
    assert_non_null(check);
    open_world(&w, "[" TEXT("a", "\"image\":\"gray.png\",", "<image> q", "red") "," TEXT(
                       "b", "\"image\":[\"gray.png\",\"gray.png\"],", "<image><image> q", "a") "]");
    check->findings.arena = w.arena;
    tmpdir_write(tmpdir_path(w.dir, "gray.png"), gray16, sizeof(gray16));
    budget.enc[0] = (struct cs_item_budget){
        .item_rows = 16, .item_bytes = 28 * 28 * 3, .height = 28, .width = 28, .channels = 3};
    cs_budget_set_items(&budget.enc[0], 1);
    assert_int_equal(cs_source_open(w.spec, w.graph, &w.spec->data, &options, &source, &err),
                     CS_OK);
    assert_int_equal(cs_data_check(source, tell, &told, check, &err), CS_OK);
    assert_int_equal(check->n_good, 1);
    assert_int_equal(check->n_too_large, 1);
    assert_non_null(strstr(check->reasons[0].text, "2 items of <image>, a slot takes 1"));
    assert_int_equal(check->media[0].n_files, 1);
    assert_int_equal(check->media[0].n_rows, 16);
    assert_int_equal(check->media[0].n_patches, 16);
    assert_int_equal(check->media[0].largest.rows, 16);
    assert_string_equal(check->media[0].largest.name, "gray.png");
    assert_int_equal(told.n, 2);
    assert_int_equal(told.n_bad, 1);
    assert_int_equal(told.tokens, check->n_tokens);
    /* the plan's pictures are not those of the processor */
    budget.enc[0].height = 30;
    cs_source_close(source);
    assert_int_equal(cs_source_open(w.spec, w.graph, &w.spec->data, &options, &source, &err),
                     CS_PLAN);
    free(check);
    close_world(&w);
}

/* gray of 16 bits is read as transformers reads it, which is seldom what its owner wants to see */
static void pictures_that_become_white_are_counted(void **state)
{
    struct cs_check *check = malloc(sizeof(*check));
    struct cs_err err = {0};
    struct world w;

    (void)state;
    assert_non_null(check);
    open_world(&w, "[" TEXT("a", "\"image\":\"gray.png\",", "<image> q",
                            "red") "," TEXT("b", "", "q", "a") "]");
    check->findings.arena = w.arena;
    tmpdir_write(tmpdir_path(w.dir, "gray.png"), gray16, sizeof(gray16));
    assert_int_equal(cs_data_check(w.source, NULL, NULL, check, &err), CS_OK);
    assert_int_equal(check->n_good, 2);
    assert_int_equal(check->n_saturated, 1);
    free(check);
    close_world(&w);
}

static void what_a_job_would_not_train_is_listed(void **state)
{
    static const char samples[] = "[" TEXT("a", "", "q", "red") "," TEXT(
        "b", "\"vidoe\":1,\"caption\":\"x\",", "q",
        "a") "," TEXT("c", "\"video\":\"a.mp4\",", "q",
                      "a") "," TEXT("d", "\"video\":\"b.mp4\",", "q",
                                    "a") ","
                                         "{\"caption\":\"y\",\"conversations\":[{\"from\":"
                                         "\"human\",\"value\":\"q\"},"
                                         "{\"from\":\"gpt\",\"value\":\"a\",\"weight\":0}]}," TEXT(
                                             "f", "", "" LONG LONG LONG LONG, "a") "]";
    struct cs_check *check = malloc(sizeof(*check));
    struct cs_err err = {0};
    struct world w;

    (void)state;
    assert_non_null(check);
    open_world(&w, samples);
    check->findings.arena = w.arena;
    assert_int_equal(cs_data_check(w.source, NULL, NULL, check, &err), CS_OK);
    assert_int_equal(check->n_good, 2);
    assert_int_equal(check->n_untrained, 1);
    assert_int_equal(check->n_too_long, 1);
    assert_true(check->longest_rows > w.spec->seq_tokens);
    assert_int_equal(check->media[0].n_items, 0);
    assert_int_equal(cs_findings_count(&check->findings, CS_FINDING_UNKNOWN), 2);
    assert_int_equal(check->findings.items[1].n, 2); /* caption */
    assert_int_equal(check->reasons[0].count, 2);    /* two videos are one reason, with its words */
    assert_non_null(strstr(check->reasons[0].text, "video is \"a.mp4\": no encoder"));
    for (int i = 0; i < check->n_reasons; i++)
        if (strstr(check->reasons[i].text, "rows after expansion") != NULL)
            assert_non_null(strstr(check->reasons[i].text, "seq_tokens is 128"));
    free(check);
    close_world(&w);
}

/* Errors of the first look at a data set; "": none. */
static void expect_early(const char *samples, int seq_tokens, const char *why)
{
    struct cs_early early;
    struct cs_err err = {0};
    struct world w;

    open_world(&w, samples);
    w.spec->seq_tokens = seq_tokens;
    enum cs_status status = cs_early_look(w.spec, w.graph, NULL, &w.spec->data, NULL, &early, &err);
    if ((status == CS_OK) != (why[0] == '\0') || (status != CS_OK && strstr(err.text, why) == NULL))
        fail_msg("got \"%s\", want \"%s\"", status == CS_OK ? "" : err.text, why);
    if (status == CS_OK) /* of more than one sample */
        assert_true(early.prepare_ns > 0 && early.prepare_ns < (int64_t)60e9);
    close_world(&w);
}

static void a_first_look_finds_what_no_step_could_use(void **state)
{
    static const char two[] = "[" TEXT("a", "\"image\":\"a.png\",", "<image>q", "a") "," TEXT(
        "b", "\"image\":\"b.png\",", "<image>q", "a") "]";
    struct cs_buf late = {0};

    (void)state;
    expect_early("[" TEXT("a", "", "q", "a") "]", 128, "encoder vision gets no item");
    expect_early(two, 3, "seq_tokens is below every one of the 2 samples");
    expect_early(two, 128, "missing file");
    expect_early("[" TEXT("a", "", "q", "") "]", 128, "empty answer");
    /* the only picture is that of the last of many samples */
    cs_buf_addc(&late, '[');
    for (int i = 0; i < 600; i++)
        cs_buf_adds(&late, TEXT("a", "", "q", "a") ",");
    cs_buf_adds(&late, TEXT("z", "\"image\":\"z.png\",", "<image>q", "a") "]");
    expect_early(cs_buf_str(&late), 128, "");
    cs_buf_free(&late);
}

/* so much, and not a byte less */
static void takes_memory(const struct cs_spec *spec, const struct cs_early *early, int64_t bytes)
{
    struct cs_err err = {0};
    assert_int_equal(cs_early_batch(spec, early, bytes, &err), CS_OK);
    assert_int_equal(cs_early_batch(spec, early, bytes - 1, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "loaded ahead"));
}

static void a_step_that_nothing_holds_is_refused(void **state)
{
    struct cs_spec spec = {.batch_samples = 1024, .seq_tokens = 100};
    struct cs_early early = {.mean_rows = 20, .mean_bytes = 1 << 20};
    struct cs_err err = {0};

    (void)state;
    assert_int_equal(cs_early_batch(&spec, &early, (int64_t)2 << 30, &err), CS_OK);
    assert_int_equal(cs_early_batch(&spec, &early, ((int64_t)2 << 30) - 1, &err), CS_INVALID);
    spec.batch_samples = 20481; /* 20480 samples of 20 rows are in 4096 slots of 100 */
    assert_int_equal(cs_early_batch(&spec, &early, 0, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "20480 samples"));
    spec.batch_samples = 4096;
    spec.seq_tokens = 1000;
    takes_memory(&spec, &early, (int64_t)5 << 30); /* a step of 4 GiB, 1024 samples ahead */
    spec.batch_samples = 512;
    early.mean_bytes = 4 << 20; /* a step of 2 GiB; as much ahead, and a sample of every thread */
    takes_memory(&spec, &early, ((int64_t)4 << 30) + 2 * early.mean_bytes);
    spec.data_threads = 5;
    takes_memory(&spec, &early, ((int64_t)4 << 30) + 5 * early.mean_bytes);
    spec.has_eval = true;
    takes_memory(&spec, &early, ((int64_t)6 << 30) + 10 * early.mean_bytes);
    spec.eval_max_samples = 3;
    takes_memory(&spec, &early, ((int64_t)4 << 30) + 8 * early.mean_bytes);
    spec = (struct cs_spec){.batch_samples = 2, .seq_tokens = 1000, .data_threads = 8};
    takes_memory(&spec, &early, 34 * early.mean_bytes); /* 4 of every thread */
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
        cs_cache_put(cache, (uint64_t)i % 2, path, in, N);
        assert_true(cs_cache_bytes(cache) <= 20000);
        assert_true(cs_cache_get(cache, (uint64_t)i % 2, path, out, N));
        assert_memory_equal(in, out, N);
        assert_false(
            cs_cache_get(cache, 1 - (uint64_t)i % 2, path, out, N)); /* another encoder's size */
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
        cmocka_unit_test(samples_larger_than_a_slot_are_counted),
        cmocka_unit_test(pictures_that_become_white_are_counted),
        cmocka_unit_test(what_a_job_would_not_train_is_listed),
        cmocka_unit_test(a_first_look_finds_what_no_step_could_use),
        cmocka_unit_test(a_step_that_nothing_holds_is_refused),
        cmocka_unit_test(cache_gives_back_what_was_put_and_stays_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
