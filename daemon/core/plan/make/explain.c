/* Why the plan is as it is, in sentences. */
#include "core/plan/make/planning.h"

#include <string.h>

#include "core/base/buf.h"
#include "core/base/units.h"
#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/context_work.h"
#include "core/plan/cost/links/edges.h"
#include "core/plan/cost/stage/offload.h"
#include "core/plan/cost/stage/zero.h"
#include "core/plan/make/offload.h"
#include "core/plan/make/zero.h"

enum { MAX_WHY = 8 * CS_MAX_BRANCHES + 9 };

static void say(struct cs_planner *p, const char *text)
{
    if (p->plan->n_why < MAX_WHY)
        p->plan->why[p->plan->n_why++] = text;
}

static int64_t stage_ns(const struct cs_stage *s)
{
    return s->fwd_ns + s->bwd_input_ns + s->bwd_weight_ns;
}

static void explain_branch(struct cs_planner *p, int32_t b)
{
    struct cs_buf text = {0};
    bool is_begun = false;
    cs_buf_addf(&text, "%s in %d stage%s", p->graph->branches[b].name, p->cuts.n_stages[b],
                CS_PLURAL(p->cuts.n_stages[b]));
    for (int32_t s = 0; s < p->plan->n_stages; s++) {
        const struct cs_stage *st = &p->plan->stages[s];
        char fwd[CS_UNITS_CAP], bwd[CS_UNITS_CAP];
        if (st->branch != b || (st->copies > 1 && st->index > 0))
            continue;
        if (!is_begun && st->copies > 1)
            cs_buf_addf(&text, ", of which %d ranks have a copy each for slots of their own",
                        st->copies);
        cs_buf_adds(&text, is_begun ? "" : ":");
        is_begun = true;
        cs_duration_print(fwd, sizeof fwd, (uint64_t)st->fwd_ns);
        cs_duration_print(bwd, sizeof bwd, (uint64_t)(st->bwd_input_ns + st->bwd_weight_ns));
        cs_buf_addf(&text, " %s %d layer%s, F %s + B %s%s;", st->name, st->n_layers,
                    CS_PLURAL(st->n_layers), fwd, bwd, st->has_backward ? "" : " (no backward)");
    }
    text.data[text.len - 1] = '.';
    say(p, cs_arena_strdup(p->arena, cs_buf_str(&text)));
    cs_buf_free(&text);
}

/* what else the first rank of a branch does */
static double beside(struct cs_planner *p, int32_t b)
{
    double sum = 0;
    for (int32_t e = 0; b == p->graph->llm && e < p->graph->n_branches; e++) {
        const bool is_here = p->placing.place[e]->cut == CS_CUT_ONCE;
        const double *cost = is_here ? cs_planner_costs(p, e, false) : NULL;
        for (int32_t i = 0; cost != NULL && i < p->graph->branches[e].n_layers; i++)
            sum += cost[i];
    }
    return sum;
}

static int64_t bottleneck_of(struct cs_planner *p, int32_t b, const int *sizes)
{
    const double *cost = cs_planner_costs(p, b, false);
    double worst = 0;
    int layer = 0;
    for (int32_t s = 0; s < p->cuts.n_stages[b]; s++) {
        double sum = s == 0 ? beside(p, b) : 0;
        for (int i = 0; i < sizes[s]; i++)
            sum += cost[layer++];
        worst = sum > worst ? sum : worst;
    }
    return (int64_t)worst;
}

/* what the other rule would have cut, measured by true costs */
static enum cs_status explain_other_rule(struct cs_planner *p, struct cs_err *err)
{
    bool is_blind = strcmp(p->spec->stages, "frozen-blind") == 0;
    int64_t ours = 0, other = 0;
    if (cs_planner_counts_layers(p)) {
        say(p, "Cut into stages of equal numbers of layers, whatever they cost.");
        return CS_OK;
    }
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        int *sizes = CS_NEW_ARRAY(p->arena, int, p->cuts.n_stages[b]);
        enum cs_status status = cs_planner_cut_branch(p, b, !is_blind, sizes, err);
        if (status == CS_PLAN)
            return CS_OK; /* the other rule does not fit in memory: nothing to compare */
        CS_TRY(status);
        int64_t mine = bottleneck_of(p, b, p->cuts.sizes[b]), its = bottleneck_of(p, b, sizes);
        ours = mine > ours ? mine : ours;
        other = its > other ? its : other;
    }
    const char *rule = is_blind ? "frozen-aware" : "frozen-blind";
    if (other == ours)
        say(p,
            cs_arena_printf(p->arena, "Cut by %s costs; %s costs would give the same bottleneck.",
                            p->spec->stages, rule));
    else {
        char mine[CS_UNITS_CAP], its[CS_UNITS_CAP];
        cs_duration_print(mine, sizeof mine, (uint64_t)ours);
        cs_duration_print(its, sizeof its, (uint64_t)other);
        say(p, cs_arena_printf(p->arena,
                               "Cut by %s costs the bottleneck is %s; %s costs would give %s.",
                               p->spec->stages, mine, rule, its));
    }
    return CS_OK;
}

