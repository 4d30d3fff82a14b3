/* The feeder against a real pool in this process: order, resume, bad samples, evaluation, flags. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <png.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/data_threads.h"
#include "core/data/sample_order.h"
#include "core/wire/wire.h"
#include "feeder/feeder.h"
#include "support/chat.h"
#include "support/planned.h"
#include "support/tmpdir.h"

enum { SAMPLES = 23, SIDE = 28, ROWS = 16, BATCH = 5, MAX_STEPS = 64, MAX_ROWS = 4096 };

/* One published manifest and what its slots held. */
struct seen {
    struct cs_manifest manifest; /* its counts are of the pool, and then of other steps */
    struct cs_slot_counts counts[12];
    int n_samples, n_rows;
    uint64_t sample[64];
    uint8_t colour[64]; /* first pixel byte of each sample's picture */
    int32_t ids[MAX_ROWS], labels[MAX_ROWS];
};

struct world {
    char *dir;
    json_t *root;
    struct cs_test_planned job;
    struct cs_slot_budget budget;
    void *memory;
    struct cs_pool *producer, *reader;
    struct cs_feeder_config config;
    struct cs_feeder_request request;
    struct cs_err err;
    enum cs_status status;
    json_t *messages;
    struct seen *seen;
    int n_seen, stop_after;
};

static void write_picture(const char *path, unsigned char colour)
{
    unsigned char pixels[SIDE * SIDE * 3];
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGB};

    memset(pixels, colour, sizeof(pixels));
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, NULL));
}

static void write_samples(struct world *w, const char *name, int n, const int *bad, int n_bad)
{
    struct cs_buf text = {0};

    cs_buf_adds(&text, "[");
    for (int i = 0; i < n; i++) {
        bool is_bad = false;
        char file[64];
        for (int k = 0; k < n_bad; k++)
            is_bad = is_bad || bad[k] == i;
        snprintf(file, sizeof(file), "%s%d.png", name, i);
        if (!is_bad)
            write_picture(tmpdir_path(w->dir, file), (unsigned char)(i + 1));
        cs_buf_addf(&text,
                    "%s{\"id\":\"s%d\",\"image\":\"%s\",\"conversations\":[{\"from\":\"human\","
                    "\"value\":\"<image>what %.*s\"},{\"from\":\"gpt\",\"value\":\"red %d\"}]}\n",
                    i == 0 ? "" : ",", i, file, i % 7, "aaaaaaa", i);
    }
    cs_buf_adds(&text, "]");
    tmpdir_write(tmpdir_path(w->dir, strcmp(name, "e") == 0 ? "eval.json" : "train.json"),
                 text.data, text.len);
    cs_buf_free(&text);
}

static void set_up_files(struct world *w, const int *bad, int n_bad)
{
    json_t *tok = chat_tokenizer_json();
    char *text = json_dumps(tok, JSON_COMPACT);

    memset(w, 0, sizeof(*w));
    w->dir = tmpdir_new();
    w->stop_after = -1;
    tmpdir_write(tmpdir_path(w->dir, "tokenizer.json"), text, strlen(text));
    write_samples(w, "t", SAMPLES, bad, n_bad);
    write_samples(w, "e", 7, NULL, 0);
    free(text);
    json_decref(tok);
    w->root =
        cs_test_spec_json(&(struct cs_test_spec){.batch_samples = BATCH, .steps = 8, .seed = 3});
    json_t *modules = json_object_get(json_object_get(w->root, "model"), "modules"), *module = NULL;
    size_t i = 0;
    json_array_foreach(
        modules, i,
        module) if (strcmp(json_string_value(json_object_get(module, "kind")), "llm") == 0)
    {
        json_object_set_new(module, "tokenizer", json_string(w->dir));
        json_object_set_new(json_object_get(module, "config"), "vocab_size", json_integer(300));
    }
    json_t *data = json_object_get(w->root, "data");
    json_object_set_new(data, "json", json_string(tmpdir_path(w->dir, "train.json")));
    json_object_set_new(data, "images", json_string(w->dir));
    json_object_set_new(data, "max_bad_fraction", json_real(0.5));
    json_object_set_new(data, "template", json_pack("{s:s}", "name", "plain"));
}

