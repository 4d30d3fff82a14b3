/* Replicas that divide gradients, or weights too, train as one rank does: within rounding, and with the bits
 * of those that divide the optimizer's state alone where each has one slot; and a rank keeps less. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/cost/stage/zero.h"
#include "support/device.h"
#include "support/layout_compare.h"
#include "support/lazy_device.h"
#include "support/lazy_pending.h"

enum { EVERY = 4 }; /* slots, so that as many replicas have one each */

static void run_divided(bool is_lazy, struct cs_test_spec options, bool is_on_one,
                        struct layout_outcome *out)
{
    layout_run_on(is_lazy, &options, is_on_one ? layout_single : NULL, out);
}

static void agrees_with_one_rank(bool is_lazy, struct cs_test_spec options, bool is_on_one)
{
    struct cs_test_spec alone = options;
    struct layout_outcome one, many;
    options.slots = alone.slots = LAYOUT_REPLICA_SLOTS;
    alone.zero = alone.vision_zero = alone.dp = 0;
    alone.llm_ep = alone.llm_tp = alone.vision_tp = alone.context_rows = alone.llm_cp =
        alone.vision_cp = alone.vision_pp = alone.depth_pp = alone.llm_pp = 0;
    alone.schedule = alone.recompute = alone.modality = NULL;
    layout_run(&alone, layout_single, &one);
    run_divided(is_lazy, options, is_on_one, &many);
    layout_assert_near(&options, &one, &many);
    layout_free(&one);
    layout_free(&many);
}

static const struct row {
    struct cs_test_spec options;
    bool is_on_one; /* all stages on one rank of each replica */
} rows[] = {
    {{.seed = 31, .dp = 2, .is_tied = true},                                             true },
    {{.seed = 32, .dp = 4},                                                              true },
    {{.seed = 33, .dp = 2, .llm_pp = 2, .is_tied = true, .recompute = "full"},           false},
    {{.seed = 34, .dp = 2, .llm_pp = 2, .schedule = "gpipe", .vision_pp = 2},            false},
    {{.seed = 35, .dp = 2, .llm_pp = 2, .schedule = "interleaved"},                      false},
    {{.seed = 36, .dp = 2, .rules = "train:* freeze:vision.encoder*", .llm_pp = 2},      false},
    {{.seed = 37, .dp = 2, .rules = "train:vision.projector", .recompute = "selective"}, false},
    {{.seed = 38, .dp = 2, .rules = "train:* freeze:llm*", .is_tied = true},             true },
    {{.seed = 39, .dp = 2, .rules = "train:llm.embed", .llm_pp = 2, .is_tied = true},    false},
    {{.seed = 40, .dp = 2, .has_experts = true, .llm_pp = 2},                            false},
    {{.seed = 41, .dp = 2, .is_recurrent = true},                                        false},
    {{.seed = 42, .dp = 2, .n_encoders = 2, .llm_pp = 2},                                false},
    {{.seed = 43, .dp = 2, .llm_keys = CS_TEST_GEMMA4, .is_tied = true},                 false},
};

/* Gradients that halves of a split backward make are summed behind the half; copies sum what is left of
 * them. */
static const struct layout_row split_rows[] = {
  /* clang-format off */
    {{.dp = 2, .llm_pp = 2, .schedule = "zb-h1"}, 6},
    {{.dp = 2, .llm_pp = 3, .schedule = "zb-h1", .is_tied = true, .is_qwen2 = true, .recompute = "full"}, 8},
    {{.dp = 2, .schedule = "zb-h2", .is_qwen3 = true}, 4},
    {{.dp = 2, .llm_pp = 2, .schedule = "zb-h1", .has_experts = true, .recompute = "selective"}, 6},
    {{.dp = 2, .schedule = "zb-h1", .is_recurrent = true}, 4},
    {{.dp = 2, .llm_pp = 2, .schedule = "zb-h1", .llm_keys = CS_TEST_GEMMA4, .is_tied = true}, 6},
    {{.dp = 2, .schedule = "zb-h1", .n_encoders = 2, .vision_pp = 2}, 8},
    {{.dp = 2, .llm_pp = 2, .schedule = "zb-h1", .rules = "train:* freeze:vision.encoder*"}, 6},
    {{.dp = 2, .schedule = "zb-h2", .rules = "train:vision.projector"}, 4},
    {{.dp = 2, .llm_pp = 2, .schedule = "zb-h1", .modality = "encoder-first", .rules = "train:* freeze:llm.layers.0"}, 4},
    {{.dp = 2, .llm_tp = 2, .schedule = "zb-h1", .is_qwen3 = true}, 6},
    {{.dp = 2, .llm_tp = 2, .schedule = "zb-h1", .modality = "encoder-colocated"}, 4},
    {{.dp = 2, .llm_pp = 2, .schedule = "three-phase", .modality = "encoder-colocated"}, 4},
    {{.seed = 171, .dp = 2, .llm_pp = 3, .schedule = "anchors", .modality = "encoder-colocated", .n_encoders = 2}, 6},
    {{.dp = 2, .llm_pp = 2, .schedule = "zb-h1", .modality = "encoder-replicated"}, 4},
    {{.dp = 2, .llm_pp = 2, .schedule = "1f1b", .modality = "encoder-replicated", .rules = "train:vision.projector"}, 4},
  /* clang-format on */
};

