/* Plans of small real models: cuts, ranks, gradients, budgets, refusals. */
#include "core/base/units.h"
#include "core/plan/cost/cost.h"
#include "core/plan/derive.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/json_put.h"
#include "support/planned.h"

static enum cs_status make_from(struct cs_test_planned *m, json_t *root, const char *device,
                                int devices)
{
    const struct cs_cluster cluster = {cs_device_class_find(device), 1, devices};
    assert_non_null(cluster.device);
    return cs_test_try_plan(m, root, &cluster);
}

static const struct cs_stage *stage_of(const struct cs_test_planned *m, const char *name)
{
    for (int32_t s = 0; s < m->plan->n_stages; s++)
        if (strcmp(m->plan->stages[s].name, name) == 0)
            return &m->plan->stages[s];
    fail_msg("no stage %s", name);
    return NULL;
}

static const struct cs_edge *edge_of(const struct cs_test_planned *m, const char *from,
                                     const char *to)
{
    for (int32_t e = 0; e < m->plan->n_edges; e++)
        if (m->plan->edges[e].from == stage_of(m, from)->id &&
            m->plan->edges[e].to == stage_of(m, to)->id)
            return &m->plan->edges[e];
    fail_msg("no edge %s -> %s", from, to);
    return NULL;
}

static void encoders_come_first_then_the_llm(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(
        &(struct cs_test_spec){.n_encoders = 2, .vision_pp = 1, .depth_pp = 2, .llm_pp = 2});
    assert_int_equal(m.plan->n_stages, 5);
    assert_int_equal(m.plan->n_ranks, 5);
    for (int32_t s = 0; s < 5; s++) {
        assert_int_equal(m.plan->stages[s].rank, s);
        assert_int_equal(m.plan->stages[s].id, s);
        assert_true(m.plan->stages[s].has_backward);
    }
    assert_string_equal(m.plan->stages[0].name, "vision.0");
    assert_string_equal(m.plan->stages[2].name, "depth.1");
    assert_string_equal(m.plan->stages[4].name, "llm.1");
    assert_int_equal(m.plan->n_edges, 4);
    assert_int_equal(edge_of(&m, "vision.0", "llm.0")->width, 48);
    assert_true(edge_of(&m, "depth.1", "llm.0")->has_grad);
    assert_int_equal(edge_of(&m, "llm.0", "llm.1")->max_rows, 128);
    assert_int_equal(edge_of(&m, "vision.0", "llm.0")->max_rows, m.plan->budget.enc[0].rows);
    cs_test_planned_free(&m);
}

/* Edges follow the feeds of the graph: into the stage with the layer, as often as there are feeds. */
static void edges_follow_the_feeds(void **state)
{
    (void)state;
    struct cs_test_planned m =
        cs_test_plan(&(struct cs_test_spec){.llm_layers = 6, .vision_pp = 2, .llm_pp = 3});
    const struct cs_stage *middle = stage_of(&m, "llm.1");
    assert_int_equal(edge_of(&m, "vision.0", "vision.1")->feed, -1);
    assert_int_equal(edge_of(&m, "vision.1", "llm.0")->feed, 0);
    const int32_t plain = m.plan->n_edges;
    m.graph->feeds[1] = m.graph->feeds[0];
    m.graph->feeds[1].id = 1;
    m.graph->feeds[1].to_layer = middle->first_layer + 1;
    m.graph->n_feeds = 2;
    cs_plan_derive(m.graph, m.arena, m.plan);
    assert_int_equal(m.plan->n_edges, plain + 1);
    assert_int_equal(edge_of(&m, "vision.1", "llm.0")->feed, 0);
    assert_int_equal(edge_of(&m, "vision.1", "llm.1")->feed, 1);
    assert_int_equal(edge_of(&m, "vision.1", "llm.1")->max_rows, m.plan->budget.enc[0].rows);
    assert_int_equal(m.plan->embed_stage, stage_of(&m, "llm.0")->id);
    assert_int_equal(m.plan->head_stage, stage_of(&m, "llm.2")->id);
    cs_test_planned_free(&m);
}

