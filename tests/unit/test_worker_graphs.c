/* Graphs: which pieces become some, where tapes are cut, and that training with graphs gives the
 * bits of training without them. On a device that keeps its memory on the host and captures
 * (support/lazy_device.h); training also on what CORNSTARCH_TEST_DEVICE names. */
#include "worker/exec/state/graphs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/device.h"
#include "support/lazy_device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/step.h"
#include "worker/train/trainer.h"

/* ---- which pieces become graphs ---- */

enum { N = 64 };

struct bench {
    struct cs_device *device;
    struct cs_graphs *graphs;
    struct cs_graph graph;
    float *x, *one; /* x: sums, one: ones */
    uint32_t action;
};

static void open_bench(struct bench *b, enum cs_graphs_mode mode)
{
    struct cs_err err = {0};
    float ones[N];
    void *p;
    *b = (struct bench){.device = cs_lazy_device_new()};
    need(cs_graphs_new(b->device, &b->graph, mode, &b->graphs, &err), &err);
    need(cs_device_alloc(b->device, sizeof ones, &p, &err), &err);
    b->x = p;
    need(cs_device_alloc(b->device, sizeof ones, &p, &err), &err);
    b->one = p;
    for (int i = 0; i < N; i++)
        ones[i] = 1.0f;
    cs_device_copy(b->device, b->one, ones, sizeof ones);
    cs_device_zero(b->device, b->x, sizeof ones);
}

static void close_bench(struct bench *b)
{
    const struct cs_graphs_counts c = cs_graphs_counts(b->graphs);
    cs_graphs_free(b->graphs);
    assert_int_equal(cs_lazy_device_counts(b->device).destroyed, c.captures);
    cs_device_free(b->device, b->x, N * sizeof(float));
    cs_device_free(b->device, b->one, N * sizeof(float));
    cs_lazy_device_free(b->device);
}

/* an action of n_calls calls: adds 1 to the first n numbers, each time */
static void act_on(struct bench *b, int n, int n_calls)
{
    struct cs_ctx ctx = cs_device_ctx(b->device);
    struct cs_run run = {.device = b->device, .ops = b->device->ops, .ctx = &ctx};
    cs_graphs_open(b->graphs, &run);
    for (int i = 0; i < n_calls; i++)
        run.ops->add(run.ctx, n, b->x, b->one, b->x);
    cs_graphs_close(b->graphs, b->action++);
}

static float first(struct bench *b)
{
    struct cs_err err = {0};
    float x[N];
    need(cs_device_read(b->device, x, b->x, sizeof x, &err), &err);
    return x[0];
}

/* answers all questions of a step */
static int tell(struct bench *b, int64_t device_ns)
{
    int n = 0;
    while (cs_graphs_asks(b->graphs, (uint32_t)n) != UINT32_MAX)
        cs_graphs_tell(b->graphs, (uint32_t)n++, device_ns);
    cs_graphs_begin(b->graphs);
    return n;
}

static void always_captures_what_it_has_seen(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b, CS_GRAPHS_ALWAYS);
    for (int i = 0; i < 6; i++) {
        cs_graphs_begin(b.graphs);
        act_on(&b, N, 3);
        act_on(&b, N - 1, 1); /* another key */
    }
    assert_true(first(&b) == 24.0f);
    const struct cs_graphs_counts c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, 2);
    assert_int_equal(c.replays, 8);
    assert_int_equal(c.replayed_calls, 16);
    assert_int_equal(c.pieces, 12);
    assert_int_equal(c.calls, 24);
    assert_int_equal(c.known, 10);
    assert_int_equal(cs_lazy_device_counts(b.device).launched, 8);
    assert_int_equal(tell(&b, 1), 0); /* nothing to ask */
    close_bench(&b);
}