static void set_up(struct world *w)
{
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    struct cs_pool_shape shape = {.n_slots = 12, .n_manifests = 4, .n_readers = 1};

    w->job = cs_test_plan_json(json_incref(w->root), &cluster);
    w->budget = (struct cs_slot_budget){.seq_tokens = 100, .n_encoders = 1};
    w->budget.enc[0].item_rows = ROWS;
    w->budget.enc[0].height = w->budget.enc[0].width = SIDE;
    w->budget.enc[0].channels = 3;
    w->budget.enc[0].item_bytes = SIDE * SIDE * 3;
    cs_budget_set_items(&w->budget.enc[0], 4);
    w->job.plan->budget = w->budget;
    size_t bytes = cs_pool_bytes(&shape, &w->budget);
    w->memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    assert_non_null(w->memory);
    cs_pool_init(w->memory, &shape, &w->budget);
    assert_int_equal(cs_pool_attach(w->memory, bytes, &w->budget, -1, &w->producer, &w->err),
                     CS_OK);
    assert_int_equal(cs_pool_attach(w->memory, bytes, &w->budget, 0, &w->reader, &w->err), CS_OK);
    w->messages = json_array();
    w->seen = calloc(MAX_STEPS, sizeof(*w->seen));
    w->config = (struct cs_feeder_config){.spec = w->job.spec,
                                          .graph = w->job.graph,
                                          .budget = &w->budget,
                                          .plan = w->job.plan,
                                          .pool = w->producer,
                                          .job_dir = w->dir,
                                          .n_threads = 2,
                                          .cache_bytes = 1 << 20,
                                          .request = &w->request};
}

static void tear_down(struct world *w, bool keep_files)
{
    cs_pool_detach(w->producer);
    cs_pool_detach(w->reader);
    free(w->memory);
    json_decref(w->messages);
    free(w->seen);
    cs_test_planned_free(&w->job);
    w->seen = NULL;
    w->n_seen = 0;
    if (keep_files)
        return;
    json_decref(w->root);
    tmpdir_free(w->dir);
}

static void on_message(void *user, json_t *msg)
{
    struct world *w = user;
    struct cs_err err = {0};

    if (cs_msg_check(msg, &err) != CS_OK)
        fail_msg("%s", err.text);
    json_array_append_new(w->messages, msg);
}

static void *feed(void *arg)
{
    struct world *w = arg;

    w->config.send = on_message;
    w->config.user = w;
    w->status = cs_feeder_run(&w->config, &w->err);
    if (w->status != CS_OK)
        cs_pool_stop(w->producer);
    return NULL;
}

/* every invariant of a slot that a worker relies on */
static void check_slot(const struct world *w, const struct cs_manifest *m, int k,
                       const struct cs_slot *s)
{
    assert_int_equal(s->head->step, m->step);
    assert_int_equal(s->head->slot, k);
    assert_int_equal(s->head->n_tokens, m->slot[k].n_tokens);
    assert_int_equal(s->head->n_labels, m->slot[k].n_labels);
    assert_int_equal(s->head->n_items[0], m->slot[k].n_items[0]);
    assert_int_equal(s->head->n_rows[0], m->slot[k].n_rows[0]);
    assert_int_equal(s->head->n_rows[0], s->head->n_items[0] * ROWS);
    assert_true(s->head->n_tokens <= w->budget.seq_tokens);
    assert_int_equal(s->sample_rows[0], 0);
    assert_int_equal(s->sample_rows[s->head->n_samples], s->head->n_tokens);
    int n_labels = 0;
    for (int i = 0; i < s->head->n_samples; i++) {
        assert_int_equal(s->labels[s->sample_rows[i + 1] - 1], -1); /* never across samples */
        for (int t = s->sample_rows[i]; t < s->sample_rows[i + 1]; t++) {
            assert_int_equal(s->doc[t], i);
            assert_int_equal(s->pos[t], t - s->sample_rows[i]);
            n_labels += s->labels[t] >= 0;
            if (s->labels[t] >= 0)
                assert_int_equal(s->labels[t], s->ids[t + 1]);
        }
    }
    assert_int_equal(n_labels, s->head->n_labels);
    for (int r = 0; r < s->head->n_rows[0]; r++)
        assert_int_equal(s->ids[s->rows[0][r]], s->ids[s->rows[0][0]]); /* all placeholders */
}

