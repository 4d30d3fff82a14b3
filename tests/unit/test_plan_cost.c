/* Costs of layers: the roofline and the frozen rule at the granularity of operators. */
#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/operators.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/slot_fill.h"
#include "core/plan/cost/stretch.h"
#include "core/plan/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "tests/support/need.h"
#include "tests/support/spec.h"

enum { ROWS = 128, ITEMS = 5, ITEM_ROWS = 16, LABELS = (ROWS - ITEMS * ITEM_ROWS) / 2 };

struct made {
    struct cs_arena *arena;
    json_t *root;
    struct cs_graph *graph;
    struct cs_layer_cost cost[32];
};

static const struct cs_slot_budget budget = {
    .seq_tokens = ROWS,
    .n_encoders = 1,
    .enc[0] = {.rows = ITEMS * ITEM_ROWS,
               .patches = ITEMS * ITEM_ROWS,
               .items = ITEMS,
               .item_rows = ITEM_ROWS,
               .item_patches = ITEM_ROWS}
};

static void make_with(struct made *m, const struct cs_test_spec *options,
                      const struct cs_device_class *device)
{
    m->arena = cs_arena_new(0);
    m->graph = cs_test_graph(options, m->arena, &m->root);
    assert_true(m->graph->n_layers <= 32);
    cs_layer_costs(m->graph, &budget, device, m->cost);
}

static void make(struct made *m, const char *rules, const struct cs_device_class *device)
{
    make_with(m, &(struct cs_test_spec){.rules = rules}, device);
}

static void done(struct made *m)
{
    json_decref(m->root);
    cs_arena_free(m->arena);
}

static int32_t layer_at(const struct made *m, const char *path)
{
    for (int32_t i = 0; i < m->graph->n_layers; i++)
        if (strcmp(m->graph->layers[i].path, path) == 0)
            return i;
    fail_msg("no layer %s", path);
    return -1;
}

static void near(int64_t got, double want)
{
    if (!((double)got >= want - 2 && (double)got <= want + 2))
        fail_msg("%lld is not %.1f", (long long)got, want);
}

/* all math: memory so fast that only FLOPs count */
static const struct cs_device_class math = {
    .name = "math", .flops = 1000000000, .bytes_per_s = INT64_MAX / 2, .link_bytes_per_s = 1};
static const struct cs_device_class memory = {
    .name = "memory", .flops = INT64_MAX / 2, .bytes_per_s = 1000000000, .link_bytes_per_s = 1};

static void split_flops(const struct made *m, int32_t layer, double *gemm, double *attention)
{
    const struct cs_layer *l = &m->graph->layers[layer];
    bool is_llm = m->graph->modules[l->module].kind == CS_MODULE_LLM;
    int64_t rows = is_llm ? ROWS : ITEMS * ITEM_ROWS;
    int64_t pairs = is_llm ? ROWS * (ROWS + 1) / 2 : ITEMS * ITEM_ROWS * ITEM_ROWS;
    *gemm = (double)cs_layer_fwd_flops(m->graph, l, rows, 0, LABELS);
    *attention = (double)cs_layer_fwd_flops(m->graph, l, rows, pairs, LABELS) - *gemm;
}

static void trained_block_pays_two_gemms_and_two_and_a_half_attentions(void **state)
{
    (void)state;
    static const char *const paths[] = {"vision.encoder.layers.1", "llm.layers.1"};
    struct made m;
    make(&m, "train:*", &math);
    for (size_t i = 0; i < CS_ARRAY_LEN(paths); i++) {
        int32_t at = layer_at(&m, paths[i]);
        double gemm, attention;
        split_flops(&m, at, &gemm, &attention);
        assert_true(gemm > 0 && attention > 0);
        near(m.cost[at].fwd_ns, gemm + attention);
        near(m.cost[at].bwd_input_ns, gemm + 2.5 * attention);
        near(m.cost[at].bwd_weight_ns, gemm);
    }
    done(&m);
}

static void frozen_block_below_a_trained_one_pays_data_gradients_only(void **state)
{
    (void)state;
    struct made m;
    make(&m, "train:vision.projector", &math);
    int32_t at = layer_at(&m, "llm.layers.0");
    double gemm, attention;
    split_flops(&m, at, &gemm, &attention);
    near(m.cost[at].bwd_input_ns, gemm + 2.5 * attention);
    assert_int_equal(m.cost[at].bwd_weight_ns, 0);
    at = layer_at(&m, "vision.encoder.layers.1");
    assert_int_equal(m.cost[at].bwd_input_ns + m.cost[at].bwd_weight_ns, 0);
    done(&m);
}

