/* A layout costs in a search what it costs in a plan: random layouts of small models, each stage with what its ranks
 * wait for, each message both ways, the whole pipeline, to the nanosecond, and what ranks need, to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/links/edges.h"
#include "core/plan/cost/stage/needs.h"
#include "core/plan/make/planner.h"
#include "core/sched/lower/lower.h"
#include "core/sched/orders/kept.h"
#include "core/sched/sim/predict.h"
#include "core/sched/sim/sim.h"
#include "core/sched/traits.h"
#include "core/search/trial.h"
#include "support/need.h"
#include "support/spec.h"

enum { TRIALS = 1500, FEW = 4 /* slots, all of which a search simulates */ };

static uint64_t state_of = 1;

static int32_t draw(int32_t low, int32_t high)
{
    state_of = state_of * 6364136223846793005u + 1442695040888963407u;
    return low + (int32_t)((state_of >> 33) % (uint64_t)(high - low + 1));
}

static const char *one_of(const char *const *words, int32_t n)
{
    return words[draw(0, n - 1)];
}

struct drawn {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_cluster cluster;
    struct cs_search_problem *problem;
    struct cs_search_options options;
    struct cs_found found;
    struct cs_plan *plan;
};

static void draw_model(struct drawn *d)
{
    static const char *const rules[] = {"train:*", "train:llm.layers.2-3", "train:vision.projector",
                                        "train:* freeze:llm.layers.0-1"};
    static const char *const stripes[] = {"auto", "always", "never"};
    static const char *const devices[] = {"cpu", "h200-141g", "a100-80g"};
    static const char *const exchanges[] = {"keys", "auto"};
    const int32_t n_encoders = draw(0, 2), kind = draw(0, 5);
    const struct cs_test_spec options = {.n_encoders = n_encoders > 0 ? n_encoders : -1,
                                         .vision_layers = 4,
                                         .llm_layers = draw(4, 8),
                                         .is_recurrent = kind == 0,
                                         .has_experts = kind == 1,
                                         .is_tied = draw(0, 1) == 0,
                                         .rules = one_of(rules, n_encoders > 0 ? 4 : 2),
                                         .stripes = one_of(stripes, 3),
                                         .exchange = one_of(exchanges, 2),
                                         .seq_tokens = 128 << draw(0, 3),
                                         .slots = 4};
    const int32_t per_node = 2 << draw(0, 4);
    struct cs_err err = {0};
    d->root = cs_test_spec_json(&options);
    need(cs_spec_read(d->root, d->arena, &d->spec, &err), &err);
    need(cs_graph_build(d->spec, true, d->arena, &d->graph, &err), &err);
    d->cluster =
        (struct cs_cluster){cs_device_class_find(one_of(devices, 3)), 32 / per_node, per_node};
    need(cs_search_problem_make(d->spec, d->graph, &d->cluster, NULL, NULL, d->arena, &d->problem,
                                &err),
         &err);
}

static int32_t option_like(const struct cs_search_problem *p, int32_t b, int32_t tp, int32_t cp)
{
    const struct cs_search_branch *branch = &p->branch[b];
    for (int32_t i = 0; i < branch->n_options; i++)
        if (branch->option[i].tp == tp && branch->option[i].cp == cp)
            return i;
    return 0;
}