/* Of the encoders another level than of the LLM, too. */
static void every_level_agrees(bool is_lazy)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        for (int zero = 2; zero <= 3; zero++) {
            struct cs_test_spec options = rows[i].options;
            options.zero = zero;
            options.vision_zero = i % 3 == 1 ? 1 : i % 3 == 2 ? 5 - zero : zero;
            if (!is_lazy || rows[i].options.dp <= 2)
                agrees_with_one_rank(is_lazy, options, rows[i].is_on_one);
        }
}

static void split_levels_agree(bool is_lazy)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(split_rows); i++)
        for (int zero = 2; zero <= 3; zero++) {
            struct layout_row row = split_rows[i];
            row.options.zero = zero;
            row.options.vision_zero = i % 3 == 1 ? 5 - zero : zero;
            if (is_lazy && i % 2 == (size_t)zero % 2) /* half of them are enough */
                layout_all_agree_on_devices(&row, 1, 140 + (int)i, LAYOUT_LANE_SLOTS);
            else if (!is_lazy)
                layout_all_agree(&row, 1, 140 + (int)i, LAYOUT_LANE_SLOTS);
        }
}

static void halves_and_copies_are_divided_too(void **state)
{
    (void)state;
    split_levels_agree(false);
}

static void halves_and_copies_are_divided_on_devices_too(void **state)
{
    (void)state;
    split_levels_agree(true);
}

static void divided_replicas_agree_with_one_rank(void **state)
{
    (void)state;
    every_level_agrees(false);
}

static void divided_replicas_agree_on_devices(void **state)
{
    (void)state;
    every_level_agrees(true);
}

/* Ranks of a context have the same weights, as replicas have. */
static void contexts_divide_too(void **state)
{
    static const struct cs_test_spec split[] = {
        {.seed = 44,   .llm_cp = 2,    .vision_zero = 1  },
        { .seed = 45, .llm_cp = 2,        .dp = 2,    .is_tied = true},
        { .seed = 46, .llm_cp = 2, .vision_cp = 2, .context_rows = 40}
    };
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct cs_test_spec options = split[i % 3];
        options.zero = 2 + i / 3 % 2;
        agrees_with_one_rank(i >= 6, options, false);
    }
}

/* Weights; norms are sums of other parts in fp64. Losses are added by replicas in any order. */
static void assert_same_bits(const struct layout_outcome *a, const struct layout_outcome *b)
{
    for (int s = 0; s < LAYOUT_STEPS; s++)
        assert_true(fabs(a->norm[s] - b->norm[s]) <= 1e-12 * b->norm[s]);
    assert_int_equal(a->n_params, b->n_params);
    for (int i = 0; i < a->n_params; i++)
        assert_string_equal(a->hash[i], b->hash[i]);
}

/* Norms of heads, keys that repeat: gradients that ranks of a stage make in parts. */
static void shared_matrices_are_divided_too(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct cs_test_spec options = {
            .seed = 47, .dp = 2, .llm_tp = 2, .is_qwen3 = true, .is_tied = true, .zero = 2 + i / 2};
        agrees_with_one_rank(i % 2 != 0, options, false);
        options = (struct cs_test_spec){.seed = 48,
                                        .dp = 2,
                                        .llm_tp = 4,
                                        .vision_tp = 4,
                                        .modality = "encoder-colocated",
                                        .zero = 2 + i / 2};
        agrees_with_one_rank(i % 2 != 0, options, false);
    }
}

