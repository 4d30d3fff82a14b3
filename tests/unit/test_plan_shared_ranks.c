/* Layouts with several ranks of a stage (tp, cp, ep): what GPUs run is planned for them, and what runs nowhere is
 * refused. */
#include "core/plan/make/planner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/experts.h"
#include "core/plan/cost/links/edges.h"
#include "core/plan/cost/tensors.h"
#include "core/plan/json/plan_json.h"
#include "support/planned.h"

static enum cs_status plan_in(struct cs_arena *arena, const char *device, const json_t *root,
                              struct cs_plan **plan, struct cs_err *err)
{
    const struct cs_cluster cluster = {cs_device_class_find(device), 1, 16};
    struct cs_spec *spec;
    struct cs_graph *graph;
    if (cs_spec_read(root, arena, &spec, err) != CS_OK ||
        cs_graph_build(spec, true, arena, &graph, err) != CS_OK)
        fail_msg("%s", err->text);
    return cs_plan_make(spec, graph, &cluster, arena, plan, err);
}

static enum cs_status plan_for(const char *device, const struct cs_test_spec *options,
                               struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = cs_test_spec_json(options);
    struct cs_plan *plan;
    const enum cs_status status = plan_in(arena, device, root, &plan, err);
    json_decref(root);
    cs_arena_free(arena);
    return status;
}

struct row {
    struct cs_test_spec options;
    const char *words[2];
};