/* Of encoders on ranks of the LLM all of one kind, with its tp and cp, or one on every rank. */
static void draw_layout(struct drawn *d)
{
    static const enum cs_schedule_id schedules[] = {
        CS_SCHEDULE_1f1b,        CS_SCHEDULE_gpipe,   CS_SCHEDULE_zb_h1,      CS_SCHEDULE_zb_h2,
        CS_SCHEDULE_interleaved, CS_SCHEDULE_anchors, CS_SCHEDULE_three_phase};
    const struct cs_search_problem *p = d->problem;
    struct cs_candidate *c = &d->found.candidate;
    const int32_t llm = p->llm;
    d->found.schedule = schedules[draw(0, 6)];
    d->found.chunks = d->found.schedule == CS_SCHEDULE_interleaved ? CS_PLAN_CHUNKS : 1;
    c->dp = draw(1, 3);
    const bool is_colocated =
                   cs_plan_schedule((int)d->found.schedule)->layout == CS_LAYOUT_COLOCATED,
               is_replicated = !is_colocated && d->found.chunks == 1 && draw(0, 3) == 0;
    for (int32_t b = llm; b >= 0; b--) {
        const bool is_guest = b != llm && (is_colocated || is_replicated);
        const struct cs_search_option *host = &p->branch[llm].option[c->option[llm]];
        c->place[b] = (uint8_t)(!is_guest      ? CS_PLACE_OWN
                                : is_colocated ? CS_PLACE_COLOCATED
                                               : CS_PLACE_REPLICATED);
        const bool is_one = is_colocated && draw(0, 2) == 0; /* whose ranks share its items */
        c->option[b] = (int16_t)(is_one     ? option_like(p, b, 1, 1)
                                 : is_guest ? option_like(p, b, host->tp, host->cp)
                                            : draw(0, p->branch[b].n_options - 1));
        c->own_dp[b] = b == llm        ? c->dp
                       : is_one        ? c->dp * c->pp[llm] * host->tp * host->cp
                       : is_colocated  ? c->dp * c->pp[llm]
                       : is_replicated ? c->dp
                                       : draw(1, 5);
        c->pp[b] = (int16_t)(is_guest ? 1 : draw(1, b == llm ? 3 : 2));
        c->zero[b] = (uint8_t)draw(1, 3);
    }
    d->options = (struct cs_search_options){
        .batch_slots = c->dp * draw(1, draw(0, 3) > 0 ? FEW : 48), .may_leave_node = true};
}

static bool make_plan(struct drawn *d)
{
    struct cs_spec spec = cs_search_spec(&d->found.plan->layout, 0, d->spec);
    struct cs_err err;
    spec.modality = cs_search_modality_name(d->found.plan->modality);
    spec.schedule = d->found.plan->schedule;
    spec.slots = d->options.batch_slots;
    return cs_plan_make(&spec, d->graph, &d->cluster, d->arena, &d->plan, &err) == CS_OK;
}

/* as the plan is cut */
static void take_cut(struct drawn *d)
{
    for (int32_t b = 0; b < d->problem->n_branches; b++) {
        d->found.sizes[b] = CS_NEW_ARRAY(d->arena, int, d->plan->n_stages);
        for (int32_t s = 0; s < d->plan->n_stages; s++)
            if (d->plan->stages[s].branch == b)
                d->found.sizes[b][d->plan->stages[s].index] = d->plan->stages[s].n_layers;
    }
}

static const char *text_of(const struct drawn *d)
{
    struct cs_buf text = {0};
    cs_buf_addf(&text, "%s%s %s, dp %d", d->graph->is_tied ? "tied " : "", d->cluster.device->name,
                d->found.plan->schedule, d->found.candidate.dp);
    for (int32_t b = 0; b < d->problem->n_branches; b++) {
        const struct cs_branch_layout *x = &d->found.plan->layout.branch[b];
        cs_buf_addf(&text, "; %s tp %d%s cp %d pp %d dp %d ep %d zero %d %s %s", x->name, x->tp,
                    x->sp ? " sp" : "", x->cp, x->pp, x->dp, x->ep,
                    cs_layout_zero(&d->found.plan->layout, b), cs_recompute_name(x->recompute),
                    cs_placement_table[x->place].name);
    }
    const char *out = cs_arena_strdup(d->arena, cs_buf_str(&text));
    cs_buf_free(&text);
    return out;
}

static void expect(const struct drawn *d, const char *what, int32_t at, int64_t search,
                   int64_t plan)
{
    if (search != plan)
        fail_msg("%s: %s %d: %lld in a search, %lld in a plan", text_of(d), what, at,
                 (long long)search, (long long)plan);
}

/* Where ranks share the items of an encoder a search counts whole ones, a plan any part of them. */
static bool shares_items(const struct drawn *d)
{
    const struct cs_layout *l = &d->found.plan->layout;
    for (int32_t b = 0; b < l->n_branches; b++)
        if (b != l->llm && (l->branch[b].cp > 1 || l->branch[b].dp != l->dp))
            return true;
    return false;
}