/* Which of two ways to exchange, where the job leaves it open. */
static void explain_exchange(struct cs_planner *p)
{
    const struct cs_context_choice *c = &p->source.context;
    const struct cs_context_way *own = c->moves_heads ? &c->heads : &c->keys,
                                *other = c->moves_heads ? &c->keys : &c->heads;
    char ns[2][CS_UNITS_CAP], bytes[2][CS_UNITS_CAP];
    if (!c->is_open)
        return;
    cs_duration_print(ns[0], sizeof ns[0], (uint64_t)own->ns);
    cs_duration_print(ns[1], sizeof ns[1], (uint64_t)other->ns);
    cs_bytes_print(bytes[0], sizeof bytes[0], (uint64_t)own->bytes);
    cs_bytes_print(bytes[1], sizeof bytes[1], (uint64_t)other->bytes);
    say(p, cs_arena_printf(p->arena,
                           "%s go between them around attention (context_exchange): a full slot "
                           "and its backward take %s then, %s come to a rank or leave it; with %s "
                           "%s and %s.",
                           c->moves_heads ? "Heads" : "Keys and values", ns[0], bytes[0],
                           c->moves_heads ? "keys" : "heads", ns[1], bytes[1]));
}

/* What attention does while keys come. */
static void explain_own_first(struct cs_planner *p)
{
    char saved[CS_UNITS_CAP];
    if (!p->plan->keys_own_first)
        return;
    cs_duration_print(saved, sizeof saved, (uint64_t)p->source.context.saved_ns);
    say(p, cs_arena_printf(p->arena,
                           "Attention looks at the keys of a rank itself while those of others "
                           "come, which saves %s of a full slot and its backward.",
                           saved));
}

/* " (1, 2, 4 of them, which share heads)": numbers of ranks that can split a slot, where not all can */
static const char *list_degrees(struct cs_planner *p)
{
    const struct cs_context_degrees degrees = {
        .ranks = p->placing.cp,
        .can = cs_context_heads_degrees(p->whole, p->placing.tp[p->graph->llm], p->placing.cp)};
    struct cs_buf text = {0};
    bool is_any = true;
    for (int32_t n = 1; n <= degrees.ranks; n++) {
        const bool can = cs_context_can_split(&degrees, n);
        is_any = is_any && can;
        if (can)
            cs_buf_addf(&text, "%s%d", n > 1 ? ", " : " (", n);
    }
    const char *list =
        is_any ? "" : cs_arena_printf(p->arena, "%s of them, which can share heads)", text.data);
    cs_buf_free(&text);
    return list;
}

static void explain_degrees(struct cs_planner *p)
{
    if (p->plan->context_rows > 0)
        say(p, cs_arena_printf(p->arena,
                               "A slot is split only where a rank would have more than %d of its "
                               "rows%s; ranks work on different short slots.",
                               p->plan->context_rows, p->plan->moves_heads ? list_degrees(p) : ""));
}

/* What a full slot asks of the ranks that share its rows. */
static enum cs_status explain_context(struct cs_planner *p, struct cs_err *err)
{
    struct cs_context_work work;
    if (p->placing.cp == 1)
        return CS_OK;
    CS_TRY(cs_context_work_make(p->graph, &p->plan->budget, p->spec->context, p->plan->moves_heads,
                                p->placing.cp, p->arena, &work, err));
    say(p, cs_arena_printf(
               p->arena,
               "The rows of a slot are split over %d rank%s of every stage of %s (%s): "
               "of a full one at most %lld of %d are on one, whose work is up to %.3f of "
               "the mean, and %s of at most %lld rows come to it or leave it in a "
               "layer. Memory is planned for %d rows.",
               p->placing.cp, CS_PLURAL(p->placing.cp), p->graph->branches[p->graph->llm].name,
               p->spec->context, (long long)work.most_rows, work.n_rows, work.slack,
               p->plan->moves_heads ? "the heads that a rank has in attention" : "keys",
               (long long)work.most_moved,
               cs_context_room(p->plan->budget.seq_tokens, p->placing.cp, p->plan->context_rows)));
    explain_exchange(p);
    explain_own_first(p);
    explain_degrees(p);
    return CS_OK;
}