static void auto_captures_what_launching_holds_up(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b, CS_GRAPHS_AUTO);
    act_on(&b, N, 6);
    assert_int_equal(tell(&b, 1), 0); /* the first time says nothing: it loads kernels */
    act_on(&b, N, 6);
    assert_int_equal(tell(&b, INT64_MAX / 4), 1); /* the device takes much longer: no */
    act_on(&b, N, 6);
    assert_int_equal(cs_graphs_counts(b.graphs).captures, 0);
    assert_int_equal(tell(&b, 1), 1); /* it is done at once: yes */
    act_on(&b, N, 6);
    act_on(&b, N, 6);
    assert_int_equal(cs_graphs_counts(b.graphs).captures, 0); /* not before the next step */
    assert_int_equal(tell(&b, INT64_MAX / 4), 0); /* what is to be a graph is not asked about */
    for (int i = 0; i < 3; i++)
        act_on(&b, N, 6);
    assert_int_equal(tell(&b, INT64_MAX / 4), 0);
    for (int i = 0; i < 4; i++) {
        act_on(&b, N, 2); /* too few for a graph */
        assert_int_equal(tell(&b, 1), 0);
    }
    assert_true(first(&b) == 8 * 6.0f + 8.0f);
    const struct cs_graphs_counts c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, 1);
    assert_int_equal(c.replays, 3);
    close_bench(&b);
}

static void a_capture_that_fails_harms_nothing(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b, CS_GRAPHS_ALWAYS);
    act_on(&b, N, 3);
    act_on(&b, N, 3);
    cs_graphs_begin(b.graphs);
    cs_lazy_device_refuse_graphs(b.device);
    for (int i = 0; i < 4; i++) {
        act_on(&b, N, 3); /* captured before */
        act_on(&b, N, 5);
        cs_graphs_begin(b.graphs);
    }
    struct cs_err err = {0};
    need(cs_device_sync(b.device, &err), &err);
    assert_true(first(&b) == 6 * 3.0f + 4 * 5.0f);
    const struct cs_graphs_counts c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, 1);
    assert_int_equal(c.failures, 1); /* not tried again */
    assert_int_equal(c.replays, 4);
    close_bench(&b);
}

static void graphs_and_keys_are_bounded(void **state)
{
    struct bench b;
    float sum = 0;
    (void)state;
    open_bench(&b, CS_GRAPHS_ALWAYS);
    for (int round = 0; round < 6; round++) /* more than there is room for, in turn */
        for (int i = 1; i <= CS_GRAPHS_MAX + 40; i++) {
            act_on(&b, N, i);
            sum += (float)i;
            if (i % CS_GRAPHS_MAX_NEW == 0)
                cs_graphs_begin(b.graphs);
        }
    struct cs_graphs_counts c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, CS_GRAPHS_MAX); /* those that came first stay */
    assert_int_equal(c.dropped, 0);
    assert_true(c.replays >= 3 * CS_GRAPHS_MAX);
    for (int i = 0; i <= CS_GRAPHS_STALE; i++)
        cs_graphs_begin(b.graphs);
    for (int i = 0; i < 3; i++) { /* nobody used them: they go, as many as are needed */
        for (int k = 31; k <= 40; k++) {
            act_on(&b, N, CS_GRAPHS_MAX + k);
            sum += (float)(CS_GRAPHS_MAX + k);
        }
        cs_graphs_begin(b.graphs);
    }
    c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, CS_GRAPHS_MAX + 10);
    assert_int_equal(c.dropped, 10);
    assert_int_equal(cs_lazy_device_counts(b.device).destroyed, c.dropped);
    assert_true(first(&b) == sum);
    for (int i = 1; i <= CS_GRAPHS_MAX_KEYS;
         i++) { /* keys that are seen once push all others out */
        struct cs_ctx ctx = cs_device_ctx(b.device);
        struct cs_run run = {.device = b.device, .ops = b.device->ops, .ctx = &ctx};
        cs_graphs_open(b.graphs, &run);
        run.ops->add(run.ctx, 1, b.x, b.one, b.x);
        for (int k = 0; k < 10; k++)
            run.ops->add(run.ctx, (i >> k & 1) + 1, b.x, b.one, b.x);
        cs_graphs_close(b.graphs, 0);
        sum += 11;
    }
    c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, c.dropped);
    assert_true(first(&b) == sum);
    act_on(&b, N, 1); /* forgotten: seen for the first time */
    assert_int_equal(cs_graphs_counts(b.graphs).known, c.known);
    close_bench(&b);
}