/* Model and plan part of a job, read alone or as a preview, make the plan that the job makes. */
static void parts_of_a_spec_make_the_plan_of_the_whole(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(
        &(struct cs_test_spec){.vision_pp = 2, .llm_pp = 2, .rules = "train:vision.*"});
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    json_t *model = json_object_get(m.root, "model"), *request = json_object_get(m.root, "plan");
    if (cs_spec_read_model(model, m.arena, &spec, &m.err) != CS_OK)
        fail_msg("%s", m.err.text);
    assert_int_equal(cs_graph_build(spec, true, m.arena, &graph, &m.err), CS_OK);
    assert_int_equal(graph->n_trained, m.graph->n_trained);
    assert_int_equal(spec->n_parallel, 0);
    assert_string_equal(spec->state, "fp32");
    if (cs_spec_read_plan(request, m.arena, spec, &m.err) != CS_OK ||
        cs_plan_make(spec, graph, &cluster, m.arena, &plan, &m.err) != CS_OK)
        fail_msg("%s", m.err.text);
    assert_string_equal(plan->hash, m.plan->hash);

    json_t *preview = json_pack("{s:s s:s s:O s:O}", "schema", "cornstarch.preview/1", "name", "x",
                                "model", model, "plan", request);
    if (cs_spec_read_preview(preview, m.arena, &spec, &m.err) != CS_OK ||
        cs_plan_make(spec, graph, &cluster, m.arena, &plan, &m.err) != CS_OK)
        fail_msg("%s", m.err.text);
    assert_string_equal(plan->hash, m.plan->hash);
    assert_string_equal(spec->name, "x");
    json_object_set_new(preview, "data", json_object());
    assert_int_equal(cs_spec_read_preview(preview, m.arena, &spec, &m.err), CS_INVALID);
    assert_non_null(strstr(m.err.text, "data is no key of a preview"));
    json_object_del(preview, "data");
    json_array_append_new(json_object_get(model, "rules"),
                          json_pack("{s:s s:s}", "op", "thaw", "glob", "*"));
    assert_int_equal(cs_spec_read_preview(preview, m.arena, &spec, &m.err), CS_INVALID);
    assert_non_null(strstr(m.err.text, "model.rules[1].op"));
    assert_int_equal(cs_spec_read_preview(m.root, m.arena, &spec, &m.err), CS_INVALID);
    json_decref(preview);
    cs_test_planned_free(&m);
}

static void every_layer_is_on_one_stage(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(
        &(struct cs_test_spec){.vision_layers = 5, .llm_layers = 6, .vision_pp = 3, .llm_pp = 4});
    int32_t layer = 0;
    for (int32_t s = 0; s < m.plan->n_stages; s++) {
        assert_int_equal(m.plan->stages[s].first_layer, layer);
        assert_true(m.plan->stages[s].n_layers >= 1);
        layer += m.plan->stages[s].n_layers;
    }
    assert_int_equal(layer, m.graph->n_layers);
    cs_test_planned_free(&m);
}

static void colocated_puts_all_on_one_rank(void **state)
{
    (void)state;
    struct cs_test_planned m =
        cs_test_plan(&(struct cs_test_spec){.n_encoders = 2, .modality = "encoder-colocated"});
    assert_int_equal(m.plan->n_stages, 3);
    assert_int_equal(m.plan->n_ranks, 1);
    cs_test_planned_free(&m);
    m = cs_test_plan(
        &(struct cs_test_spec){.vision_pp = 2, .llm_pp = 2, .modality = "encoder-colocated"});
    assert_int_equal(m.plan->n_ranks, 2);
    assert_int_equal(stage_of(&m, "vision.1")->rank, 1);
    assert_int_equal(stage_of(&m, "llm.0")->rank, 0);
    cs_test_planned_free(&m);
}