static double share_of_first_gemm(const struct made *m, int32_t layer)
{
    const struct cs_layer *l = &m->graph->layers[layer];
    double first = 0, all = 0;
    for (int32_t i = l->first_param; i < l->first_param + l->n_params; i++) {
        const struct cs_param *p = &m->graph->params[i];
        bool is_qkv = p->role == CS_PARAM_Q_W || p->role == CS_PARAM_K_W || p->role == CS_PARAM_V_W;
        if (p->n_dims == 2) {
            all += (double)p->count;
            first += is_qkv ? (double)p->count : 0;
        }
    }
    return first / all;
}

static void first_trained_block_skips_the_gradient_of_its_input(void **state)
{
    (void)state;
    struct made m;
    make(&m, "train:llm.layers.1-2", &math);
    int32_t at = layer_at(&m, "llm.layers.1");
    double gemm, attention;
    split_flops(&m, at, &gemm, &attention);
    double share = share_of_first_gemm(&m, at);
    assert_true(share > 0.1 && share < 0.9);
    near(m.cost[at].bwd_input_ns, gemm * (1 - share) + 2.5 * attention);
    near(m.cost[at].bwd_weight_ns, gemm);
    at = layer_at(&m, "llm.layers.2");
    split_flops(&m, at, &gemm, &attention);
    near(m.cost[at].bwd_input_ns, gemm + 2.5 * attention);
    done(&m);
}

static void first_layer_of_patches_has_no_data_gradient(void **state)
{
    (void)state;
    struct made m;
    make(&m, "train:*", &math);
    int32_t at = layer_at(&m, "vision.encoder.embed");
    assert_int_equal(m.cost[at].bwd_input_ns, 0);
    near(m.cost[at].bwd_weight_ns, (double)m.cost[at].fwd_ns);
    done(&m);
}

static void slow_memory_decides_by_bytes(void **state)
{
    (void)state;
    struct made m;
    make(&m, "train:*", &memory);
    int32_t embed = layer_at(&m, "llm.embed");
    assert_int_equal(m.cost[embed].fwd_ns, 2 * ROWS * 48 * 4);
    int32_t block = layer_at(&m, "llm.layers.0");
    int64_t weights = 4 * m.graph->layers[block].n_elements;
    assert_true(m.cost[block].fwd_ns > weights + 2 * ROWS * 48 * 4);
    done(&m);
}

/* 5 pictures of 16 rows and 48 of text: the pairs of each rule are all that changes, and encoders
 * see their pictures whole under every rule of the LLM. */
static void a_block_costs_the_pairs_of_its_mask(void **state)
{
    (void)state;

    static const struct {
        const char *mask;
        int window, prefix, pairs;
    } rows[] = {
        {"causal",         0,  0,  ROWS * (ROWS + 1) / 2                      },
        {"packed",         0,  0,  ROWS * (ROWS + 1) / 2                      },
        {"image_bidir",    0,  0,  ROWS * (ROWS + 1) / 2 + ITEMS * 16 * 15 / 2},
        {"modality_bidir", 0,  0,  ROWS * (ROWS + 1) / 2 + 80 * 79 / 2        },
        {"item",           0,  0,  48 * (ROWS + 1) / 2 + ITEMS * 16 * 16      },
        {"cornstarch",     0,  0,  48 * (ROWS + 1) / 2 + 80 * 80              },
        {"window",         28, 0,  ROWS * (ROWS + 1) / 2 - 100 * 101 / 2      },
        {"prefix",         0,  20, ROWS * (ROWS + 1) / 2 + 20 * 19 / 2        },
    };

    struct made causal;
    make(&causal, "train:*", &math);
    const int32_t block = layer_at(&causal, "llm.layers.1");
    const int32_t encoder = layer_at(&causal, "vision.encoder.layers.1");
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct made m;
        const struct cs_test_spec options = {
            .mask = rows[i].mask, .window = rows[i].window, .prefix = rows[i].prefix};
        make_with(&m, &options, &math);
        const struct cs_layer *l = &m.graph->layers[block];
        const double gemm = (double)cs_layer_fwd_flops(m.graph, l, ROWS, 0, 0),
                     all = (double)cs_layer_fwd_flops(m.graph, l, ROWS, rows[i].pairs, 0);
        near(m.cost[block].fwd_ns, all);
        near(m.cost[block].bwd_input_ns, gemm + 2.5 * (all - gemm));
        near(m.cost[block].bwd_weight_ns, gemm);
        assert_int_equal(m.cost[encoder].fwd_ns, causal.cost[encoder].fwd_ns);
        done(&m);
    }
    done(&causal);
}