static void explain_replicas(struct cs_planner *p)
{
    const int32_t llm = p->graph->llm;
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        const int32_t dp = p->placing.dp[b];
        const char *of = cs_arena_printf(p->arena, "the slots that %d of %s run side by side",
                                         p->plan->dp, p->graph->branches[llm].name);
        if (dp != p->plan->dp)
            say(p,
                cs_arena_printf(p->arena, "%d replica%s of %s %s the items of %s.", dp,
                                CS_PLURAL(dp), p->graph->branches[b].name,
                                CS_NOUN(dp, "has", "share"), p->plan->dp > 1 ? of : "every slot"));
    }
}

/* Encoders whose ranks have some of the items of a slot each. */
static void explain_shared_items(struct cs_planner *p)
{
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        const int32_t ranks = p->placing.branch_cp[b];
        if (b != p->graph->llm && ranks > 1)
            say(p, cs_arena_printf(p->arena,
                                   "The items of a slot are shared by the %d ranks of every stage "
                                   "of %s.",
                                   ranks, p->graph->branches[b].name));
    }
}

/* "striped: 1.2 MiB to the other stage and 900 KiB among the ranks of one, 210 us" */
static void add_flow(struct cs_buf *text, const struct cs_planner *p, int32_t edge,
                     enum cs_edge_flow flow)
{
    const struct cs_edge_cost c = cs_edge_cost(p->plan, edge, flow, p->cluster);
    char bytes[CS_UNITS_CAP], part[CS_UNITS_CAP], ns[CS_UNITS_CAP];
    cs_bytes_print(bytes, sizeof bytes, (uint64_t)c.bytes);
    cs_bytes_print(part, sizeof part, (uint64_t)c.part_bytes);
    cs_duration_print(ns, sizeof ns, (uint64_t)(c.ns + c.part_ns));
    cs_buf_addf(text, " %s", cs_primitive_name(cs_edge_primitive(p->plan, edge, flow)));
    if (c.bytes > 0)
        cs_buf_addf(text, ", %s to another rank", bytes);
    if (c.part_bytes > 0)
        cs_buf_addf(text, "%s %s among the ranks of a stage", c.bytes > 0 ? " and" : ",", part);
    if (c.bytes + c.part_bytes > 0)
        cs_buf_addf(text, " in %s", ns);
}

static bool trains(const struct cs_planner *p, int32_t b)
{
    const struct cs_branch *branch = &p->graph->branches[b];
    int64_t n = 0;
    for (int32_t l = branch->first_layer; l < branch->first_layer + branch->n_layers; l++)
        n += p->graph->layers[l].n_trained;
    return n > 0;
}

/* What ranks with the same weights divide; a frozen branch has no gradients and no state. */
static void explain_zero(struct cs_planner *p)
{
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        const int level = cs_zero_level(p->spec, p->graph, b);
        const char *name = p->graph->branches[b].name;
        const bool is_frozen = !trains(p, b);
        if (level == 2 && is_frozen)
            say(p, cs_arena_printf(p->arena, "zero = 2 changes nothing here: nothing of %s trains.",
                                   name));
        else if (level > 1)
            say(p, cs_arena_printf(p->arena,
                                   "%s of %s are divided among the %d ranks that have the same.",
                                   is_frozen    ? "Weights"
                                   : level == 2 ? "Gradients and the optimizer's state"
                                                : "Weights, gradients and the optimizer's state",
                                   name, cs_planner_holders(p, b)));
    }
}

/* Nothing moves where a stage has memory for all slots that are alive. */
static void explain_offload(struct cs_planner *p)
{
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        const char *name = p->graph->branches[b].name;
        int32_t most = 0;
        if (!cs_branch_offloads(p->spec, p->graph, b))
            continue;
        for (int32_t s = 0; s < p->cuts.n_stages[b]; s++) {
            const int32_t sets = cs_offload_sets((int32_t)cs_planner_live(p, b, s));
            most = sets > most ? sets : most;
        }
        if (most > 0)
            say(p, cs_arena_printf(p->arena,
                                   "Activations of %s wait in the host's memory, but for those of "
                                   "up to %d slots of a stage.",
                                   name, most));
        else
            say(p,
                cs_arena_printf(p->arena,
                                "offload = \"host\" changes nothing here: so few slots of a stage "
                                "of %s are alive at once that their activations stay.",
                                name));
    }
}

static int32_t branch_of(const struct cs_planner *p, int32_t stage)
{
    return p->plan->stages[stage].branch;
}

static bool is_identity(const struct cs_planner *p, int32_t edge)
{
    return cs_edge_primitive(p->plan, edge, CS_FLOW_ROWS) == CS_PRIMITIVE_IDENTITY &&
           cs_edge_primitive(p->plan, edge, CS_FLOW_GRADIENTS) == CS_PRIMITIVE_IDENTITY;
}