static void frozen_encoder_has_no_backward_but_its_projector_has(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(
        &(struct cs_test_spec){.vision_pp = 2, .llm_pp = 2, .rules = "train:vision.projector"});
    const struct cs_stage *first = stage_of(&m, "vision.0"), *last = stage_of(&m, "vision.1");
    const struct cs_stage *llm = stage_of(&m, "llm.0");
    assert_false(first->has_backward);
    assert_int_equal(first->bwd_input_ns + first->bwd_weight_ns, 0);
    assert_int_equal(first->saved_bytes, 0);
    assert_int_equal(first->state_bytes, 0);
    assert_true(last->has_backward);
    assert_false(last->needs_input_grad);
    assert_true(last->bwd_weight_ns > 0);
    assert_true(llm->has_backward);
    assert_true(llm->needs_input_grad);
    assert_true(llm->bwd_input_ns > 0);
    assert_int_equal(llm->bwd_weight_ns, 0);
    assert_false(edge_of(&m, "vision.0", "vision.1")->has_grad);
    assert_true(edge_of(&m, "vision.1", "llm.0")->has_grad);
    assert_true(edge_of(&m, "llm.0", "llm.1")->has_grad);
    cs_test_planned_free(&m);
}

static void one_plan(struct cs_test_planned *m, bool is_bf16, int dp, const char *device)
{
    json_t *root = cs_test_spec_json(&(struct cs_test_spec){
        .llm_pp = 2, .dp = dp, .slots = 4, .is_tied = true, .rules = "train:llm.*"});
    if (is_bf16)
        json_object_set_new(json_object_get(root, "optimizer"), "state", json_string("bf16"));
    if (make_from(m, root, device, 8) != CS_OK)
        fail_msg("%s", m->err.text);
}

/* A gradient, two moments and a master: 16 bytes in fp32, 6 in bf16 without a master; a replica has
 * all gradients and its part of the rest. */
static void state_in_bf16_takes_6_bytes_a_parameter(void **state)
{
    (void)state;
    for (int dp = 1; dp < 3; dp++) {
        struct cs_test_planned wide, narrow;
        bool is_said = false;
        one_plan(&wide, false, dp, "h100-80g");
        one_plan(&narrow, true, dp, "h100-80g");
        for (int32_t s = 0; s < wide.plan->n_stages; s++) {
            const struct cs_stage *a = &wide.plan->stages[s], *b = &narrow.plan->stages[s];
            const int64_t trained = a->state_bytes / (4 + 12 / dp);
            assert_true(trained > 0 || a->branch == 0);
            assert_int_equal(a->weight_bytes, b->weight_bytes);
            assert_int_equal(b->state_bytes, trained * (2 + 4 / dp));
        }
        assert_int_equal(wide.plan->tied_bytes, 2 * narrow.plan->tied_bytes);
        /* an equal part of the table for every replica, in units of 16 */
        const int64_t table = wide.graph->params[wide.graph->tied_param].count;
        assert_in_range(wide.plan->tied_bytes, 4 * table / dp, 4 * table / dp + 4 * 16);
        for (int32_t i = 0; i < narrow.plan->n_why; i++)
            is_said = is_said || strstr(narrow.plan->why[i], "kept in bf16") != NULL;
        assert_true(is_said);
        cs_test_planned_free(&wide);
        cs_test_planned_free(&narrow);
    }
}

static void freezing_changes_backward_times_only(void **state)
{
    (void)state;
    static const char *const rules[] = {"train:vision.projector", "train:llm", ""};
    struct cs_test_planned all = cs_test_plan(&(struct cs_test_spec){.seq_tokens = 64});
    struct cs_layer_cost full[32], part[32];
    assert_true(all.graph->n_layers <= 32);
    cs_layer_costs(all.graph, &all.plan->budget, cs_device_class_find("cpu"), full);
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++) {
        struct cs_test_planned m =
            cs_test_plan(&(struct cs_test_spec){.seq_tokens = 64, .rules = rules[i]});
        cs_layer_costs(m.graph, &m.plan->budget, cs_device_class_find("cpu"), part);
        for (int32_t l = 0; l < m.graph->n_layers; l++) {
            const struct cs_layer *layer = &m.graph->layers[l];
            assert_true(full[l].fwd_ns > 0);
            assert_int_equal(part[l].fwd_ns, full[l].fwd_ns);
            assert_true(part[l].bwd_input_ns <= full[l].bwd_input_ns);
            assert_int_equal(part[l].bwd_weight_ns,
                             layer->needs_weight_grad ? full[l].bwd_weight_ns : 0);
            if (layer->needs_input_grad)
                assert_int_equal(part[l].bwd_input_ns, full[l].bwd_input_ns);
            if (!layer->needs_input_grad && !layer->needs_weight_grad)
                assert_int_equal(part[l].bwd_input_ns, 0);
        }
        cs_test_planned_free(&m);
    }
    cs_test_planned_free(&all);
}