static void modes_are_named_in_the_environment(void **state)
{
    static const struct {
        const char *name;
        enum cs_graphs_mode mode;
    } modes[] = {
        {"off",    CS_GRAPHS_OFF   },
        {"always", CS_GRAPHS_ALWAYS},
        {"auto",   CS_GRAPHS_AUTO  },
        {"",       CS_GRAPHS_AUTO  },
    };
    struct cs_graphs *graphs;
    struct cs_device host;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(modes); i++) {
        setenv("CORNSTARCH_GRAPHS", modes[i].name, 1);
        assert_int_equal(cs_graphs_mode_wanted(), modes[i].mode);
    }
    unsetenv("CORNSTARCH_GRAPHS");
    assert_int_equal(cs_graphs_mode_wanted(), CS_GRAPHS_AUTO);
    cs_device_cpu(&host); /* the host has none */
    need(cs_graphs_new(&host, NULL, CS_GRAPHS_ALWAYS, &graphs, NULL), NULL);
    assert_null(graphs);
    cs_graphs_begin(graphs);
    cs_graphs_close(graphs, 0);
    assert_int_equal(cs_graphs_asks(graphs, 0), UINT32_MAX);
    assert_int_equal(cs_graphs_counts(graphs).pieces, 0);
    cs_graphs_free(graphs);
}

/* ---- where a tape is cut ---- */

enum { LAYERS = 5 };

/* an encoder's block, and an LLM of an embedding, two blocks and a head */
static void make_layers(struct cs_graph *graph)
{
    static struct cs_module modules[2] = {{.kind = CS_MODULE_ENCODER}, {.kind = CS_MODULE_LLM}};
    static struct cs_layer layers[LAYERS] = {
        {.kind = CS_LAYER_EMBED, .module = 0},
        {.kind = CS_LAYER_EMBED, .module = 1},
        {.kind = CS_LAYER_BLOCK, .module = 1},
        {.kind = CS_LAYER_BLOCK, .module = 1},
        {.kind = CS_LAYER_HEAD,  .module = 1},
    };
    graph->modules = modules;
    graph->layers = layers;
}

/* what a stage does: layers from `first` on, one addition each */
static void run_layers(struct bench *b, const struct cs_watch *watch, int first_layer, int n)
{
    struct cs_ctx ctx = cs_device_ctx(b->device);
    struct cs_run run = {.device = b->device, .ops = b->device->ops, .ctx = &ctx, .watch = watch};
    cs_graphs_open(b->graphs, &run);
    for (int i = first_layer; i < first_layer + n; i++) {
        run.watch->at(run.watch->user, i);
        if (run.watch->before != NULL)
            run.watch->before(run.watch->user, i);
        run.ops->add(run.ctx, N, b->x, b->one, b->x);
        if (run.watch->done != NULL)
            run.watch->done(run.watch->user, i);
    }
    cs_graphs_close(b->graphs, b->action++);
}

static void pieces_end_where_rows_are_ragged(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b, CS_GRAPHS_ALWAYS);
    make_layers(&b.graph);
    run_layers(&b, NULL, 1, 4);
    assert_int_equal(cs_graphs_counts(b.graphs).pieces, 3); /* embedding, both blocks, head */
    run_layers(&b, NULL, 2, 2);
    assert_int_equal(cs_graphs_counts(b.graphs).pieces, 4);
    assert_int_equal(cs_graphs_counts(b.graphs).known,
                     2);        /* here the head is the embedding again */
    run_layers(&b, NULL, 0, 1); /* an encoder's rows come in whole items */
    run_layers(&b, NULL, 0, 4);
    assert_int_equal(cs_graphs_counts(b.graphs).pieces, 4 + 1 + 3);
    assert_true(first(&b) == 4 + 2 + 1 + 4);
    close_bench(&b);
}

struct log {
    struct bench *bench;
    float before[64], done[64]; /* x as it was */
    int n_before, n_done, last;
};

static void log_before(void *user, int32_t layer)
{
    struct log *l = user;
    l->before[l->n_before++] = first(l->bench); /* waits: no capture is under way */
    l->last = layer;
}