static void assert_refused(const char *device, const struct row *row)
{
    struct cs_err err = {.text = ""};
    if (plan_for(device, &row->options, &err) != CS_PLAN)
        fail_msg("%s: not refused with \"%s\"", device, row->words[0]);
    for (size_t w = 0; w < CS_ARRAY_LEN(row->words); w++)
        if (strstr(err.text, row->words[w]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.text, row->words[w]);
}

/* rows split over GPUs, of all kinds of layers and slots with a degree of their own, items of encoders,
 * matrices, experts, items beside matrices; encoders with replicas of their own number, and copies of them */
static void gpus_split_rows_and_matrices(void **state)
{
    static const struct cs_test_spec rows[] = {
  /* clang-format off */
        {.llm_cp = 2},
        {.llm_cp = 2, .is_recurrent = true},
        {.llm_cp = 2, .has_experts = true},
        {.llm_cp = 2, .context_rows = 64},
        {.vision_cp = 2},
        {.llm_cp = 2, .modality = "encoder-colocated"},
        {.llm_tp = 2},
        {.vision_tp = 2},
        {.vision_dp = 2},
        {.vision_dp = 3, .dp = 2},
        {.llm_tp = 2, .modality = "encoder-colocated"},
        {.llm_pp = 2, .modality = "encoder-colocated", .schedule = "three-phase"},
        {.dp = 2, .llm_ep = 2, .has_experts = true},
        {.dp = 2, .llm_cp = 2, .llm_tp = 2, .llm_ep = 4, .has_experts = true},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_err err = {.text = ""};
        if (plan_for("h100-80g", &rows[i], &err) != CS_OK)
            fail_msg("%s", err.text);
    }
}

static void what_ranks_cannot_share_is_refused(void **state)
{
    static const struct row rows[] = {
  /* clang-format off */
        {{.llm_tp = 4, .vision_tp = 2, .modality = "encoder-colocated"}, {"plan.parallel.vision.tp is 2, that of llm 4", "set one tp for both"}},
        {{.vision_dp = 2, .modality = "encoder-colocated"}, {"plan.parallel.vision.dp is 2, that of llm 1", "choose modality encoder-parallel"}},
        {{.llm_cp = 2, .vision_cp = 3, .modality = "encoder-colocated"}, {"plan.parallel.vision.cp = 3", "llm, which has cp = 2"}},
        {{.llm_sp = true}, {"plan.parallel.llm.sp: ranks that share matrices", "tp is 1; set plan.parallel.llm.tp"}},
        {{.llm_tp = 2, .vision_sp = true}, {"plan.parallel.vision.sp", "or leave sp away"}},
        {{.llm_tp = 3}, {"which 3 ranks cannot share", "numbers that can"}},
        {{.llm_ep = 2}, {"plan.parallel.llm.ep = 2: llm has no layers with experts", "leave ep away"}},
        {{.dp = 2, .llm_cp = 3, .llm_ep = 4, .has_experts = true, .slots = 4}, {"ep = 4 does not divide dp * cp = 2 * 3", "numbers that do: 1, 2, 3, 6"}},
        {{.dp = 6, .llm_ep = 6, .has_experts = true, .slots = 6}, {"have 5 experts each", "choose ep <= 5"}},
        {{.context_rows = 64}, {"plan.context_rows = 64: rows of llm are not split", "leave context_rows away"}},
        {{.exchange = "heads"}, {"plan.context_exchange = \"heads\": rows of llm are not split", "leave context_exchange away"}},
        {{.exchange = "heads", .llm_cp = 3}, {"3 ranks (plan.parallel.llm.cp) cannot share the 4 heads, 2 of keys, of llm.layers.0", "cp can be 2, 4; or set \"keys\""}},
        {{.exchange = "heads", .llm_cp = 4, .llm_tp = 2}, {"of llm.layers.0 behind plan.parallel.llm.tp = 2", "cp can be 2;"}},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        assert_refused("cpu", &rows[i]);
}

static bool says(const struct cs_plan *plan, const char *words)
{
    for (int32_t i = 0; i < plan->n_why; i++)
        if (strstr(plan->why[i], words) != NULL)
            return true;
    return false;
}

/* Where a job does not say what goes between ranks of a context the plan takes what costs less, and says both: heads
 * where these are as many for keys, keys where they have few heads; and the only way there is without a word. */
static void exchanges_are_chosen_by_cost(void **state)
{
#define HEADS(q, k) "{\"num_attention_heads\": " #q ", \"num_key_value_heads\": " #k "}"

    static const struct {
        struct cs_test_spec options;
        bool moves_heads;
        const char *says; /* NULL: nothing of both */
    } rows[] = {
  /* clang-format off */
        {{.exchange = "auto", .llm_cp = 4, .llm_keys = HEADS(32, 32)}, true, "Heads go between them"},
        {{.exchange = "auto", .llm_cp = 8, .llm_tp = 2, .llm_keys = HEADS(32, 16)}, true, "Heads go between them"},
        {{.exchange = "auto", .llm_cp = 2, .llm_keys = HEADS(32, 2)}, false, "Keys and values go between them"},
        {{.exchange = "auto", .llm_cp = 3, .llm_keys = HEADS(32, 32)}, false, NULL},
        {{.exchange = "auto", .llm_cp = 4, .llm_keys = HEADS(32, 32), .context_rows = 4096}, true, "Heads go between them"},
        {{.exchange = "heads", .llm_cp = 4, .llm_keys = HEADS(32, 32), .context_rows = 4096}, true, "more than 4096 of its rows (1, 2, 4 of them, which can share heads);"},
        {{.exchange = "heads", .llm_cp = 2, .llm_tp = 2, .llm_keys = HEADS(32, 32), .context_rows = 4096}, true, "more than 4096 of its rows;"},
        {{.exchange = "auto", .llm_keys = HEADS(32, 32)}, false, NULL},
        {{.exchange = "keys", .llm_cp = 4, .llm_keys = HEADS(32, 32)}, false, NULL},
        {{.exchange = "heads", .llm_cp = 2, .llm_keys = HEADS(32, 2)}, true, NULL},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_plan *plan, *again;
        struct cs_err err = {.text = ""};
        options.n_encoders = -1;
        options.llm_width = 2048;
        options.seq_tokens = 16384;
        json_t *root = cs_test_spec_json(&options);
        struct cs_spec *spec;
        struct cs_graph *graph;
        assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_OK);
        assert_int_equal(cs_graph_build(spec, true, arena, &graph, &err), CS_OK);
        if (plan_in(arena, "h100-80g", root, &plan, &err) != CS_OK)
            fail_msg("%s", err.text);
        if (plan->moves_heads != rows[i].moves_heads ||
            (rows[i].says != NULL ? !says(plan, rows[i].says) : says(plan, "go between them")))
            fail_msg("row %zu: %s", i, plan->n_why > 1 ? plan->why[2] : "");
        json_t *json = cs_plan_json(plan, graph);
        if (cs_plan_read(json, graph, arena, &again, &err) != CS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(again->moves_heads, plan->moves_heads);
        json_decref(json);
        json_decref(root);
        cs_arena_free(arena);
    }
}

/* Attention looks at the own keys first where that hides more of exchanges than merging costs: over slow links, not
 * where attention takes nearly all of the time, nor where heads move or nobody is met; and plans keep it. */
static void own_keys_come_first_where_it_saves(void **state)
{
    static const struct {
        const char *device;
        struct cs_test_spec options;
        bool own_first;
    } rows[] = {
  /* clang-format off */
        {"a40-48g", {.llm_cp = 2, .llm_keys = HEADS(32, 8), .seq_tokens = 16384}, true},
        {"a40-48g", {.llm_cp = 2, .llm_keys = HEADS(32, 32), .exchange = "heads", .seq_tokens = 16384}, false},
        {"a40-48g", {.llm_keys = HEADS(32, 8), .seq_tokens = 16384}, false},
        {"h100-80g", {.llm_cp = 2, .llm_keys = HEADS(32, 8), .seq_tokens = 65536}, false},
        {"h200-141g", {.llm_cp = 2, .llm_keys = HEADS(32, 8), .seq_tokens = 16384}, false},
        {"h200-141g", {.llm_cp = 2, .llm_keys = HEADS(32, 8), .seq_tokens = 32768}, false},
        {"cpu", {.llm_cp = 2, .llm_keys = HEADS(4, 2), .seq_tokens = 256, .llm_width = 64}, false},
        {"cpu", {.llm_cp = 2, .llm_keys = HEADS(32, 8), .seq_tokens = 16384}, false},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_plan *plan, *again;
        struct cs_spec *spec;
        struct cs_graph *graph;
        struct cs_err err = {.text = ""};
        options.n_encoders = -1;
        options.llm_width = options.llm_width > 0 ? options.llm_width : 2048;
        json_t *root = cs_test_spec_json(&options);
        assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_OK);
        assert_int_equal(cs_graph_build(spec, true, arena, &graph, &err), CS_OK);
        if (plan_in(arena, rows[i].device, root, &plan, &err) != CS_OK)
            fail_msg("%s", err.text);
        if (plan->keys_own_first != rows[i].own_first ||
            says(plan, "keys of a rank itself") != rows[i].own_first)
            fail_msg("row %zu: %s", i, plan->n_why > 2 ? plan->why[2] : "");
        json_t *json = cs_plan_json(plan, graph);
        if (cs_plan_read(json, graph, arena, &again, &err) != CS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(again->keys_own_first, plan->keys_own_first);
        json_object_set_new(json, "context_own_first", json_integer(1));
        assert_int_equal(cs_plan_read(json, graph, arena, &again, &err), CS_CORRUPT);
        json_decref(json);
        json_decref(root);
        cs_arena_free(arena);
    }
}

/* Partial results take memory: of queries' gradients and of outputs. */
static void own_keys_take_memory(void **state)
{
    const struct cs_attention a = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 8};
    (void)state;
    const int64_t at_once = cs_context_bytes(&a, 2, 1000, 600, false, 2),
                  in_parts = cs_context_bytes(&a, 2, 1000, 600, true, 2);
    assert_int_equal(in_parts - at_once, 600 * (4 + 2 * 2) * 8 * 2);
    assert_int_equal(cs_context_bytes(&a, 1, 1000, 600, true, 2), 0);
}

/* Bytes of the language model's only stage: weights, and what trains them. */
struct bytes {
    int64_t weight, state, saved;
};

static struct bytes bytes_with(int ep)
{
    const struct cs_test_spec options = {.has_experts = true, .dp = 4, .llm_ep = ep};
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = cs_test_spec_json(&options);
    struct cs_err err = {.text = ""};
    struct cs_plan *plan = NULL;
    if (plan_in(arena, "cpu", root, &plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    const struct cs_stage *s = &plan->stages[plan->head_stage];
    const struct bytes bytes = {s->weight_bytes, s->state_bytes, s->saved_bytes};
    cs_arena_free(arena);
    json_decref(root);
    return bytes;
}

/* 2 blocks of 5 experts with 3 matrices of 24 x 48; the last of the ranks has most: all, 3, 2 of them. Of
 * state it has a gradient of each, and moments of a share as large as without. */
static void ranks_with_some_experts_have_less(void **state)
{
    static const int64_t held[] = {[1] = 5, [2] = 3, [4] = 2};
    const int64_t expert = 2 * 3 * 24 * 48 * (int64_t)sizeof(float);
    const struct bytes one = bytes_with(1);
    (void)state;
    for (int ep = 2; ep <= 4; ep *= 2) {
        const struct bytes its = bytes_with(ep);
        const int64_t all = 5 * expert, left = held[ep] * expert;
        assert_int_equal(one.weight - its.weight, all - left);
        assert_int_equal(one.state - its.state, all - left + 2 * all / 4 - 2 * left * ep / 4);
        assert_true(its.saved > one.saved); /* all rows of the other ranks may come */
    }
}

/* of the stage of the LLM */
static int64_t saved_bytes(const struct cs_test_planned *p)
{
    return p->plan->stages[p->plan->head_stage].saved_bytes;
}

/* Arrays at full width are of some rows where ranks split them; what is cut is as it was. */
static void splitting_rows_keeps_less(void **state)
{
    static const char *const levels[] = {"none", "selective", "full"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(levels); i++) {
        struct cs_test_spec options = {.llm_tp = 2, .recompute = levels[i], .llm_layers = 4};
        struct cs_test_planned whole = cs_test_plan(&options);
        options.llm_sp = true;
        struct cs_test_planned split = cs_test_plan(&options);
        const int64_t row = 4 * (int64_t)split.plan->budget.seq_tokens / 2 * 4; /* layers, fp32 */
        const int64_t less = saved_bytes(&whole) - saved_bytes(&split);
        const int64_t arrays[] = {4 * 48 + 2, 2 * 48 + 2,
                                  48}; /* of width 48; statistics of norms */
        assert_int_equal(less, row * arrays[i]);
        assert_string_not_equal(whole.plan->hash, split.plan->hash);
        cs_test_planned_free(&whole);
        cs_test_planned_free(&split);
    }
}

static void plans_say_whether_rows_are_split(void **state)
{
    (void)state;
    struct cs_test_planned made =
        cs_test_plan(&(struct cs_test_spec){.llm_tp = 2, .llm_sp = true, .vision_tp = 2});
    json_t *json = cs_plan_json(made.plan, made.graph);
    struct cs_plan *read;
    struct cs_err err = {.text = ""};
    if (cs_plan_read(json, made.graph, made.arena, &read, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (int32_t s = 0; s < read->n_stages; s++)
        assert_int_equal(read->stages[s].splits_rows, read->stages[s].branch == made.graph->llm);
    json_t *first = json_array_get(json_object_get(json, "stages"), 0);
    json_object_set_new(first, "sp", json_integer(1));
    assert_int_equal(cs_plan_read(json, made.graph, made.arena, &read, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "stages[0].sp must be true, of a stage with tp"));
    json_object_del(first, "tp");
    json_object_set_new(first, "sp", json_true());
    assert_int_equal(cs_plan_read(json, made.graph, made.arena, &read, &err), CS_CORRUPT);
    json_decref(json);
    cs_test_planned_free(&made);
}

/* Between hosts rows go to those of their experts that are elsewhere, between GPUs to all ranks. */
static void ways_to_experts_take_what_travels(void **state)
{
    static const struct cs_arch arch = {
        .width = 1000, .experts = {.n = 64, .top_k = 8}
    };
    const int32_t rows = 4096;
    (void)state;
    for (int is_gpu = 0; is_gpu < 2; is_gpu++)
        for (int32_t ep = 2; ep <= 8; ep *= 2) {
            const struct cs_device_class *class = cs_device_class_find(is_gpu ? "h100-80g" : "cpu");
            const double travel = is_gpu ? (double)(ep - 1) : 8.0 * (ep - 1) / ep;
            const double bytes = travel * 2 * rows * 1000 * cs_device_element_bytes(class);
            const double want = 3.0 * (double)class->link_latency_ns +
                                bytes / (double)class->link_bytes_per_s * 1e9;
            const double got = (double)cs_experts_move_ns(&arch, rows, CS_EXPERTS_FWD, ep, class);
            if (!(want <= got && got <= want + 2.0))
                fail_msg("%s, ep %d: %.0f ns, not %.0f", class->name, ep, got, want);
        }
}

/* On two nodes of four GPUs. */
static struct cs_plan *plan_on_nodes(struct cs_arena *arena, const struct cs_test_spec *options,
                                     struct cs_cluster *cluster)
{
    json_t *root = cs_test_spec_json(options);
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan = NULL;
    struct cs_err err = {.text = ""};
    *cluster = (struct cs_cluster){cs_device_class_find("h200-141g"), 4, 4};
    if (cs_spec_read(root, arena, &spec, &err) != CS_OK ||
        cs_graph_build(spec, true, arena, &graph, &err) != CS_OK ||
        cs_plan_make(spec, graph, cluster, arena, &plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    json_decref(root);
    return plan;
}

/* Stripes pay where the link between the stages, or a channel in a node, is slower than that of the ranks that need
 * the same rows; and rows are large enough for another start. */
static void messages_are_striped_where_that_is_faster(void **state)
{
    static const struct {
        struct cs_test_spec options;
        int32_t edge;
        enum cs_primitive rows;
    } rows[] = {
  /* clang-format off */
        {{.n_encoders = -1, .llm_tp = 4, .llm_pp = 2, .seq_tokens = 65536}, 0, CS_PRIMITIVE_STRIPED},
        {{.n_encoders = -1, .llm_tp = 2, .llm_pp = 2, .seq_tokens = 65536}, 0, CS_PRIMITIVE_STRIPED},
        {{.n_encoders = -1, .llm_tp = 4, .llm_pp = 2, .seq_tokens = 16}, 0, CS_PRIMITIVE_POINT_TO_POINT},
        {{.n_encoders = -1, .llm_tp = 4, .llm_pp = 2, .llm_sp = true, .seq_tokens = 65536}, 0, CS_PRIMITIVE_NARROW},
        {{.n_encoders = -1, .llm_tp = 4, .llm_pp = 2, .seq_tokens = 65536, .stripes = "never"}, 0, CS_PRIMITIVE_POINT_TO_POINT},
        {{.n_encoders = -1, .llm_tp = 2, .llm_pp = 2, .seq_tokens = 16, .stripes = "always"}, 0, CS_PRIMITIVE_STRIPED},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_cluster cluster;
        const struct cs_plan *plan = plan_on_nodes(arena, &rows[i].options, &cluster);
        const enum cs_primitive p = cs_edge_primitive(plan, rows[i].edge, CS_FLOW_ROWS);
        if (p != rows[i].rows)
            fail_msg("row %zu: %s", i, cs_primitive_name(p));
        cs_arena_free(arena);
    }
}

/* Bytes that a rank sends, and what follows in time. */
static void primitives_cost_what_they_move(void **state)
{
    const struct cs_edge_links links = {1000, 1000000000, 100, 4000000000};
    const struct cs_edge_cost whole = cs_primitive_cost(CS_PRIMITIVE_POINT_TO_POINT, 2, 8, 8000,
                                                        &links),
                              cut = cs_primitive_cost(CS_PRIMITIVE_STRIPED, 2, 8, 8000, &links),
                              own = cs_primitive_cost(CS_PRIMITIVE_NARROW, 4, 4, 8000, &links),
                              few = cs_primitive_cost(CS_PRIMITIVE_STRIPED, 8, 2, 8000, &links);
    (void)state;
    assert_int_equal(whole.bytes, 4 * 8000);
    assert_int_equal(whole.ns, 1000 + 32000);
    assert_int_equal(cut.bytes, 4 * 1000);
    assert_int_equal(cut.part_bytes, 7 * 1000);
    assert_int_equal(cut.ns, 1000 + 4000);
    assert_int_equal(cut.part_ns, 100 + 1750);
    assert_int_equal(own.bytes, 2000);
    assert_int_equal(own.part_bytes, 0);
    assert_int_equal(few.bytes, 4000); /* that come to a rank */
    assert_int_equal(few.part_bytes, 4000);
}

/* ---- what ranks that share matrices wait for ---- */

enum { SHARED_ROWS = 1000, SHIFT_NS = 60000, SUM_NS = 90000 };

/* A text model of three blocks on ranks of a device whose exchanges take SHIFT_NS and SUM_NS of any bytes, those between
 * two ranks by NCCL 7 ns. The second block has blocks on both sides. */
struct shared {
    struct cs_arena *arena;
    json_t *root;
    struct cs_graph *graph;
    struct cs_link_curves links;
    struct cs_device_class device;
    struct cs_tensor_layer of;
    struct cs_layer_cost cost; /* of what it computes */
};

static void open_shared(struct shared *s, const char *device, int32_t tp, bool splits_rows)
{
    static const int64_t ns[CS_LINK_OPS] = {
        [CS_LINK_ALL_REDUCE] = SUM_NS, [CS_LINK_SHIFT] = SHIFT_NS, [CS_LINK_ALL_TO_ALL] = 7};

    *s = (struct shared){.arena = cs_arena_new(0)};
    s->graph = cs_test_graph(&(struct cs_test_spec){.n_encoders = -1}, s->arena, &s->root);
    for (int op = 0; op < CS_LINK_OPS; op++)
        for (int g = 0; g < CS_LINK_GROUPS; g++)
            s->links.curve[op][g] =
                (struct cs_link_curve){.latency_ns = ns[op], .bytes_per_s = INT64_MAX};
    s->device = *cs_device_class_find(device);
    s->device.measured = &s->links;
    s->cost = (struct cs_layer_cost){401000, 802000, 603000};
    s->of = (struct cs_tensor_layer){
        .graph = s->graph,
        .layer = &s->graph->layers[2],
        .device = &s->device,
        .ranks = {.tp = tp,          .splits_rows = splits_rows},
        .work = {    .tokens = SHARED_ROWS, .label_rows = 10                          },
        .fixed = { 1000,             2000,                                       3000},
        .adds = true,
    };
    assert_int_equal(s->of.layer->kind, CS_LAYER_BLOCK);
}

static void close_shared(struct shared *s)
{
    json_decref(s->root);
    cs_arena_free(s->arena);
}

static struct cs_layer_cost added_to(const struct shared *s, int32_t layer)
{
    struct cs_tensor_layer of = s->of;
    struct cs_layer_cost cost = s->cost;
    of.layer = &s->graph->layers[layer];
    cs_tensor_add_sums(&of, &cost);
    assert_int_equal(cost.bwd_weight_ns, s->cost.bwd_weight_ns);
    return (struct cs_layer_cost){cost.fwd_ns - s->cost.fwd_ns,
                                  cost.bwd_input_ns - s->cost.bwd_input_ns, 0};
}

static void about(int64_t ns, double wanted)
{
    if (!(fabs((double)ns - wanted) <= 8))
        fail_msg("%lld ns, not %.1f", (long long)ns, wanted);
}

/* Of 400000, 800000 and 600000 ns with rows a product has its part of the columns: 96 of queries, keys and values and 48
 * behind them (llama H 48: Q 48, K 24 of each), 160 and 80 of the MLP, 384 in all; no pairs. */
static const double part_of[CS_BLOCK_HALVES][2] = {
    {96.0 / 384,  48.0 / 384},
    {160.0 / 384, 80.0 / 384}
};

static double left(double exchange, double product)
{
    return exchange > product ? exchange - product : 0;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* As many FLOPs between products as in them all: 4 * 48 of a pair. Then these take half of a forward, and of data gradients,
 * where what is between them is 5/2, 2/7. */
enum { AS_MANY_PAIRS = 2 * SHARED_ROWS * 48 * 384 / (4 * 48) };

/* Two ranks: half of each product is beside the rows that come or go. In the backward the input comes first, once more,
 * then parts go, and the gradient of the first weights is beside both. */
static void rows_travel_beside_products(void **state)
{
    static const int64_t shifts[] = {1, 20000, SHIFT_NS, 150000, 2000000};
    (void)state;
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(shifts); i++) {
        struct shared s;
        double fwd = 0, bwd = 0;
        const double e = (double)shifts[i / 2];
        const bool attends = i % 2 > 0;
        const double forward = attends ? 200000 : 400000, input = attends ? 1600000.0 / 7 : 800000;
        open_shared(&s, "h200-141g", 2, true);
        s.of.work.pairs = attends ? AS_MANY_PAIRS : 0;
        s.links.curve[CS_LINK_SHIFT][0].latency_ns = shifts[i / 2];
        for (int h = 0; h < CS_BLOCK_HALVES; h++) {
            const double first = part_of[h][0], second = part_of[h][1];
            const double data = input * first, weight = 600000 * first;
            fwd += left(e, forward * first / 2) + left(e, forward * second / 2);
            bwd += left(e, input * second / 2);
            const double sent = later(e, data / 2) + e;
            bwd += later(sent, later(e, data) + weight) - data - weight;
        }
        const struct cs_layer_cost added = added_to(&s, 2);
        about(added.fwd_ns, fwd);
        about(added.bwd_input_ns, bwd);
        /* rows come into the first block whole, and leave the last one so */
        about(added_to(&s, 1).fwd_ns, fwd);
        about(added_to(&s, 1).bwd_input_ns, bwd + e);
        about(added_to(&s, 3).fwd_ns, fwd + e);
        about(added_to(&s, 3).bwd_input_ns, bwd);
        close_shared(&s);
    }
}

/* In turn: of four ranks one quarter of a product is beside each of three, of what products of three quarters hide
 * nothing is left. By hand for no products at all, what searches take for the shortest slot, and on CPU ranks. */
static void ranks_meet_in_turn(void **state)
{
    struct shared s;
    (void)state;
    open_shared(&s, "h200-141g", 4, true);
    s.links.curve[CS_LINK_SHIFT][1].latency_ns = 400000; /* longer than any quarter */
    about(added_to(&s, 2).fwd_ns, 4 * 3 * 400000 - 400000.0 * (384.0 / 384) * 3 / 4);
    s.cost = s.of.fixed;
    about(added_to(&s, 2).fwd_ns, 4 * 3 * 400000);
    about(added_to(&s, 2).bwd_input_ns, 2 * 3 * 3 * 400000);
    close_shared(&s);
    open_shared(&s, "cpu", 2, true);
    about(added_to(&s, 2).fwd_ns, 4 * SHIFT_NS);
    about(added_to(&s, 2).bwd_input_ns, 6 * SHIFT_NS);
    s.of.adds = false; /* two times: 500 rows of 48 fp32 are read twice and written */
    const double add = 3.0 * 500 * 48 * 4 * 1e9 / (double)s.device.bytes_per_s;
    about(added_to(&s, 2).fwd_ns, 4 * SHIFT_NS + 2 * add);
    close_shared(&s);
    open_shared(&s, "h200-141g", 16,
                true); /* more than windows are for: NCCL, which two ranks' all-to-all is */
    s.cost = s.of.fixed;
    about(added_to(&s, 2).fwd_ns, 4 * 15 * 7);
    close_shared(&s);
}

/* Whole rows: one sum behind each half, with nothing beside it, forward and backward, whether weights train or not; of
 * large ones as many groups as have 8 MiB, each beside the next product. */
static void sums_are_beside_what_comes_next(void **state)
{
    struct shared s;
    const double slows = 0.25, beside = 1.5;
    (void)state;
    open_shared(&s, "h200-141g", 2, false);
    s.links.beside[CS_LINK_ALL_REDUCE][0] = (struct cs_link_beside){beside, slows};
    about(added_to(&s, 2).fwd_ns, 2 * SUM_NS);
    about(added_to(&s, 2).bwd_input_ns, 2 * SUM_NS);
    struct cs_layer frozen = *s.of.layer;
    frozen.needs_weight_grad = false;
    s.graph->layers[2] = frozen;
    about(added_to(&s, 2).bwd_input_ns, 2 * SUM_NS);
    s.of.work.tokens =
        200000; /* 19.2 MB: two groups, of which the first one's sum is beside half of a product */
    const double products = 400000 * (48.0 + 80) / 384 / 2, speed = 1 - slows;
    const double hidden = products / speed; /* both end before the sum, which goes on alone */
    about(added_to(&s, 2).fwd_ns, 4 * SUM_NS - hidden + (hidden - products));
    /* halves of data gradients are longer than a sum, even at that speed */
    about(added_to(&s, 2).bwd_input_ns, 2 * SUM_NS * (1 + slows));
    close_shared(&s);
    open_shared(&s, "cpu", 2, false);
    about(added_to(&s, 2).fwd_ns, 2 * SUM_NS);
    about(added_to(&s, 2).bwd_input_ns, 2 * SUM_NS);
    s.of.ranks.tp = 1;
    about(added_to(&s, 2).fwd_ns, 0);
    close_shared(&s);
}

/* Rows of words are summed, whole; the head tells of its words and sums the gradient of its rows where it makes one. */
static void words_are_summed_whole(void **state)
{
    (void)state;
    for (int split = 0; split < 2; split++) {
        struct shared s;
        open_shared(&s, "h200-141g", 2, split > 0);
        about(added_to(&s, 0).fwd_ns, SUM_NS);
        about(added_to(&s, 0).bwd_input_ns, 0);
        about(added_to(&s, 4).fwd_ns, SHIFT_NS + SUM_NS);
        struct cs_layer frozen = s.graph->layers[4];
        frozen.needs_weight_grad = frozen.needs_input_grad = false;
        s.graph->layers[4] = frozen;
        about(added_to(&s, 4).fwd_ns, SHIFT_NS);
        close_shared(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_split_rows_and_matrices),
        cmocka_unit_test(what_ranks_cannot_share_is_refused),
        cmocka_unit_test(exchanges_are_chosen_by_cost),
        cmocka_unit_test(own_keys_come_first_where_it_saves),
        cmocka_unit_test(own_keys_take_memory),
        cmocka_unit_test(ranks_with_some_experts_have_less),
        cmocka_unit_test(ways_to_experts_take_what_travels),
        cmocka_unit_test(splitting_rows_keeps_less),
        cmocka_unit_test(plans_say_whether_rows_are_split),
        cmocka_unit_test(messages_are_striped_where_that_is_faster),
        cmocka_unit_test(primitives_cost_what_they_move),
        cmocka_unit_test(rows_travel_beside_products),
        cmocka_unit_test(ranks_meet_in_turn),
        cmocka_unit_test(sums_are_beside_what_comes_next),
        cmocka_unit_test(words_are_summed_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