static void trained_llm_sends_nothing_to_frozen_encoders(void **state)
{
    (void)state;
    struct cs_test_planned m =
        cs_test_plan(&(struct cs_test_spec){.llm_pp = 2, .rules = "train:llm"});
    assert_false(stage_of(&m, "vision.0")->has_backward);
    assert_false(edge_of(&m, "vision.0", "llm.0")->has_grad);
    assert_false(stage_of(&m, "llm.0")->needs_input_grad);
    assert_true(edge_of(&m, "llm.0", "llm.1")->has_grad);
    cs_test_planned_free(&m);
}

static void only_the_trained_encoder_gets_a_gradient(void **state)
{
    (void)state;
    struct cs_test_planned m =
        cs_test_plan(&(struct cs_test_spec){.n_encoders = 2, .rules = "train:depth.projector"});
    assert_false(edge_of(&m, "vision.0", "llm.0")->has_grad);
    assert_true(edge_of(&m, "depth.0", "llm.0")->has_grad);
    assert_false(stage_of(&m, "vision.0")->has_backward);
    cs_test_planned_free(&m);
}

static void all_frozen_has_no_backward_at_all(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(&(struct cs_test_spec){.llm_pp = 2, .rules = ""});
    for (int32_t s = 0; s < m.plan->n_stages; s++) {
        assert_false(m.plan->stages[s].has_backward);
        assert_int_equal(m.plan->stages[s].saved_bytes, 0);
    }
    for (int32_t e = 0; e < m.plan->n_edges; e++)
        assert_false(m.plan->edges[e].has_grad);
    cs_test_planned_free(&m);
}

static int64_t bottleneck(const struct cs_test_planned *m)
{
    int64_t worst = 0;
    for (int32_t s = 0; s < m->plan->n_stages; s++) {
        const struct cs_stage *st = &m->plan->stages[s];
        int64_t ns = st->fwd_ns + st->bwd_input_ns + st->bwd_weight_ns;
        worst = ns > worst ? ns : worst;
    }
    return worst;
}

static void frozen_aware_is_never_worse_than_blind(void **state)
{
    (void)state;
    static const char *const rules[] = {"train:*", "train:vision.projector", "train:llm.layers.4-7",
                                        "train:vision.projector train:llm.layers.6-7"};
    int n_better = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++)
        for (int pp = 2; pp <= 4; pp++) {
            struct cs_test_planned aware, blind;
            const struct cs_test_spec o = {.vision_layers = 6,
                                           .llm_layers = 8,
                                           .llm_pp = pp,
                                           .vision_pp = 2,
                                           .rules = rules[i]};
            json_t *root = cs_test_spec_json(&o);
            json_object_set_new(json_object_get(root, "plan"), "stages",
                                json_string("frozen-blind"));
            aware = cs_test_plan(&o);
            assert_int_equal(make_from(&blind, root, "cpu", 8), CS_OK);
            assert_true(bottleneck(&aware) <= bottleneck(&blind));
            n_better += bottleneck(&aware) < bottleneck(&blind);
            cs_test_planned_free(&aware);
            cs_test_planned_free(&blind);
        }
    assert_true(n_better > 0);
}