/* Blocks of one model with masks of their own: each pays its pairs; profiles tell them apart. */
static void blocks_with_a_window_cost_less(void **state)
{
    (void)state;
    struct made plain, m;
    char key[2][65];
    const struct cs_test_spec options = {.is_qwen2 = true, .sliding_window = 28},
                              full = {.is_qwen2 = true};
    make_with(&m, &options, &math);
    make_with(&plain, &full, &math);
    for (int b = 0; b < 3; b++) {
        const int32_t block = layer_at(&m, b == 0   ? "llm.layers.0"
                                           : b == 1 ? "llm.layers.1"
                                                    : "llm.layers.2");
        const int pairs = ROWS * (ROWS + 1) / 2 - (b > 0 ? 100 * 101 / 2 : 0);
        const struct cs_layer *l = &m.graph->layers[block];
        near(m.cost[block].fwd_ns, (double)cs_layer_fwd_flops(m.graph, l, ROWS, pairs, LABELS));
        assert_int_equal(l->attention, b > 0);
    }
    cs_profile_key(m.graph, &math, key[0]);
    cs_profile_key(plain.graph, &math, key[1]);
    assert_string_not_equal(key[0], key[1]);
    done(&plain);
    done(&m);
}

/* what a block of the LLM costs each of two ranks */
static struct cs_layer_cost shared_cost(const char *rules, bool sp, int32_t units, int64_t rate)
{
    struct cs_device_class device = math;
    struct cs_err err = {0};
    struct cs_spec *spec;
    struct made m;
    device.units = units;
    device.link_bytes_per_s = rate;
    make_with(&m, &(struct cs_test_spec){.rules = rules, .llm_tp = 2, .llm_sp = sp}, &device);
    need(cs_spec_read(m.root, m.arena, &spec, &err), &err);
    const int32_t at = layer_at(&m, "llm.layers.1");
    need(cs_spec_layer_costs(spec, m.graph, &budget, &device, m.arena, m.cost, NULL, &err), &err);
    const struct cs_layer_cost cost = m.cost[at];
    done(&m);
    return cost;
}

/* Two sums each way, at the rate of the link, on hosts and GPUs, with nothing beside them; weights' gradients have none. */
static void ranks_wait_for_the_sums_of_shared_matrices(void **state)
{
    static const char *const rules[] = {"train:*", "train:vision.projector"};
    (void)state;
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(rules); i++) {
        const int32_t units = i / 2 == 0 ? 0 : 132;
        const struct cs_layer_cost none = shared_cost(rules[i % 2], false, units, INT64_MAX / 2),
                                   slow = shared_cost(rules[i % 2], false, units, 1000000),
                                   slower = shared_cost(rules[i % 2], false, units, 500000);
        const double fwd = (double)(slow.fwd_ns - none.fwd_ns);
        assert_true(fwd > 1e6);
        near(slow.bwd_input_ns, (double)none.bwd_input_ns + fwd);
        near(slower.fwd_ns, (double)none.fwd_ns + 2 * fwd);
        near(slower.bwd_input_ns - (slow.bwd_input_ns - none.bwd_input_ns) - none.bwd_input_ns,
             (double)(slower.fwd_ns - slow.fwd_ns));
        assert_int_equal(slow.bwd_weight_ns, none.bwd_weight_ns);
    }
}

/* Rows that are split travel beside the products on GPUs: short ways hide, of long ones what products take. On hosts
 * nothing hides. */
static void split_rows_travel_beside_products(void **state)
{
    const int64_t slow = 1000, slower = 500, none = INT64_MAX / 2;
    (void)state;
    const struct cs_layer_cost free = shared_cost("train:*", true, 132, none),
                               beside = shared_cost("train:*", true, 132, 1000000000),
                               long_one = shared_cost("train:*", true, 132, slow),
                               longer = shared_cost("train:*", true, 132, slower),
                               host = shared_cost("train:*", true, 0, slow),
                               host_free = shared_cost("train:*", true, 0, none);
    assert_int_equal(beside.fwd_ns, free.fwd_ns);
    assert_int_equal(beside.bwd_input_ns, free.bwd_input_ns);
    const double fwd = 4 * (ROWS / 2 * 48 * 4) * 1e9 / (double)slow, rounding = 10; /* 4 shifts */
    assert_true(fabs((double)(longer.fwd_ns - long_one.fwd_ns) - fwd) <= rounding);
    assert_true(fabs((double)(longer.bwd_input_ns - long_one.bwd_input_ns) - 1.5 * fwd) <=
                rounding); /* inputs once more */
    assert_true(long_one.fwd_ns > free.fwd_ns &&
                (double)(long_one.fwd_ns - free.fwd_ns) < fwd - 1000);
    assert_true(fabs((double)(host.fwd_ns - host_free.fwd_ns) - fwd) <= rounding);
    assert_true(fabs((double)(host.bwd_input_ns - host_free.bwd_input_ns) - 1.5 * fwd) <= rounding);
}