/* Experts have fewer ranks with the same than the rest of their layer. */
static void spread_experts_are_divided_too(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool is_lazy = i % 2 != 0;
        struct cs_test_spec options = {.seed = 54,
                                       .dp = 4,
                                       .llm_ep = 2,
                                       .has_experts = true,
                                       .vision_zero = 1,
                                       .zero = 2 + i / 2};
        agrees_with_one_rank(is_lazy, options, false);
        options = (struct cs_test_spec){
            .seed = 55, .dp = 2, .llm_ep = 2, .llm_keys = CS_TEST_MIXTRAL, .zero = 2 + i / 2};
        agrees_with_one_rank(is_lazy, options, false);
    }
}

/* One slot a replica: the same numbers are added in the same order. Levels 2 and 3 add alike always. */
static void levels_have_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct cs_test_spec options = {.seed = 50 + (int)i,
                                       .dp = i < 2 ? EVERY : 2,
                                       .slots = EVERY,
                                       .is_tied = i % 2 == 1,
                                       .llm_pp = i < 2 ? 1 : 2,
                                       .rules = i == 3 ? "train:* freeze:vision.encoder*" : NULL};
        struct layout_outcome of[4];
        for (options.zero = 1; options.zero <= 3; options.zero++)
            run_divided(false, options, i < 2, &of[options.zero]);
        assert_same_bits(&of[2], &of[3]);
        if (options.dp == EVERY)
            assert_same_bits(&of[1], &of[2]);
        for (int zero = 1; zero <= 3; zero++)
            layout_free(&of[zero]);
    }
}

struct bytes {
    size_t weights, state;
    int64_t planned; /* weights, state and what is whole for a while */
};

static void measure(struct cs_test_spec options, struct bytes *out)
{
    struct cs_test_planned made = cs_test_plan(&options);
    struct cs_device *device = cs_test_device();
    struct cs_params *params;
    struct cs_err err = {0};
    const int32_t llm = made.plan->n_stages - 1, rank = made.plan->stages[llm].rank;
    if (cs_params_new(made.graph, made.plan, rank, device, &params, &err) != CS_OK)
        fail_msg("%s", err.text);
    *out = (struct bytes){.weights = params->weight_bytes, .state = params->state_bytes};
    const struct cs_stage *stage = &made.plan->stages[llm];
    out->planned = stage->weight_bytes + stage->state_bytes +
                   cs_rank_zero_bytes(made.graph, made.plan, rank, 4);
    cs_params_free(params);
    cs_test_planned_free(&made);
}

/* What the planner says is what is taken, but for gaps; levels leave about what they promise. */
static void a_rank_keeps_its_part(void **state)
{
    struct cs_test_spec options = {.seed = 3, .dp = 4, .llm_layers = 24, .slots = 4};
    struct bytes of[4];
    (void)state;
    for (options.zero = 1; options.zero <= 3; options.zero++) {
        struct bytes *b = &of[options.zero];
        measure(options, b);
        const double taken = (double)(b->weights + b->state);
        if (!((double)b->planned <= taken && taken <= 1.02 * (double)b->planned))
            fail_msg("zero %d: %.0f bytes are taken, %.0f were planned", options.zero, taken,
                     (double)b->planned);
    }
    const double whole = (double)of[1].weights;
    assert_true((double)of[2].weights < 1.01 * whole); /* gaps behind layers */
    /* gradients and moments: 1 + 2/4 of the weights, then 3/4 and a layer */
    assert_true((double)of[1].state > 1.49 * whole && (double)of[1].state < 1.53 * whole);
    assert_true((double)of[2].state > 0.75 * whole && (double)of[2].state < 0.85 * whole);
    assert_true((double)of[3].weights > 0.25 * whole && (double)of[3].weights < 0.35 * whole);
    /* a frozen tower too */
    options.rules = "train:vision.projector";
    options.zero = 3;
    measure(options, &of[0]);
    assert_true((double)of[0].weights > 0.25 * whole && (double)of[0].weights < 0.35 * whole);
    assert_int_equal(of[0].state, 0);
}