static void budgets_fit_samples_with_one_item(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(&(struct cs_test_spec){.seq_tokens = 128});
    assert_int_equal(m.plan->budget.enc[0].item_rows, 16);
    assert_int_equal(m.plan->budget.enc[0].items, 128 / (16 + 8));
    assert_int_equal(m.plan->budget.enc[0].rows, 5 * 16);
    assert_int_equal(m.plan->budget.enc[0].height, 28);
    assert_int_equal(m.plan->budget.enc[0].item_bytes, 28 * 28 * 3);
    cs_test_planned_free(&m);
    json_t *root = cs_test_spec_json(NULL);
    json_object_set_new(json_object_get(root, "plan"), "encoder_rows",
                        json_pack("{s:i}", "vision", 40));
    assert_int_equal(make_from(&m, root, "cpu", 8), CS_OK);
    assert_int_equal(m.plan->budget.enc[0].items, 2);
    assert_int_equal(m.plan->budget.enc[0].rows, 32);
    cs_test_planned_free(&m);
}

/* `items` of the first encoder, whose pictures have any size, as the document of a job has them */
static json_t *with_items(int seq_tokens, json_t *items)
{
    json_t *root = cs_test_spec_json(&(struct cs_test_spec){.seq_tokens = seq_tokens});
    json_t *module = json_array_get(json_object_get(json_object_get(root, "model"), "modules"), 0);
    json_object_set_new(json_object_get(module, "config"), "model_type", json_string("pixtral"));
    json_object_set_new(module, "items", items);
    return root;
}

/* Positions in a table are of one size: here they turn heads. */
static void take_pictures_of_any_size(json_t *root)
{
    json_t *module = json_array_get(json_object_get(json_object_get(root, "model"), "modules"), 0);
    json_object_set_new(module, "config",
                        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f}", "model_type",
                                  "pixtral", "hidden_size", 48, "intermediate_size", 96,
                                  "num_hidden_layers", 3, "num_attention_heads", 4, "image_size",
                                  700, "patch_size", 7, "hidden_act", "silu", "rope_theta", 1e4));
}

/* Rows of the LLM are the limit; patches and bytes follow from the largest item. */
static void budgets_of_items_of_any_size_follow_seq_tokens(void **state)
{
    (void)state;
    struct cs_test_planned m;
    json_t *root = with_items(
        128, json_pack("{s:i, s:i, s:i}", "rows", 1000, "patches", 4000, "bytes", 400000));
    take_pictures_of_any_size(root);
    assert_int_equal(make_from(&m, root, "cpu", 8), CS_OK);
    const struct cs_item_budget *b = &m.plan->budget.enc[0];
    assert_int_equal(b->rows, 128);
    assert_int_equal(b->patches, 4 * 128);
    assert_int_equal(b->bytes, 400 * 128);
    assert_int_equal(b->item_rows, 128);
    assert_int_equal(b->item_patches, 4 * 128);
    assert_int_equal(b->items, 128);
    assert_int_equal(b->height, 0);
    assert_false(b->has_sources);
    assert_int_equal(cs_budget_fills(&m.plan->budget, 0), 128);
    /* inside of the encoder patches travel, out of it rows */
    for (int32_t e = 0; e < m.plan->n_edges; e++)
        assert_int_equal(m.plan->edges[e].max_rows, 128);
    /* what is read back is what was written */
    json_t *json = cs_plan_json(m.plan, m.graph);
    struct cs_plan *read = NULL;
    assert_int_equal(cs_plan_read(json, m.graph, m.arena, &read, &m.err), CS_OK);
    assert_memory_equal(&read->budget.enc[0], b, sizeof *b);
    cs_test_json_put(json, "budget/encoders/0/patches", json_integer(4));
    assert_int_equal(cs_plan_read(json, m.graph, m.arena, &read, &m.err), CS_CORRUPT);
    assert_non_null(strstr(m.err.text, "no room for the largest item"));
    cs_test_json_put(json, "budget/encoders/0/item_rows", json_integer(1001));
    assert_int_equal(cs_plan_read(json, m.graph, m.arena, &read, &m.err), CS_CORRUPT);
    assert_non_null(strstr(m.err.text, "at most 1000 rows"));
    json_decref(json);
    cs_test_planned_free(&m);

    root = with_items(64, json_pack("{s:i, s:i, s:i, s:i, s:b}", "rows", 16, "patches", 16, "bytes",
                                    2352, "of_file", 5, "sources", 1));
    json_object_set_new(json_object_get(json_object_get(root, "plan"), "parallel"), "vision",
                        json_pack("{s:i}", "pp", 2));
    assert_int_equal(make_from(&m, root, "cpu", 8), CS_OK);
    assert_int_equal(m.plan->budget.enc[0].rows, 2 * 64 + 16);
    assert_int_equal(cs_budget_fills(&m.plan->budget, 0), 64);
    assert_int_equal(m.plan->edges[0].max_rows, 2 * 64 + 16);
    assert_int_equal(m.plan->edges[1].max_rows, 64);
    cs_test_planned_free(&m);

    root = with_items(64, json_pack("{s:i, s:i, s:i}", "rows", 16, "patches", 4, "bytes", 48));
    struct cs_spec *spec = NULL;
    struct cs_err err;
    struct cs_arena *arena = cs_arena_new(0);
    assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "4 patches cannot become 16 rows"));
    cs_arena_free(arena);
    json_decref(root);
}