/* Of a recurrent layer over n ranks beside its n-th part: rows there and back, the halo, what a rank makes
 * of its rows, the exchange of states and their joins. Closed forms for heads of 6 and 5; between two ranks
 * none has a map, and nothing is joined. */
static void recurrent_layers_pass_states_from_rank_to_rank(void **state)
{
    const struct cs_test_spec options = {.is_recurrent = true, .n_encoders = -1};
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root;
    struct cs_graph *graph = cs_test_graph(&options, arena, &root);
    const struct cs_layer *layer = &graph->layers[1];
    const struct cs_recurrent *r = &cs_layer_arch(graph, layer)->recurrent;
    const int64_t begin = 2 * 64 * (3 * 6 + 5) + 64 * 64 / 3;
    (void)state;
    assert_true(cs_context_is_stretched(layer));
    for (int32_t n = 2; n <= 8; n++) {
        const struct cs_stretch_states s = cs_stretch_states(r, 16, n, false),
                                       back = cs_stretch_states(r, 16, n, true);
        const int64_t map = n > 2 ? 4 * 36 : 0, leaves = 4 * 30, asked = 2 * 64 * 5 + 6 * 30;
        assert_int_equal(s.made, 16 * (begin + leaves + map));
        assert_int_equal(back.made, 16 * (begin + asked + (n > 2 ? leaves + map : 0)));
        assert_int_equal(s.joined, (n - 2) * 2 * 36 * 5);
        assert_int_equal(back.joined, s.joined);
        assert_int_equal(s.moved, (n - 1) * 30 + (n - 2) * 36);
        assert_int_equal(back.moved, (n - 1) * (n > 2 ? 66 : 30));
    }
    struct cs_device_class device = *cs_device_class_find("cpu");
    const struct cs_stretch over = {graph, &device, 4, 1, 128};
    struct cs_layer_cost cost = {.fwd_ns = 4000000, .bwd_input_ns = 8000000, .bwd_weight_ns = 3};
    struct cs_layer_parts parts = {
        .fwd = {0, 0}
    };
    struct cs_layer_cost fixed;
    const struct cs_layer_cost whole = cost;
    const double speed = 1000000.0 / (double)cs_layer_fwd_flops(graph, layer, 32, 0, 0);
    const double link = 1e9 / (double)device.link_bytes_per_s,
                 wait = (double)device.link_latency_ns;
    const double turn = 2 * (wait + link * 32 * 3 / 4 * 48 * 4), halo = wait + link * 2 * 44 * 4;
    const struct cs_stretch_states s = cs_stretch_states(r, 32, 4, false),
                                   back = cs_stretch_states(r, 32, 4, true);
    const double fwd = 1000000 + turn + halo + wait + link * 4 * 4 * (double)s.moved +
                       speed * 4 * (double)(s.made + s.joined);
    const double bwd = 2000000 + turn + 2 * halo + wait + link * 4 * 4 * (double)back.moved +
                       speed * 4 * (double)(back.made + back.joined);
    cs_stretch_cost(&over, layer, &parts, &cost, &fixed);
    assert_in_range(cost.fwd_ns, (int64_t)fwd - 1, (int64_t)fwd + 8);
    assert_in_range(cost.bwd_input_ns, (int64_t)bwd - 1, (int64_t)bwd + 8);
    assert_int_equal(cost.bwd_weight_ns, 1);
    cost = whole; /* heads of two ranks each, at twice the speed: half of all but waits and rows */
    struct cs_stretch halves = over;
    halves.tp = 2;
    cost.fwd_ns /= 2;
    cs_stretch_cost(&halves, layer, &parts, &cost, &fixed);
    const double half = (fwd - turn - 2 * wait) / 2 + turn + 2 * wait;
    assert_in_range(cost.fwd_ns, (int64_t)half - 1, (int64_t)half + 8);
    cost = whole;
    device.link_bytes_per_s = 0; /* not known: what ranks compute is left */
    cs_stretch_cost(&over, layer, &parts, &cost, &fixed);
    assert_in_range(cost.fwd_ns, 1000000 + (int64_t)(speed * 4 * (double)(s.made + s.joined)),
                    1000002 + (int64_t)(speed * 4 * (double)(s.made + s.joined)));
    parts.fwd.fixed = parts.bwd_weight.fixed = 0.5; /* half of it is nobody's share */
    cost = (struct cs_layer_cost){.fwd_ns = 4000000, .bwd_weight_ns = 4000};
    cs_stretch_cost(&over, layer, &parts, &cost, &fixed);
    assert_int_equal(cost.bwd_weight_ns, 2000 + 500);
    assert_int_equal(fixed.bwd_weight_ns, 2000);
    assert_true(cost.fwd_ns >= 2500000 && fixed.fwd_ns >= 2000000);
    json_decref(root);
    cs_arena_free(arena);
}