static void log_done(void *user, int32_t layer)
{
    struct log *l = user;
    assert_int_equal(layer, l->last);
    l->done[l->n_done++] = first(l->bench);
}

static void who_watches_is_asked_between_graphs(void **state)
{
    struct bench b;
    struct log log = {.bench = &b};
    const struct cs_watch watch = {.before = log_before, .done = log_done, .user = &log};
    (void)state;
    open_bench(&b, CS_GRAPHS_ALWAYS);
    make_layers(&b.graph);
    for (int i = 0; i < 8; i++) {
        cs_graphs_begin(b.graphs);
        run_layers(&b, &watch, 1, 4);
    }
    assert_int_equal(log.n_before, 32);
    assert_int_equal(log.n_done, 32);
    for (int i = 0; i < 32; i++) {
        assert_true(log.before[i] == (float)i);
        assert_true(log.done[i] == (float)(i + 1));
    }
    assert_true(cs_graphs_counts(b.graphs).replays >= 24);
    close_bench(&b);
}

/* ---- training ---- */

enum { STEPS = 14, KINDS_OF_STEPS = 2, SLOTS = 3, MAX_PARAMS = 256 };

struct outcome {
    double loss[STEPS], norm[STEPS], eval_loss;
    int64_t exact;
    char hash[MAX_PARAMS][33];
    int n_params;
    struct cs_graphs_counts graphs;
};

static void train(struct cs_trainer *t, const struct cs_plan *plan, struct outcome *o)
{
    struct cs_err err = {0};
    struct cs_test_step step[KINDS_OF_STEPS];
    struct cs_step_result result;
    need(cs_params_load(t->params, 9, &err), &err);
    for (int k = 0; k < KINDS_OF_STEPS; k++) {
        cs_test_step_new(&step[k], &plan->budget, SLOTS, 0);
        cs_test_step_random(&step[k], (uint64_t)k + 5, 199, k == 1 ? 0 : 60);
    }
    for (int s = 0; s < STEPS; s++) {
        struct cs_test_step *now = &step[s % KINDS_OF_STEPS];
        now->manifest.step = s;
        need(cs_trainer_step(t, &now->manifest, now->slot, NULL, &result, &err), &err);
        o->loss[s] = result.loss_sum;
        o->norm[s] = result.grad_norm;
        assert_true(isfinite(o->loss[s]) && o->loss[s] > 0 && isfinite(o->norm[s]));
    }
    step[0].manifest.kind = CS_STEP_EVAL;
    need(cs_trainer_step(t, &step[0].manifest, step[0].slot, NULL, &result, &err), &err);
    o->eval_loss = result.loss_sum;
    o->exact = result.n_exact;
    for (int32_t i = 0; i < t->params->n; i++)
        if (t->params->shard[i].is_counted)
            need(cs_params_hash(t->params, &t->params->shard[i],
                                o->hash[t->params->shard[i].param->id], &err),
                 &err);
    o->graphs = cs_exec_graphs(t->exec);
    for (int k = 0; k < KINDS_OF_STEPS; k++)
        cs_test_step_free(&step[k]);
}

static bool has_gpu(void)
{
    return cs_test_device()->mem != NULL;
}

/* mode NULL: on the host */
static void run_job(const struct cs_test_spec *options, const char *mode, bool refuses,
                    struct outcome *o)
{
    struct cs_err err = {0};
    struct cs_trainer *t;
    struct cs_device host, *device = mode == NULL ? &host
                                     : has_gpu()  ? cs_test_device()
                                                  : cs_lazy_device_new();
    struct cs_test_planned made = cs_test_plan(options);
    memset(o, 0, sizeof *o);
    cs_device_cpu(&host);
    cs_test_put_on_one_rank(made.plan);
    o->n_params = made.graph->n_params;
    assert_true(o->n_params <= MAX_PARAMS);
    const struct cs_trainer_config config = {
        .spec = made.spec, .graph = made.graph, .plan = made.plan, .device = device};
    if (mode != NULL) {
        setenv("CORNSTARCH_GRAPHS", mode, 1);
        if (refuses)
            cs_lazy_device_refuse_graphs(device);
    }
    need(cs_trainer_new(&config, &t, &err), &err);
    train(t, made.plan, o);
    cs_trainer_free(t);
    if (mode != NULL && !has_gpu())
        cs_lazy_device_free(device);
    cs_test_planned_free(&made);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->norm, b->norm, sizeof a->norm);
    assert_memory_equal(&a->eval_loss, &b->eval_loss, sizeof a->eval_loss);
    assert_int_equal(a->exact, b->exact);
    for (int i = 0; i < a->n_params; i++) {
        assert_int_equal(strlen(a->hash[i]), 32);
        assert_string_equal(a->hash[i], b->hash[i]);
    }
}