static void tied_heads_are_marked_when_split(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(&(struct cs_test_spec){.is_tied = true, .llm_pp = 2});
    assert_true(m.plan->is_tied_across);
    assert_string_equal(m.plan->stages[m.plan->embed_stage].name, "llm.0");
    assert_string_equal(m.plan->stages[m.plan->head_stage].name, "llm.1");
    cs_test_planned_free(&m);
    m = cs_test_plan(&(struct cs_test_spec){.is_tied = true});
    assert_false(m.plan->is_tied_across);
    cs_test_planned_free(&m);
    m = cs_test_plan(&(struct cs_test_spec){.llm_pp = 2});
    assert_false(m.plan->is_tied_across);
    cs_test_planned_free(&m);
}

static void why_names_stages_bottleneck_and_the_other_rule(void **state)
{
    (void)state;
    struct cs_test_planned m =
        cs_test_plan(&(struct cs_test_spec){.llm_pp = 2, .rules = "train:vision.projector"});
    assert_int_equal(m.plan->n_why, 6);
    assert_non_null(strstr(m.plan->why[0], "vision in 1 stage: vision.0"));
    assert_non_null(strstr(m.plan->why[1], "llm.1"));
    assert_non_null(strstr(m.plan->why[2], "go from vision.0 to llm.0: point to point, "));
    assert_non_null(strstr(m.plan->why[2], "; gradients come back: point to point, "));
    assert_non_null(strstr(m.plan->why[3], "go from llm.0 to llm.1: point to point, "));
    assert_non_null(strstr(m.plan->why[4], "The bottleneck is "));
    assert_non_null(strstr(m.plan->why[5], "frozen-blind costs would give"));
    cs_test_planned_free(&m);
    /* the work of all stages of a rank counts, of an encoder's copies what each has of it */
    m = cs_test_plan(&(struct cs_test_spec){.llm_pp = 2, .modality = "encoder-replicated"});
    const struct cs_stage *stage = m.plan->stages;
    int64_t ns = 0, most = 0;
    for (int32_t r = 0; r < 2; r++, ns = 0) {
        for (int32_t s = 0; s < m.plan->n_stages; s++)
            if (stage[s].rank == r)
                ns += (stage[s].fwd_ns + stage[s].bwd_input_ns + stage[s].bwd_weight_ns) /
                      (stage[s].copies > 1 ? 2 : 1);
        most = ns > most ? ns : most;
    }
    char text[CS_UNITS_CAP];
    cs_duration_print(text, sizeof text, (uint64_t)most);
    assert_non_null(strstr(m.plan->why[0], "in 1 stage, of which 2 ranks have a copy each"));
    assert_null(strstr(m.plan->why[0], "vision.1"));
    assert_non_null(strstr(m.plan->why[m.plan->n_why - 2], " on one rank: "));
    assert_non_null(strstr(m.plan->why[m.plan->n_why - 2], text));
    cs_test_planned_free(&m);
    /* where nothing is frozen both rules cut alike, and no figure is told twice */
    m = cs_test_plan(&(struct cs_test_spec){.llm_pp = 2, .rules = "train:*"});
    assert_non_null(strstr(m.plan->why[5], "frozen-blind costs would give the same bottleneck"));
    cs_test_planned_free(&m);
}