/* ---- measured on ranks that share matrices ---- */

/* 100 x on one rank; on two 60 x + x x / 16 forward, 55 x backward, 70 x more to train; where they split rows 45 x, 40 x
 * and 80 x. Encoders the same, other layers 10. Nothing was measured on more ranks. */
static const struct cs_profile_row measured_rows[] = {
    {.module = "llm",
     .kind = CS_LAYER_EMBED,
     .tp = 1,
     .cp = 1,
     .fwd = {0, 0, 10},
     .bwd_weight = {0, 0, 10} },
    {   .module = "llm",
     .kind = CS_LAYER_BLOCK,
     .tp = 1,
     .cp = 1,
     .fwd = {0, 100, 0},
     .bwd_input = {0, 100, 0},
     .bwd_weight = {0, 100, 0},
     .bwd_weight_bf16 = {0, 10, 0}},
    { .module = "llm",
     .kind = CS_LAYER_BLOCK,
     .tp = 2,
     .cp = 1,
     .fwd = {0.0625, 60, 0},
     .bwd_input = {0, 55, 0},
     .bwd_weight = {0, 70, 0}},
    {      .module = "llm",
     .kind = CS_LAYER_BLOCK,
     .tp = 2,
     .cp = 1,
     .sp = true,
     .fwd = {0, 45, 0},
     .bwd_input = {0, 40, 0},
     .bwd_weight = {0, 80, 0}},
    {       .module = "llm",
     .kind = CS_LAYER_HEAD,
     .tp = 1,
     .cp = 1,
     .fwd = {0, 100, 0},
     .bwd_input = {0, 100, 0},
     .bwd_weight = {0, 100, 0}},
    {      .module = "llm",
     .kind = CS_LAYER_HEAD,
     .tp = 2,
     .cp = 1,
     .fwd = {1, 40, 0},
     .bwd_input = {0, 90, 0},
     .bwd_weight = {0, 80, 0}},
    {       .module = "vision.encoder",
     .kind = CS_LAYER_EMBED,
     .tp = 1,
     .cp = 1,
     .fwd = {0, 0, 10},
     .bwd_weight = {0, 0, 10}        },
    {      .module = "vision.encoder",
     .kind = CS_LAYER_BLOCK,
     .tp = 1,
     .cp = 1,
     .fwd = {0, 100, 0},
     .bwd_input = {0, 100, 0},
     .bwd_weight = {0, 100, 0}},
    {     .module = "vision.encoder",
     .kind = CS_LAYER_BLOCK,
     .tp = 2,
     .cp = 1,
     .fwd = {0.5, 60, 0},
     .bwd_input = {0, 55, 0},
     .bwd_weight = {0, 70, 0}},
    {      .module = "vision.encoder",
     .kind = CS_LAYER_NORM,
     .tp = 1,
     .cp = 1,
     .fwd = {0, 0, 10},
     .bwd_input = {0, 0, 10},
     .bwd_weight = {0, 0, 10}},
    {      .module = "vision.projector",
     .kind = CS_LAYER_PROJECTOR,
     .tp = 1,
     .cp = 1,
     .fwd = {0, 0, 10},
     .bwd_input = {0, 0, 10},
     .bwd_weight = {0, 0, 10}},
};

/* exchanges take no time */
static const struct cs_device_class unlinked = {
    .name = "unlinked", .flops = 1000000000, .bytes_per_s = 1000000000};

static void measured_on(struct made *m, const struct cs_test_spec *options, bool keeps_bf16,
                        const struct cs_device_class *device)
{
    struct cs_profile profile = {.device = device->name,
                                 .precision = "",
                                 .row = (struct cs_profile_row *)(uintptr_t)measured_rows,
                                 .n_rows = CS_ARRAY_LEN(measured_rows)};
    struct cs_err err = {0};
    struct cs_spec *spec;
    make_with(m, options, device);
    m->graph->keeps_bf16 = keeps_bf16;
    cs_profile_key(m->graph, device, profile.key);
    json_object_set_new(json_object_get(m->root, "plan"), "profile", cs_profile_json(&profile));
    need(cs_spec_read(m->root, m->arena, &spec, &err), &err);
    need(cs_spec_layer_costs(spec, m->graph, &budget, device, m->arena, m->cost, NULL, &err), &err);
}