/* Ranks that divide weights or gradients talk over the network in a search where they leave a node, which plans do not
 * know. */
static bool stays_in_nodes(const struct drawn *d)
{
    const struct cs_layout *l = &d->found.plan->layout;
    for (int32_t b = 0; b < l->n_branches; b++)
        if (l->branch[b].tp * l->branch[b].cp * l->branch[b].dp > d->cluster.devices_per_node)
            return false;
    return true;
}

/* Replicated encoders are parts of the LLM's stages in a search, stages of their own in a plan. */
static int32_t stage_in_search(const struct cs_trial *t, const struct cs_stage *s)
{
    const bool is_part = t->c->place[s->branch] == CS_PLACE_REPLICATED;
    return t->first_stage[is_part ? t->llm : s->branch] + s->index;
}

static void stages_are_alike(const struct drawn *d, const struct cs_trial *t)
{
    int64_t fwd[64] = {0}, input[64] = {0}, weight[64] = {0};
    for (int32_t s = 0; s < d->plan->n_stages; s++) {
        const struct cs_stage *st = &d->plan->stages[s];
        const int32_t id = stage_in_search(t, st);
        fwd[id] += st->fwd_ns;
        input[id] += st->bwd_input_ns;
        weight[id] += st->bwd_weight_ns;
    }
    for (int32_t s = 0; s < t->plan->n_stages; s++) {
        const struct cs_stage *st = &t->plan->stages[s];
        expect(d, "forward of stage", s, st->fwd_ns, fwd[s]);
        expect(d, "backward of stage", s, st->bwd_input_ns + st->bwd_weight_ns,
               input[s] + weight[s]);
    }
}

/* What ranks need of their memory, class by class. */
static void memory_is_alike(const struct drawn *d, const struct cs_trial *t)
{
    int64_t *kept = CS_NEW_ARRAY(d->arena, int64_t, d->plan->n_ranks + 1);
    int32_t *n_buffers = CS_NEW_ARRAY(d->arena, int32_t, 2 * d->plan->n_edges + 1);
    const struct cs_needs_of of = {.plan = d->plan,
                                   .graph = cs_plan_rank_graph(d->graph, d->plan, d->arena),
                                   .cluster = &d->cluster,
                                   .element = cs_device_element_bytes(d->cluster.device),
                                   .n_buffers = n_buffers};
    struct cs_err err = {0};
    need(cs_orders_kept(d->plan, cs_plan_own_slots(d->plan, d->plan->slots),
                        cs_needs_held(&of, d->arena), kept, n_buffers, &err),
         &err);
    for (int32_t i = 0; i < d->found.plan->n_stages; i++) {
        const struct cs_search_stage *s = &d->found.plan->stage[i];
        const struct cs_memory *m = &s->memory;
        const int32_t rank = t->first_rank[s->branch] + s->index;
        const struct cs_rank_needs needs = cs_rank_needs(&of, rank, kept[rank]);
        expect(d, "weights of rank", rank, m->weights, needs.weights);
        expect(d, "state of rank", rank, m->grads + m->optimizer, needs.state);
        expect(d, "activations of rank", rank, m->activations, needs.activations);
        expect(d, "boundary of rank", rank, m->boundary, needs.boundary);
        expect(d, "scratch of rank", rank, m->workspace, needs.scratch);
        expect(d, "windows of rank", rank, m->windows, needs.windows);
        expect(d, "memory of rank", rank, cs_memory_total(m), cs_rank_needs_bytes(&needs));
    }
}