static void note_slot(struct seen *seen, const struct cs_slot *s)
{
    for (int i = 0; i < s->head->n_samples; i++) {
        seen->colour[seen->n_samples] = s->data[0][(size_t)i * SIDE * SIDE * 3];
        seen->sample[seen->n_samples++] = s->sample_ids[i];
    }
    memcpy(seen->ids + seen->n_rows, s->ids, (size_t)s->head->n_tokens * sizeof(*s->ids));
    memcpy(seen->labels + seen->n_rows, s->labels, (size_t)s->head->n_tokens * sizeof(*s->labels));
    seen->n_rows += s->head->n_tokens;
}

static void run(struct world *w)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, feed, w), 0);
    while (w->n_seen < MAX_STEPS) {
        struct seen *seen = &w->seen[w->n_seen];
        struct cs_slot slot;
        if (cs_pool_next(w->reader, &seen->manifest, NULL, NULL) != CS_OK)
            break;
        w->n_seen++;
        assert_in_range(seen->manifest.n_slots, 0, CS_ARRAY_LEN(seen->counts));
        memcpy(seen->counts, seen->manifest.slot,
               (size_t)seen->manifest.n_slots * sizeof *seen->counts);
        for (int k = 0; k < seen->manifest.n_slots; k++) {
            cs_pool_slot(w->reader, &seen->manifest, k, &slot);
            check_slot(w, &seen->manifest, k, &slot);
            note_slot(seen, &slot);
            cs_pool_release(w->reader, &seen->manifest, k);
        }
        assert_int_equal(seen->n_samples, seen->manifest.n_samples);
        if (w->n_seen == w->stop_after)
            atomic_store(&w->request.stop, true);
        if ((seen->manifest.flags & CS_STEP_LAST) != 0)
            break;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static int count_messages(const struct world *w, const char *type)
{
    const json_t *msg = NULL;
    size_t i = 0;
    int n = 0;

    json_array_foreach(w->messages, i, msg) n += strcmp(cs_msg_type(msg), type) == 0;
    return n;
}

static const json_t *nth_step(const struct world *w, int nth)
{
    const json_t *msg = NULL;
    size_t i = 0;

    json_array_foreach(w->messages, i, msg) if (strcmp(cs_msg_type(msg), "feeder.step") == 0 &&
                                                nth-- == 0) return msg;
    fail_msg("no such feeder.step");
    return NULL;
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void order_is_keyed_over_epochs(void **state)
{
    struct world w;
    uint64_t at = 0;

    (void)state;
    set_up_files(&w, NULL, 0);
    set_up(&w);
    run(&w);
    if (w.status != CS_OK)
        fail_msg("%s", w.err.text);
    assert_int_equal(w.n_seen, 8);
    for (int s = 0; s < 8; s++) {
        uint64_t want[BATCH];
        assert_int_equal(w.seen[s].manifest.step, s);
        assert_int_equal(w.seen[s].manifest.flags, s == 7 ? CS_STEP_LAST | CS_STEP_CHECKPOINT : 0);
        assert_int_equal(w.seen[s].n_samples, BATCH);
        for (int i = 0; i < BATCH; i++, at++)
            want[i] = cs_order_at(3, at / SAMPLES, SAMPLES, at % SAMPLES);
        for (int i = 0; i < BATCH; i++) /* the picture belongs to the sample */
            assert_int_equal(w.seen[s].colour[i], (int)w.seen[s].sample[i] + 1);
        qsort(want, BATCH, sizeof(*want), compare_u64);
        qsort(w.seen[s].sample, BATCH, sizeof(*want),
              compare_u64); /* packing reorders within a step */
        assert_memory_equal(want, w.seen[s].sample, sizeof(want));
    }
    assert_int_equal(count_messages(&w, "feeder.step"), 8);
    assert_int_equal(count_messages(&w, "feeder.ready"), 1);
    assert_int_equal(count_messages(&w, "feeder.done"), 1);
    tear_down(&w, false);
}

static void same_seen(const struct seen *a, const struct seen *b)
{
    assert_int_equal(a->manifest.step, b->manifest.step);
    assert_int_equal(a->manifest.trained_tokens, b->manifest.trained_tokens);
    assert_int_equal(a->n_rows, b->n_rows);
    assert_memory_equal(a->ids, b->ids, sizeof(a->ids));
    assert_memory_equal(a->labels, b->labels, sizeof(a->labels));
    assert_memory_equal(a->sample, b->sample, sizeof(a->sample));
    assert_memory_equal(a->colour, b->colour, sizeof(a->colour));
}

/* also through an epoch's end, with bad samples, and with another number of threads */
static void resume_under(const char *balance, const char *slot_order)
{
    static const int bad[] = {4, 11};
    struct world w;
    struct seen *whole = NULL;
    json_t *cursor = NULL;

    set_up_files(&w, bad, 2);
    json_object_set_new(w.root, "balance", json_string(balance));
    json_object_set_new(w.root, "slot_order", json_string(slot_order));
    set_up(&w);
    run(&w);
    assert_int_equal(w.n_seen, 8);
    whole = w.seen;
    for (int cut = 0; cut < 7; cut++) {
        cursor = json_deep_copy(json_object_get(nth_step(&w, cut), "cursor"));
        json_t *messages = w.messages;
        struct world again = w;
        set_up(&again);
        again.n_seen = 0;
        again.config.cursor = cursor;
        again.config.first_step = cut + 1;
        again.config.n_threads = 1 + cut % 4;
        run(&again);
        assert_int_equal(again.n_seen, 7 - cut);
        for (int s = 0; s < again.n_seen; s++)
            same_seen(&again.seen[s], &whole[cut + 1 + s]);
        assert_int_equal(count_messages(&again, "feeder.bad"), 0); /* listed by the first run */
        tear_down(&again, true);
        w.messages = messages;
        json_decref(cursor);
    }
    tear_down(&w, false);
}

static const char *const policies[] = {"stream", "list2d", "lpt", "entrain", "random"};

static void resume_equals_uninterrupted(void **state)
{
    (void)state;
    for (size_t p = 0; p < CS_ARRAY_LEN(policies); p++)
        resume_under(policies[p], p % 2 ? "searched" : "kept");
}

/* nor with how much may be loaded ahead: of 1 byte one sample at a time */
static void threads_do_not_change_what_is_fed(void **state)
{
    static const int bad[] = {4, 11};

    static const struct {
        int n_threads;
        int64_t bytes;
    } ways[] = {
        {1,  0   },
        {2,  0   },
        {7,  0   },
        {7,  1   },
        {3,  5000}, /* two samples */
        {64, 0   },
    };
    struct seen *first = NULL;
    json_t *cursor = NULL;
    struct world w;

    (void)state;
    set_up_files(&w, bad, 2);
    for (size_t i = 0; i < CS_ARRAY_LEN(ways); i++) {
        set_up(&w);
        w.config.n_threads = ways[i].n_threads;
        w.config.ahead_bytes = ways[i].bytes;
        run(&w);
        if (w.status != CS_OK)
            fail_msg("%d threads: %s", ways[i].n_threads, w.err.text);
        assert_int_equal(w.n_seen, 8);
        for (int s = 0; i > 0 && s < w.n_seen; s++)
            same_seen(&w.seen[s], &first[s]);
        const json_t *end = json_object_get(nth_step(&w, 7), "cursor");
        if (i > 0)
            assert_true(json_equal(end, cursor));
        if (i == 0) {
            cursor = json_deep_copy(end);
            first = w.seen;
            w.seen = NULL;
        }
        tear_down(&w, true);
    }
    free(first);
    json_decref(cursor);
    json_decref(w.root);
    tmpdir_free(w.dir);
}

static void threads_are_as_the_cores_allow(void **state)
{
    static const struct {
        int asked;
        bool is_gpu;
        int ranks, cores, threads;
    } rows[] = {
        {0,  false, 2, 64,  2 },
        {0,  false, 4, 2,   2 },
        {0,  true,  2, 32,  29},
        {0,  true,  8, 128, 32},
        {0,  true,  1, 2,   2 },
        {0,  true,  8, 4,   2 },
        {0,  true,  1, 0,   2 }, /* not known */
        {0,  true,  1, 5,   3 },
        {1,  true,  1, 64,  1 },
        {64, false, 2, 2,   64},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        assert_int_equal(
            cs_data_threads(rows[i].asked, rows[i].is_gpu, rows[i].ranks, rows[i].cores),
            rows[i].threads);
}

/* samples of a step by number: tokens and labels in the order of the samples */
static void sort_samples(struct seen *seen)
{
    qsort(seen->sample, (size_t)seen->n_samples, sizeof(*seen->sample), compare_u64);
}

static void a_step_holds_the_same_samples_under_every_policy(void **state)
{
    struct world w;
    struct seen *streamed = NULL;
    int n_moved = 0;

    (void)state;
    set_up_files(&w, NULL, 0);
    for (size_t p = 0; p < CS_ARRAY_LEN(policies); p++) {
        json_object_set_new(w.root, "balance", json_string(policies[p]));
        set_up(&w);
        run(&w);
        assert_int_equal(w.status, CS_OK);
        assert_int_equal(w.n_seen, 8);
        for (int s = 0; p > 0 && s < w.n_seen; s++) {
            struct seen *now = &w.seen[s], *then = &streamed[s];
            n_moved += now->manifest.n_slots != then->manifest.n_slots ||
                       memcmp(now->sample, then->sample, sizeof(now->sample)) != 0;
            sort_samples(now);
            sort_samples(then);
            assert_int_equal(now->n_samples, then->n_samples);
            assert_memory_equal(now->sample, then->sample, sizeof(now->sample));
            assert_int_equal(now->manifest.trained_tokens, then->manifest.trained_tokens);
            assert_int_equal(now->manifest.n_slots, 4); /* as many as the plan expects */
            for (int e = 0; e < 4; e++)
                assert_true(now->counts[e].n_tokens > 0);
        }
        if (p == 0) {
            streamed = w.seen;
            w.seen = NULL;
        }
        tear_down(&w, true);
    }
    assert_true(n_moved > 8);
    free(streamed);
    json_decref(w.root);
    tmpdir_free(w.dir);
}

static void bad_samples_are_replaced_counted_and_listed(void **state)
{
    static const int bad[] = {0, 9, 22};
    struct world w;
    size_t n_bytes = 0;
    int lines = 0;

    (void)state;
    set_up_files(&w, bad, 3);
    tmpdir_write(tmpdir_path(w.dir, "t9.png"), "\x89PNG\r\n\x1a\nxx", 10);
    set_up(&w);
    run(&w);
    assert_int_equal(w.status, CS_OK);
    for (int s = 0; s < w.n_seen; s++)
        for (int i = 0; i < w.seen[s].n_samples; i++) {
            assert_int_equal(w.seen[s].n_samples, BATCH);
            assert_false(w.seen[s].sample[i] == 0 || w.seen[s].sample[i] == 9 ||
                         w.seen[s].sample[i] == 22);
        }
    assert_int_equal(count_messages(&w, "feeder.bad"), 3);
    char *text = tmpdir_read(tmpdir_path(w.dir, "quarantine.jsonl"), &n_bytes);
    assert_non_null(text);
    for (const char *p = text; *p != '\0'; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 3);
    assert_non_null(strstr(text, "\"id\":\"s9\""));
    assert_non_null(strstr(text, "t0.png"));
    assert_non_null(strstr(text, "broken PNG"));
    free(text);
    tear_down(&w, false);
}

static void refuses(struct world *w, const char *a, const char *b)
{
    set_up(w);
    run(w);
    assert_int_not_equal(w->status, CS_OK);
    if (strstr(w->err.text, a) == NULL || strstr(w->err.text, b) == NULL)
        fail_msg("%s", w->err.text);
    tear_down(w, false);
}

static void too_many_bad_samples_end_the_job(void **state)
{
    static const int bad[] = {1, 2, 3};
    struct world w;

    (void)state;
    set_up_files(&w, bad, 3);
    json_object_set_new(json_object_get(w.root, "data"), "max_bad_fraction", json_real(0.1));
    refuses(&w, "3 of 23 samples are bad, max_bad_fraction 0.1", "missing file");
    set_up_files(&w, bad, 3);
    json_object_set_new(json_object_get(w.root, "data"), "on_bad_sample", json_string("fail"));
    refuses(&w, "train.json: sample", "missing file");
}

static void data_of_which_nothing_is_usable_is_refused_at_start(void **state)
{
    int bad[SAMPLES];
    struct world w;

    (void)state;
    for (int i = 0; i < SAMPLES; i++)
        bad[i] = i;
    set_up_files(&w, bad, SAMPLES);
    json_object_set_new(json_object_get(w.root, "data"), "max_bad_fraction", json_real(1.0));
    refuses(&w, "none of the first 23 samples can be used", "t0.png");
}

static void add_eval(struct world *w)
{
    json_object_set_new(w->root, "eval",
                        json_pack("{s:{s:s,s:s,s:s,s:{s:s}},s:i,s:s,s:i}", "data", "format",
                                  "llava", "json", tmpdir_path(w->dir, "eval.json"), "images",
                                  w->dir, "template", "name", "plain", "every_steps", 3, "metric",
                                  "exact_match", "max_samples", 6));
}

static void evaluation_follows_in_file_order(void **state)
{
    struct world w;
    int at = 0;

    (void)state;
    set_up_files(&w, NULL, 0);
    add_eval(&w);
    json_object_set_new(w.root, "checkpoint", json_pack("{s:i}", "every_steps", 4));
    set_up(&w);
    run(&w);
    if (w.status != CS_OK)
        fail_msg("%s", w.err.text);
    /* t0 t1 t2 e e  t3 t4 t5 e e  t6 t7 e e */
    assert_int_equal(w.n_seen, 8 + 3 * 2);
    for (int s = 0; s < w.n_seen; s++) {
        const struct cs_manifest *m = &w.seen[s].manifest;
        if (m->kind == CS_STEP_TRAIN) {
            assert_int_equal(m->flags, m->step == 3 ? CS_STEP_CHECKPOINT : 0);
            at = 0;
            continue;
        }
        assert_int_equal(w.seen[s].n_samples, at == 0 ? 5 : 1);
        for (int i = 0; i < w.seen[s].n_samples; i++)
            assert_int_equal(w.seen[s].sample[i], at + i);
        uint32_t want = at == 0 ? CS_STEP_EVAL_FIRST : CS_STEP_EVAL_LAST;
        if (s == w.n_seen - 1)
            want |= CS_STEP_LAST | CS_STEP_CHECKPOINT;
        assert_int_equal(m->flags, want);
        at += w.seen[s].n_samples;
    }
    tear_down(&w, false);
}

/* A job that goes on from a checkpoint whose step was not evaluated. */
static void a_missing_evaluation_comes_first(void **state)
{
    static const struct {
        int64_t first_step;
        bool is_eval_first;
        const char *kinds; /* t: training, e: evaluation */
    } rows[] = {
        {3, true,
         "eetttee"
         "ttee"          },
        {6, false, "ttee"},
        {8, true,  "ee"  },
        {8, false, ""    },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct world w;
        set_up_files(&w, NULL, 0);
        add_eval(&w);
        set_up(&w);
        w.config.first_step = rows[i].first_step;
        w.config.is_eval_first = rows[i].is_eval_first;
        if (rows[i].kinds[0] != '\0')
            run(&w);
        else
            (void)feed(&w); /* nobody has to read */
        if (w.status != CS_OK)
            fail_msg("%s", w.err.text);
        assert_int_equal(w.n_seen, strlen(rows[i].kinds));
        for (int s = 0; s < w.n_seen; s++) {
            const struct cs_manifest *m = &w.seen[s].manifest;
            const bool is_eval = rows[i].kinds[s] == 'e', is_last = s == w.n_seen - 1;
            const bool trains = rows[i].first_step < 8;
            assert_int_equal(m->kind == CS_STEP_EVAL, is_eval);
            if (s == 0)
                assert_int_equal(m->step, rows[i].first_step - (is_eval ? 1 : 0));
            assert_int_equal((m->flags & CS_STEP_LAST) != 0, is_last);
            /* nothing new to save where nothing was trained */
            assert_int_equal((m->flags & CS_STEP_CHECKPOINT) != 0, is_last && trains);
        }
        assert_int_equal(count_messages(&w, "feeder.ready"), 1);
        assert_int_equal(count_messages(&w, "feeder.done"), 1);
        tear_down(&w, false);
    }
}

static void stop_request_makes_the_next_step_the_last(void **state)
{
    struct world w;

    (void)state;
    set_up_files(&w, NULL, 0);
    json_object_set_new(w.root, "steps", json_integer(1000000));
    set_up(&w);
    w.stop_after = 3;
    run(&w);
    assert_int_equal(w.status, CS_OK);
    assert_true(w.n_seen <= 3 + 4 + 2); /* what was published ahead, then the last one */
    assert_int_equal(w.seen[w.n_seen - 1].manifest.flags, CS_STEP_LAST | CS_STEP_CHECKPOINT);
    tear_down(&w, false);
}

static void shuffled_pictures_keep_the_text(void **state)
{
    struct world w;
    int moved = 0, n = 0;

    (void)state;
    set_up_files(&w, NULL, 0);
    json_object_set_new(json_object_get(w.root, "data"), "shuffle_images", json_true());
    set_up(&w);
    run(&w);
    assert_int_equal(w.status, CS_OK);
    for (int s = 0; s < w.n_seen; s++)
        for (int i = 0; i < w.seen[s].n_samples; i++, n++)
            moved += w.seen[s].colour[i] != w.seen[s].sample[i] + 1;
    assert_true(moved > n * 3 / 4);
    tear_down(&w, false);
}

static void cursor_of_another_file_is_refused(void **state)
{
    struct world w;

    (void)state;
    set_up_files(&w, NULL, 0);
    set_up(&w);
    w.config.cursor = json_pack("{s:i,s:i,s:[]}", "epoch", 0, "position", SAMPLES, "carried");
    run(&w);
    assert_int_equal(w.status, CS_INVALID);
    assert_non_null(strstr(w.err.text, "cursor"));
    json_decref((json_t *)(uintptr_t)w.config.cursor);
    tear_down(&w, false);
}

/* One letter of one answer. */
static void edit_samples(const struct world *w)
{
    const char *path = tmpdir_path(w->dir, "train.json");
    size_t n = 0;
    char *text = tmpdir_read(path, &n);

    strstr(text, "red 7")[0] = 'b';
    tmpdir_write(path, text, n);
    free(text);
}

/* The cursor of a checkpoint means nothing in a file that was edited since. */
static void a_file_that_changed_since_the_checkpoint_is_refused(void **state)
{
    static const struct {
        bool is_shorter;
        const char *why;
    } edits[] = {
        {true,  "it had 23 samples then and has 10 now"},
        {false, "has 23 now, of other content"         },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(edits); i++) {
        struct world w;
        set_up_files(&w, NULL, 0);
        set_up(&w);
        run(&w);
        assert_int_equal(w.n_seen, 8);
        json_t *cursor = json_deep_copy(json_object_get(nth_step(&w, 2), "cursor"));
        struct world again = w;
        if (edits[i].is_shorter)
            write_samples(&w, "t", 10, NULL, 0);
        else
            edit_samples(&w);
        set_up(&again);
        again.n_seen = 0;
        again.config.cursor = cursor;
        again.config.first_step = 3;
        run(&again);
        assert_int_equal(again.status, CS_INVALID);
        assert_int_equal(again.n_seen, 0);
        if (strstr(again.err.text, edits[i].why) == NULL)
            fail_msg("%s", again.err.text);
        tear_down(&again, true);
        json_decref(cursor);
        tear_down(&w, false);
    }
}

static void an_encoder_without_items_is_refused_at_start(void **state)
{
    struct world w;
    struct cs_buf text = {0};

    (void)state;
    set_up_files(&w, NULL, 0);
    for (int i = 0; i < 300; i++)
        cs_buf_adds(&text, "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
                           "{\"role\":\"assistant\",\"content\":\"a\"}]}\n");
    tmpdir_write(tmpdir_path(w.dir, "train.json"), text.data, text.len);
    cs_buf_free(&text);
    set_up(&w);
    run(&w);
    assert_int_equal(w.status, CS_INVALID);
    assert_non_null(strstr(w.err.text, "encoder vision gets no item in the whole data set"));
    assert_int_equal(w.n_seen, 0);
    tear_down(&w, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_keyed_over_epochs),
        cmocka_unit_test(resume_equals_uninterrupted),
        cmocka_unit_test(threads_do_not_change_what_is_fed),
        cmocka_unit_test(threads_are_as_the_cores_allow),
        cmocka_unit_test(a_step_holds_the_same_samples_under_every_policy),
        cmocka_unit_test(bad_samples_are_replaced_counted_and_listed),
        cmocka_unit_test(too_many_bad_samples_end_the_job),
        cmocka_unit_test(data_of_which_nothing_is_usable_is_refused_at_start),
        cmocka_unit_test(evaluation_follows_in_file_order),
        cmocka_unit_test(a_missing_evaluation_comes_first),
        cmocka_unit_test(stop_request_makes_the_next_step_the_last),
        cmocka_unit_test(shuffled_pictures_keep_the_text),
        cmocka_unit_test(cursor_of_another_file_is_refused),
        cmocka_unit_test(a_file_that_changed_since_the_checkpoint_is_refused),
        cmocka_unit_test(an_encoder_without_items_is_refused_at_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