static void measured_costs(struct made *m, const struct cs_test_spec *options, bool keeps_bf16)
{
    measured_on(m, options, keeps_bf16, &unlinked);
}

static void costs_are(const struct made *m, const char *path, double fwd, double bwd_input,
                      double bwd_weight)
{
    const struct cs_layer_cost *cost = &m->cost[layer_at(m, path)];
    near(cost->fwd_ns, fwd);
    near(cost->bwd_input_ns, bwd_input);
    near(cost->bwd_weight_ns, bwd_weight);
}

/* What was measured on as many ranks, at the rows that they have; less where they split rows, if that was measured;
 * without a row their part of what one rank takes, and adding the parts that come. */
static void ranks_that_share_matrices_take_what_was_measured(void **state)
{
    struct made m;
    (void)state;
    measured_costs(&m, &(struct cs_test_spec){.rules = "train:*", .llm_tp = 2, .vision_tp = 2},
                   false);
    costs_are(&m, "llm.layers.1", 60 * ROWS + ROWS * ROWS / 16.0, 55 * ROWS, 70 * ROWS);
    costs_are(&m, "llm.head", 40 * LABELS + LABELS * LABELS, 90 * LABELS, 80 * LABELS);
    costs_are(&m, "llm.embed", 10, 0, 10);
    costs_are(&m, "vision.encoder.layers.1", 60 * 80 + 80 * 80 / 2.0, 55 * 80, 70 * 80);
    costs_are(&m, "vision.projector", 10, 10, 10);
    done(&m);

    measured_costs(
        &m,
        &(struct cs_test_spec){
            .rules = "train:*", .llm_tp = 2, .llm_sp = true, .vision_tp = 2, .vision_sp = true},
        false);
    costs_are(&m, "llm.layers.1", 45 * ROWS, 40 * ROWS, 80 * ROWS);
    costs_are(&m, "llm.head", 40 * LABELS + LABELS * LABELS, 90 * LABELS, 80 * LABELS);
    const double add = 2.0 * 3 * 40 * 48 * 4; /* twice: 40 rows are read two times and written */
    costs_are(&m, "vision.encoder.layers.1", 60 * 80 + 80 * 80 / 2.0 + add, 55 * 80 + add, 70 * 80);
    done(&m);

    measured_costs(&m, &(struct cs_test_spec){.rules = "train:*", .llm_tp = 4}, false);
    costs_are(&m, "llm.layers.1", 25 * ROWS, 25 * ROWS, 25 * ROWS);
    costs_are(&m, "llm.head", 25 * LABELS, 25 * LABELS, 25 * LABELS);
    costs_are(&m, "vision.encoder.layers.1", 100 * 80, 100 * 80, 100 * 80);
    done(&m);
}

/* Adding the parts that have come is in what was measured with rows split, not in what one rank takes. */
static void parts_are_added_once(void **state)
{
    struct made m;
    struct cs_device_class device = unlinked;
    (void)state;
    device.units = 132;
    device.bytes_per_s = 1000000; /* adding is all that takes time */
    for (int tp = 2; tp <= 4; tp += 2) {
        measured_on(&m, &(struct cs_test_spec){.rules = "train:*", .llm_tp = tp, .llm_sp = true},
                    false, &device);
        const double add = 2.0 * 3 * ROWS / tp * (tp - 1) * 48 * 4 * 1000;
        costs_are(&m, "llm.layers.1", tp == 2 ? 45 * ROWS : 25 * ROWS + add,
                  tp == 2 ? 40 * ROWS : 25 * ROWS + add, (tp == 2 ? 80 : 25) * ROWS);
        done(&m);
    }
}

/* Gradients in bf16 were measured on one rank: on two they are as much less as those in fp32 are. Of a layer with
 * nothing before it that trains, data gradients inside it become less too. */
static void what_was_not_measured_of_them_is_in_proportion(void **state)
{
    struct made m;
    struct made one;
    (void)state;
    measured_costs(&m, &(struct cs_test_spec){.rules = "train:*", .llm_tp = 2}, true);
    near(m.cost[layer_at(&m, "llm.layers.1")].bwd_weight_ns, 7 * ROWS);
    done(&m);

    const char *rules = "train:llm.layers.1-2";
    measured_costs(&one, &(struct cs_test_spec){.rules = rules}, false);
    measured_costs(&m, &(struct cs_test_spec){.rules = rules, .llm_tp = 2}, false);
    const int32_t at = layer_at(&m, "llm.layers.1");
    assert_true(one.cost[at].bwd_input_ns > 0 && one.cost[at].bwd_input_ns < 100 * ROWS);
    near(m.cost[at].bwd_input_ns, 0.55 * (double)one.cost[at].bwd_input_ns);
    done(&one);
    done(&m);
}