static const struct cs_test_spec whole = {.seed = 3};
static const struct cs_test_spec tied = {
    .seed = 3, .is_tied = true, .is_qwen2 = true, .recompute = "selective"};
static const struct cs_test_spec redone = {.seed = 4, .recompute = "full", .llm_pp = 2};
static const struct cs_test_spec split = {
    .seed = 5, .schedule = "zb-h1", .vision_pp = 2, .llm_pp = 3};
static const struct cs_test_spec projector = {
    .seed = 6, .rules = "train:vision.projector", .n_encoders = 2};
static const struct cs_test_spec frozen = {
    .seed = 7, .rules = "train:* freeze:vision.encoder*", .llm_pp = 2};
static const struct cs_test_spec *const jobs[] = {&whole, &tied,      &redone,
                                                  &split, &projector, &frozen};

static void graphs_change_no_bit(void **state)
{
    static struct outcome off, always, on;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(jobs); i++) {
        run_job(jobs[i], "off", false, &off);
        run_job(jobs[i], "always", false, &always);
        run_job(jobs[i], "auto", false, &on);
        assert_int_equal(off.graphs.pieces, 0);
        assert_same(&off, &always);
        assert_same(&off, &on);
        /* of every kind of step the first is written down, the second captured after it */
        assert_true(always.graphs.failures == 0);
        assert_true(always.graphs.replayed_calls > always.graphs.calls / 2);
        assert_true(on.graphs.calls == always.graphs.calls);
    }
}

static void training_goes_on_where_nothing_can_be_captured(void **state)
{
    static struct outcome off, refused;
    (void)state;
    if (has_gpu())
        skip(); /* it captures */
    run_job(&whole, "off", false, &off);
    run_job(&whole, "always", true, &refused);
    assert_same(&off, &refused);
    assert_int_equal(refused.graphs.replays, 0);
    assert_true(refused.graphs.failures > 0);
}

/* Rows are rounded up on a device: sums of other lengths, in the same order. bf16 sees the same
 * losses, roughly. */
static void a_device_agrees_with_the_host(void **state)
{
    static struct outcome host, device;
    const double allowed = cs_device_is_f32(cs_test_device()) ? 1e-3 : 0.1;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(jobs); i++) {
        run_job(jobs[i], NULL, false, &host);
        run_job(jobs[i], "always", false, &device);
        for (int s = 0; s < STEPS; s++) {
            assert_true(fabs(host.loss[s] - device.loss[s]) <= allowed * host.loss[s]);
            if (cs_device_is_f32(cs_test_device()))
                assert_true(fabs(host.norm[s] - device.norm[s]) <= 1e-2 * host.norm[s]);
        }
        assert_true(fabs(host.eval_loss - device.eval_loss) <= 10 * allowed * host.eval_loss);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(always_captures_what_it_has_seen),
        cmocka_unit_test(auto_captures_what_launching_holds_up),
        cmocka_unit_test(a_capture_that_fails_harms_nothing),
        cmocka_unit_test(graphs_and_keys_are_bounded),
        cmocka_unit_test(modes_are_named_in_the_environment),
        cmocka_unit_test(pieces_end_where_rows_are_ragged),
        cmocka_unit_test(who_watches_is_asked_between_graphs),
        cmocka_unit_test(graphs_change_no_bit),
        cmocka_unit_test(training_goes_on_where_nothing_can_be_captured),
        cmocka_unit_test(a_device_agrees_with_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