static void refused(struct cs_test_spec options, const char *why)
{
    struct cs_test_planned p;
    assert_int_equal(cs_test_try_plan(&p, cs_test_spec_json(&options), NULL), CS_PLAN);
    if (strstr(p.err.text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", p.err.text, why);
    cs_test_planned_free(&p);
}

static void what_cannot_be_divided_is_refused(void **state)
{
    (void)state;
    refused((struct cs_test_spec){.zero = 2}, "set dp or cp above 1");
    refused((struct cs_test_spec){.zero = 3}, "divides weights among");
}

/* ---- lazy devices tell races ---- */

struct racing {
    struct cs_device *device;
    void *comm, *stream, *event;
    float *from, *to;
};

enum { RACING = 16 };

static void open_racing(struct racing *r)
{
    char id[CS_DEVICE_COMM_ID];
    const struct cs_device_ops *mem;
    *r = (struct racing){.device = cs_lazy_device_new()};
    mem = r->device->mem;
    assert_int_equal(mem->comm->new_id(id, NULL), CS_OK);
    assert_int_equal(mem->comm->open(id, 0, 1, CS_DEVICE_COMM_GROUP, &r->comm, NULL), CS_OK);
    assert_int_equal(mem->stream_create(r->device->handle, &r->stream, NULL), CS_OK);
    assert_int_equal(mem->event_create(r->device->handle, &r->event, NULL), CS_OK);
    assert_int_equal(mem->alloc(r->device->handle, RACING * sizeof(float), (void **)&r->from, NULL),
                     CS_OK);
    assert_int_equal(mem->alloc(r->device->handle, RACING * sizeof(float), (void **)&r->to, NULL),
                     CS_OK);
    for (int i = 0; i < RACING; i++)
        r->from[i] = (float)i;
}

/* A sum of one rank on a stream of its own, then this on the device's (in: 1 adds to what is read, 2 to what is
 * written, 3 waits first), and what has become of it. NULL: no race. */
static const char *race_of(int what)
{
    struct racing r;
    open_racing(&r);
    const struct cs_device_ops *mem = r.device->mem;
    void *const handle = r.device->handle;
    struct cs_ctx ctx = cs_device_ctx(r.device);
    assert_int_equal(
        mem->comm->reduce_scatter(r.comm, r.from, r.to, RACING, CS_GRAD_F32, r.stream, NULL),
        CS_OK);
    assert_true(isnan(r.to[3])); /* nobody has waited */
    assert_int_equal(mem->event_record(handle, r.event, r.stream, NULL), CS_OK);
    if (what == 3)
        assert_int_equal(mem->stream_wait(handle, r.device->stream, r.event, NULL), CS_OK);
    if (what == 1 || what == 3)
        r.device->ops->add(&ctx, RACING, r.from, r.from, r.from);
    if (what == 2)
        r.device->ops->add(&ctx, RACING, r.from, r.from, r.to);
    assert_int_equal(mem->stream_wait(handle, r.device->stream, r.event, NULL), CS_OK);
    assert_int_equal(mem->stream_sync(handle, r.device->stream, NULL), CS_OK);
    for (int i = 0; i < RACING; i++)
        assert_true(r.to[i] == (float)i);
    mem->comm->close(r.comm);
    mem->stream_destroy(handle, r.stream);
    mem->event_destroy(handle, r.event);
    mem->free(handle, r.from);
    mem->free(handle, r.to);
    cs_lazy_device_free(r.device);
    return cs_lazy_race();
}

static void what_changes_before_anybody_waited_is_told(void **state)
{
    (void)state;
    assert_null(race_of(0));
    assert_string_equal(
        race_of(1),
        "reduce_scatter of rank 0, number 1: what it reads (64 bytes) has changed at byte "
        "6 before anybody waited");
    assert_non_null(strstr(race_of(2), "what it writes (64 bytes) was written at byte 0"));
    assert_null(race_of(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divided_replicas_agree_with_one_rank),
        cmocka_unit_test(divided_replicas_agree_on_devices),
        cmocka_unit_test(halves_and_copies_are_divided_too),
        cmocka_unit_test(halves_and_copies_are_divided_on_devices_too),
        cmocka_unit_test(contexts_divide_too),
        cmocka_unit_test(shared_matrices_are_divided_too),
        cmocka_unit_test(spread_experts_are_divided_too),
        cmocka_unit_test(levels_have_the_same_bits),
        cmocka_unit_test(a_rank_keeps_its_part),
        cmocka_unit_test(what_cannot_be_divided_is_refused),
        cmocka_unit_test(what_changes_before_anybody_waited_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