/* Ranks of a context have half of the rows, and those that share items half of these: so many count, and then every
 * rank has its part. */
static void they_have_the_rows_of_a_part(void **state)
{
    struct made m;
    struct cs_context_work work;
    struct cs_err err = {0};
    (void)state;
    measured_costs(
        &m,
        &(struct cs_test_spec){
            .rules = "train:*", .llm_tp = 2, .llm_cp = 2, .vision_tp = 2, .vision_cp = 2},
        false);
    need(cs_context_work_make(m.graph, &budget, "lpt", false, 2, m.arena, &work, &err), &err);
    const double part = (double)work.most_rows / ROWS, few = LABELS / 2.0;
    assert_true(part >= 0.5 && part < 1);
    costs_are(&m, "llm.head", part * LABELS * (few + 40), part * LABELS * 90, part * LABELS * 80);
    costs_are(&m, "vision.encoder.layers.1", 40 * (60 + 40 / 2.0), 55 * 40, 70 * 40);
    near(m.cost[layer_at(&m, "llm.layers.1")].bwd_weight_ns, part * ROWS * 70);
    done(&m);
}

/* On top of what they do: of each as many as the layer runs, of passes that it has; ranks that share matrices run as
 * many each. */
static void operators_take_their_time_however_few_rows(void **state)
{
    enum { EACH = 7000, FWD = 9, BWD_INPUT = 9, BWD_WEIGHT = 4 }; /* of a block of a llama */

    struct cs_device_class device = math;
    struct made m;
    struct cs_err err = {0};
    struct cs_spec *spec;
    double gemm, attention;
    (void)state;
    device.operator_ns = EACH;
    make(&m, "train:*", &device);
    const int32_t at = layer_at(&m, "llm.layers.1");
    split_flops(&m, at, &gemm, &attention);
    costs_are(&m, "llm.layers.1", gemm + attention + FWD * EACH,
              gemm + 2.5 * attention + BWD_INPUT * EACH, gemm + BWD_WEIGHT * EACH);
    /* words, and rows of pictures, whose gradients go back */
    costs_are(&m, "llm.embed", EACH + EACH, EACH, EACH);
    done(&m);

    make(&m, "train:vision.projector", &device);
    costs_are(&m, "llm.layers.1", gemm + attention + FWD * EACH,
              gemm + 2.5 * attention + BWD_INPUT * EACH, 0);
    costs_are(&m, "llm.embed", EACH + EACH, EACH, 0);
    done(&m);

    make(&m, "freeze:*", &device);
    costs_are(&m, "llm.layers.1", gemm + attention + FWD * EACH, 0, 0);
    done(&m);

    make_with(&m, &(struct cs_test_spec){.rules = "train:*", .llm_tp = 2}, &device);
    need(cs_spec_read(m.root, m.arena, &spec, &err), &err);
    need(cs_spec_layer_costs(spec, m.graph, &budget, &device, m.arena, m.cost, NULL, &err), &err);
    const int64_t shared = m.cost[at].bwd_weight_ns;
    near(shared, gemm / 2 + BWD_WEIGHT * EACH);
    done(&m);
}

/* What is left of a shorter slot: all of its operators. */
static void operators_are_no_part_of_rows(void **state)
{
    const struct cs_tensor_ranks one = {.tp = 1};
    struct cs_device_class device = math;
    struct made m;
    (void)state;
    device.operator_ns = 7000;
    make(&m, "train:*", &device);
    const int32_t at = layer_at(&m, "llm.layers.1");
    const struct cs_layer *layer = &m.graph->layers[at];
    const struct cs_layer_parts flops = cs_layer_parts(m.graph, layer, &budget),
                                parts = cs_tensor_parts(NULL, &device, m.graph, layer, &budget, one,
                                                        &m.cost[at]);
    const struct cs_layer_cost fixed = cs_tensor_fixed(NULL, &device, m.graph, layer, one);
    near(fixed.fwd_ns, 9 * 7000);
    near((int64_t)(parts.fwd.fixed * (double)m.cost[at].fwd_ns), 9 * 7000);
    near((int64_t)(parts.bwd_weight.fixed * (double)m.cost[at].bwd_weight_ns), 4 * 7000);
    near((int64_t)(parts.fwd.pairs * (double)m.cost[at].fwd_ns),
         flops.fwd.pairs * (double)(m.cost[at].fwd_ns - 9 * 7000));
    done(&m);
}

/* ---- slots that are not full ---- */

static struct cs_plan plan_of(const struct made *m, struct cs_stage *stage)
{
    for (int32_t b = 0; b < m->graph->n_branches; b++)
        stage[b] = (struct cs_stage){.branch = b,
                                     .first_layer = m->graph->branches[b].first_layer,
                                     .n_layers = m->graph->branches[b].n_layers};
    return (struct cs_plan){.stages = stage, .n_stages = m->graph->n_branches, .budget = budget};
}