static void messages_are_alike(const struct drawn *d, const struct cs_trial *t, int *seen)
{
    int32_t n = 0;
    for (int32_t e = 0; e < d->plan->n_edges; e++) {
        const struct cs_edge *edge = &d->plan->edges[e];
        if (t->c->place[d->plan->stages[edge->from].branch] == CS_PLACE_REPLICATED)
            continue;
        const int32_t from = stage_in_search(t, &d->plan->stages[edge->from]),
                      to = stage_in_search(t, &d->plan->stages[edge->to]);
        int32_t i = 0;
        while (i < t->plan->n_edges &&
               (t->plan->edges[i].from != from || t->plan->edges[i].to != to))
            i++;
        if (i == t->plan->n_edges)
            fail_msg("%s: no edge from stage %d to %d", text_of(d), edge->from, edge->to);
        for (int f = 0; f < CS_FLOWS; f++) {
            const enum cs_edge_flow flow = (enum cs_edge_flow)f;
            expect(d, f ? "gradients of edge" : "rows of edge", e, t->hop[CS_FLOWS * i + f],
                   cs_edge_cost(d->plan, e, flow, &d->cluster).ns);
            seen[cs_edge_primitive(d->plan, e, flow)]++;
        }
        n++;
    }
    assert_int_equal(n, t->plan->n_edges);
}

/* work and messages alone */
static int64_t pipeline_cost(void *user, const struct cs_program *program, int rank,
                             const struct cs_action *a)
{
    const struct drawn *d = user;
    (void)rank;
    if (a->op == CS_OP_SEND)
        return cs_edge_cost(d->plan, a->edge, a->is_grad ? CS_FLOW_GRADIENTS : CS_FLOW_ROWS,
                            &d->cluster)
            .ns;
    return cs_op_is((enum cs_op)a->op, CS_OP_KIND_WORK) ? cs_action_work_ns(program->plan, a) : 0;
}

static void pipelines_are_alike(struct drawn *d)
{
    struct cs_program_options how = {.n_slots = cs_plan_own_slots(d->plan, d->plan->slots)};
    struct cs_program *program = NULL;
    struct cs_sim_result sim;
    struct cs_err err = {0};
    need(cs_program_make_with(d->plan, d->graph, &how, d->arena, &program, &err), &err);
    need(cs_simulate(program, &(struct cs_sim_options){.cost = pipeline_cost, .user = d}, d->arena,
                     &sim, &err),
         &err);
    expect(d, "pipeline of rank", 0, d->found.plan->pipeline_ns, sim.makespan_ns);
}

/* A replicated encoder has actions of its own in a plan, which need not wait for those of the LLM. */
static bool try_layout(int *seen)
{
    struct drawn d = {.arena = cs_arena_new(0)};
    struct cs_trial t;
    struct cs_err err;
    int64_t nearest;
    draw_model(&d);
    draw_layout(&d);
    bool is_made = cs_search_evaluate(d.problem, &d.options, NULL, &d.found, d.arena, &nearest,
                                      &err) == CS_OK &&
                   make_plan(&d);
    if (is_made) {
        take_cut(&d);
        need(cs_search_evaluate(d.problem, &d.options, NULL, &d.found, d.arena, &nearest, &err),
             &err);
        cs_trial_start(&t, d.problem, &d.options, &d.found, d.arena);
        cs_trial_lower(&t);
        messages_are_alike(&d, &t, seen);
        memory_is_alike(&d, &t);
        if (!shares_items(&d) && stays_in_nodes(&d))
            stages_are_alike(&d, &t);
        if (!shares_items(&d) && stays_in_nodes(&d) && d.found.plan->slots <= FEW &&
            d.found.plan->modality != CS_PLACE_REPLICATED)
            pipelines_are_alike(&d);
    }
    json_decref(d.root);
    cs_arena_free(d.arena);
    return is_made;
}

static void a_layout_costs_what_its_plan_costs(void **state)
{
    int seen[CS_PRIMITIVES] = {0}, n = 0;
    (void)state;
    for (int i = 0; i < TRIALS; i++)
        n += try_layout(seen);
    assert_true(n > TRIALS / 4);
    for (int p = 0; p < CS_PRIMITIVES; p++) /* all-gather: within a stage of a plan alone */
        if (seen[p] == 0 && p != CS_PRIMITIVE_ALL_GATHER)
            fail_msg("no message went %s", cs_primitive_name((enum cs_primitive)p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layout_costs_what_its_plan_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