struct refusal {
    struct cs_test_spec options;
    int devices;
    const char *words[3];
};

static void impossible_plans_are_refused_with_figures(void **state)
{
    (void)state;
    static const struct refusal rows[] = {
        {{.llm_pp = 9},                                                  64, {"plan.parallel.llm.pp = 9", "branch llm", "5 layers"}             },
        {{.vision_pp = 7},                                               64, {"plan.parallel.vision.pp = 7", "more stages than layers", "pp <="}},
        {{.llm_pp = 4},                                                  4,  {"5 ranks", "4 devices", "lower pp"}                               },
        {{.llm_pp = 2, .dp = 3, .slots = 6},                             8,  {"9 ranks", "8 devices", "or dp"}                                  },
        {{.dp = 3, .slots = 4},                                          64, {"plan.dp is 3", "plan.slots 4", "slots = 6"}                      },
        {{.seq_tokens = 15},                                             8,  {"16 rows", "seq_tokens = 15", "24 or more"}                       },
        {{.llm_pp = 3, .vision_pp = 2, .modality = "encoder-colocated"},
         8,                                                                  {"vision has pp = 2", "llm has pp = 3", "same pp"}                 },
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_planned m;
        enum cs_status status =
            make_from(&m, cs_test_spec_json(&rows[i].options), "cpu", rows[i].devices);
        assert_int_equal(status, CS_PLAN);
        for (size_t w = 0; w < 3; w++)
            if (!strstr(m.err.text, rows[i].words[w]))
                fail_msg("\"%s\" does not say \"%s\"", m.err.text, rows[i].words[w]);
        cs_test_planned_free(&m);
    }
}

static void unknown_schedule_is_refused_with_the_nearest(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(NULL);
    struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    m.spec->schedule = "gpip";
    assert_int_equal(cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err), CS_PLAN);
    assert_non_null(strstr(m.err.text, "did you mean \"gpipe\""));
    m.spec->schedule = "1f1b";
    m.spec->parallel[0].branch = "visoin";
    assert_int_equal(cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err), CS_PLAN);
    assert_non_null(strstr(m.err.text, "did you mean vision"));
    cs_test_planned_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoders_come_first_then_the_llm),
        cmocka_unit_test(edges_follow_the_feeds),
        cmocka_unit_test(parts_of_a_spec_make_the_plan_of_the_whole),
        cmocka_unit_test(every_layer_is_on_one_stage),
        cmocka_unit_test(colocated_puts_all_on_one_rank),
        cmocka_unit_test(frozen_encoder_has_no_backward_but_its_projector_has),
        cmocka_unit_test(state_in_bf16_takes_6_bytes_a_parameter),
        cmocka_unit_test(freezing_changes_backward_times_only),
        cmocka_unit_test(trained_llm_sends_nothing_to_frozen_encoders),
        cmocka_unit_test(only_the_trained_encoder_gets_a_gradient),
        cmocka_unit_test(all_frozen_has_no_backward_at_all),
        cmocka_unit_test(frozen_aware_is_never_worse_than_blind),
        cmocka_unit_test(budgets_fit_samples_with_one_item),
        cmocka_unit_test(budgets_of_items_of_any_size_follow_seq_tokens),
        cmocka_unit_test(tied_heads_are_marked_when_split),
        cmocka_unit_test(why_names_stages_bottleneck_and_the_other_rule),
        cmocka_unit_test(impossible_plans_are_refused_with_figures),
        cmocka_unit_test(unknown_schedule_is_refused_with_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