/* times of a stage's layers, all passes */
static double stage_ns(const struct made *m, const struct cs_stage *stage)
{
    double ns = 0;
    for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
        ns += (double)(m->cost[l].fwd_ns + m->cost[l].bwd_input_ns + m->cost[l].bwd_weight_ns);
    return ns;
}

/* Full ones with one sample are what plans count on; of items a part takes its part, beside operators; four samples
 * have a quarter of the pairs, and rows in proportion. */
static void slots_take_what_their_samples_have(void **state)
{
    struct cs_device_class device = math;
    struct cs_stage stage[2];
    struct cs_err err = {0};
    struct cs_spec *spec;
    struct made m;
    int32_t permille[2];
    (void)state;
    device.operator_ns = 7000;
    make(&m, "train:*", &device);
    need(cs_spec_read(m.root, m.arena, &spec, &err), &err);
    const struct cs_plan plan = plan_of(&m, stage);
    struct cs_slot_fill fill = {.rows = ROWS, .document = ROWS, .items = {1}};
    need(cs_slot_fill_permille(spec, m.graph, &plan, &device, &fill, permille, &err), &err);
    assert_int_equal(permille[0], 1000);
    assert_int_equal(permille[1], 1000);

    fill = (struct cs_slot_fill){.rows = ROWS / 2.0, .document = ROWS / 8.0, .items = {0.25}};
    need(cs_slot_fill_permille(spec, m.graph, &plan, &device, &fill, permille, &err), &err);
    double fixed = 0, work = 0;
    for (int32_t l = 0; l < stage[0].n_layers; l++) {
        const struct cs_layer_cost of = cs_operators_cost(m.graph, &m.graph->layers[l], &device);
        fixed += (double)(of.fwd_ns + of.bwd_input_ns + of.bwd_weight_ns);
    }
    near(permille[0], 1000 * (fixed + (stage_ns(&m, &stage[0]) - fixed) / 4) / stage_ns(&m, stage));

    const struct cs_stage *llm = &stage[1];
    const int64_t pairs = 4 * (ROWS / 8) * (ROWS / 8 + 1) / 2;
    fixed = 0;
    for (int32_t l = llm->first_layer; l < llm->first_layer + llm->n_layers; l++) {
        const struct cs_layer *layer = &m.graph->layers[l];
        const struct cs_layer_cost of = cs_operators_cost(m.graph, layer, &device);
        const int64_t labels = 4 * ((ROWS / 8 - ITEMS * ITEM_ROWS / 16) / 2); /* of its text half */
        const bool attends = layer->kind == CS_LAYER_BLOCK;
        const double gemm = (double)cs_layer_fwd_flops(m.graph, layer, ROWS / 2, 0, labels),
                     all = (double)cs_layer_fwd_flops(m.graph, layer, ROWS / 2, attends ? pairs : 0,
                                                      labels);
        fixed += (double)(of.fwd_ns + of.bwd_input_ns + of.bwd_weight_ns);
        work += 3 * gemm + 3.5 * (all - gemm);
    }
    near(permille[1], 1000 * (fixed + work) / stage_ns(&m, llm));
    assert_true(permille[1] < 500); /* less than its rows: half of them */
    done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trained_block_pays_two_gemms_and_two_and_a_half_attentions),
        cmocka_unit_test(frozen_block_below_a_trained_one_pays_data_gradients_only),
        cmocka_unit_test(first_trained_block_skips_the_gradient_of_its_input),
        cmocka_unit_test(first_layer_of_patches_has_no_data_gradient),
        cmocka_unit_test(slow_memory_decides_by_bytes),
        cmocka_unit_test(a_block_costs_the_pairs_of_its_mask),
        cmocka_unit_test(blocks_with_a_window_cost_less),
        cmocka_unit_test(ranks_wait_for_the_sums_of_shared_matrices),
        cmocka_unit_test(split_rows_travel_beside_products),
        cmocka_unit_test(recurrent_layers_pass_states_from_rank_to_rank),
        cmocka_unit_test(ranks_that_share_matrices_take_what_was_measured),
        cmocka_unit_test(parts_are_added_once),
        cmocka_unit_test(what_was_not_measured_of_them_is_in_proportion),
        cmocka_unit_test(they_have_the_rows_of_a_part),
        cmocka_unit_test(operators_take_their_time_however_few_rows),
        cmocka_unit_test(operators_are_no_part_of_rows),
        cmocka_unit_test(slots_take_what_their_samples_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