/* The first edge between these branches where something moves, -1: none does. */
static int32_t edge_between(const struct cs_planner *p, int32_t from, int32_t to)
{
    for (int32_t e = 0; e < p->plan->n_edges; e++)
        if (branch_of(p, p->plan->edges[e].from) == from &&
            branch_of(p, p->plan->edges[e].to) == to && !is_identity(p, e))
            return e;
    return -1;
}

/* How rows go from stage to stage, of a full slot and of one edge between each two branches. */
static void explain_edges(struct cs_planner *p)
{
    const int32_t n = p->graph->n_branches;
    for (int32_t i = 0; i < n * n; i++) {
        const int32_t e = edge_between(p, i / n, i % n);
        struct cs_buf text = {0};
        if (e < 0)
            continue;
        cs_buf_addf(&text, "Rows of a full slot go from %s to %s:",
                    p->plan->stages[p->plan->edges[e].from].name,
                    p->plan->stages[p->plan->edges[e].to].name);
        add_flow(&text, p, e, CS_FLOW_ROWS);
        if (p->plan->edges[e].has_grad) {
            cs_buf_addf(&text, "; gradients come back:");
            add_flow(&text, p, e, CS_FLOW_GRADIENTS);
        }
        cs_buf_addf(&text, ".");
        say(p, cs_arena_strdup(p->arena, cs_buf_str(&text)));
        cs_buf_free(&text);
    }
}

/* The rank that computes most for a slot, on the mean where copies of an encoder take turns. */
static void explain_bottleneck(struct cs_planner *p)
{
    const struct cs_plan *plan = p->plan;
    int32_t worst = plan->stages[0].rank, n = 0;
    int64_t *ns = CS_NEW_ARRAY(p->arena, int64_t, (size_t)plan->n_ranks + 1);
    char most[CS_UNITS_CAP];
    struct cs_buf names = {0};
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *st = &plan->stages[s];
        ns[st->rank] += stage_ns(st) / (st->copies > 1 ? st->copies : 1);
        worst = ns[st->rank] > ns[worst] ? st->rank : worst;
    }
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == worst)
            cs_buf_addf(&names, "%s%s", n++ > 0 ? " with " : "", plan->stages[s].name);
    cs_duration_print(most, sizeof most, (uint64_t)ns[worst]);
    say(p, cs_arena_printf(p->arena, "The bottleneck is %s%s: %s per slot.", cs_buf_str(&names),
                           n > 1 ? " on one rank" : "", most));
    cs_buf_free(&names);
}

enum cs_status cs_planner_explain(struct cs_planner *p, struct cs_err *err)
{
    p->plan->why = CS_NEW_ARRAY(p->arena, const char *, MAX_WHY);
    struct cs_profile_step step;
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        explain_branch(p, b);
    CS_TRY(explain_context(p, err));
    explain_replicas(p);
    explain_shared_items(p);
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (p->placing.tp[b] > 1)
            say(p, cs_arena_printf(p->arena,
                                   "The heads%s and the columns of the MLPs of %s are shared by %d "
                                   "ranks of every stage.",
                                   b == p->graph->llm ? ", the words" : "",
                                   p->graph->branches[b].name, p->placing.tp[b]));
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (p->placing.sp[b])
            say(p, cs_arena_printf(p->arena,
                                   "Between the products of a block of %s each of these has a part "
                                   "of the rows.",
                                   p->graph->branches[b].name));
    if (p->placing.ep > 1)
        say(p, cs_arena_printf(p->arena,
                               "The experts of a layer of %s are spread over %d rank%s, which each "
                               "row goes to and comes back from.",
                               p->graph->branches[p->graph->llm].name, p->placing.ep,
                               CS_PLURAL(p->placing.ep)));
    explain_zero(p);
    explain_offload(p);
    explain_edges(p);
    explain_bottleneck(p);
    if (p->graph->keeps_bf16)
        say(p,
            cs_arena_printf(p->arena,
                            "Gradients and moments are kept in bf16, without masters: %lld bytes "
                            "of state for a trained parameter.",
                            (long long)cs_state_bytes(true, p->cluster->device).all));
    if (p->source.profile != NULL)
        say(p, cs_arena_printf(p->arena, "Costs of layers were measured on a %s.",
                               p->cluster->device->name));
    if (cs_profile_step(p->source.profile, p->graph->keeps_bf16, &step) == CS_STEP_SCALED)
        say(p, "The profile measured the optimizer with state in fp32 only: times with bf16 are in "
               "proportion to the bytes that move.");
    return explain_other_rule(p, err);
}
