/* From a candidate and its cut to stages, edges, times and bytes. */
#include "core/search/trial.h"

#include <math.h>
#include <string.h>

#include "core/plan/context.h"
#include "core/plan/cost/edges.h"
#include "core/plan/cost/round.h"
#include "core/sched/traits.h"

/* as a plan of the candidate has it (cs_search_spec) */
static int32_t rows_each(const struct cs_trial *t, int32_t b)
{
    if (b != t->llm || t->option[b]->cp < 2)
        return 0;
    return t->c->context_rows > 0 ? t->c->context_rows : t->problem->context_rows;
}

/* Rows of the LLM where few ranks may have a slot: all that lies in rows grows with the most that one has, but heads
 * on their way with the slots that so many ranks split. */
static void add_rows(const struct cs_trial *t, int32_t b, struct cs_search_layer *l)
{
    const struct cs_search_option *o = t->option[b];
    const int32_t seq = (int32_t)t->problem->branch[b].rows;
    const struct cs_context_degrees all = {.ranks = o->cp},
                                    few = {.ranks = o->cp, .rows_each = rows_each(t, b)};
    if (few.rows_each == 0)
        return;
    const int32_t room = cs_context_room(seq, o->cp, few.rows_each),
                  most = cs_context_most(seq, o->cp);
    const struct cs_share rows = {room, most};
    const struct cs_search_heads *h = l->heads;
    const int64_t moving =
        h ? cs_context_heads_bytes(&h->attention, &all, seq, most, h->element) : 0;
    l->saved_bytes = cs_share_ns(rows, l->saved_bytes);
    l->work_bytes = cs_share_ns(rows, l->work_bytes - moving) +
                    (h ? cs_context_heads_bytes(&h->attention, &few, seq, room, h->element) : 0);
}

static void fill_layers(struct cs_trial *t, int32_t b)
{
    const struct cs_search_branch *branch = &t->problem->branch[b];
    const struct cs_share share = cs_candidate_share(t->problem, t->c, b);
    struct cs_search_layer *out =
        CS_NEW_ARRAY(t->scratch, struct cs_search_layer, branch->n_layers + 1);
    for (int32_t i = 0; i < branch->n_layers; i++) {
        struct cs_search_layer *l = &out[i];
        *l = t->option[b]->layer[i];
        l->fwd_ns = cs_share_beyond(l->fwd_ns, l->fwd_fixed_ns, share.num, share.den);
        l->bwd_input_ns = cs_share_beyond(l->bwd_input_ns, l->bwd_fixed_ns, share.num, share.den);
        l->bwd_weight_ns =
            cs_share_beyond(l->bwd_weight_ns, l->weight_fixed_ns, share.num, share.den);
        l->redo_ns = cs_share_ns(share, l->redo_ns);
        l->blind_ns = cs_share_ns(share, l->blind_ns);
        l->saved_bytes = cs_share_ns(share, l->saved_bytes);
        l->work_bytes = cs_share_ns(share, l->work_bytes);
        add_rows(t, b, l);
    }
    cs_trial_add_zero(t, b, out);
    t->layer[b] = out;
}

static void fill_trains(struct cs_trial *t, int32_t b)
{
    int32_t n = t->problem->branch[b].n_layers;
    bool trains = false;
    for (int32_t e = 0; b == t->llm && e < t->llm; e++)
        trains = trains || t->trains[e][t->problem->branch[e].n_layers];
    t->trains[b] = CS_NEW_ARRAY(t->scratch, bool, n + 1);
    for (int32_t i = 0; i <= n; i++) {
        t->trains[b][i] = trains;
        trains = trains || (i < n && t->layer[b][i].is_trained);
    }
}

void cs_trial_start(struct cs_trial *t, const struct cs_search_problem *problem,
                    const struct cs_search_options *options, struct cs_found *found,
                    struct cs_arena *scratch)
{
    *t = (struct cs_trial){.problem = problem,
                           .options = options,
                           .found = found,
                           .c = &found->candidate,
                           .llm = problem->llm,
                           .chunks = found->chunks,
                           .scratch = scratch};
    t->slots = (options->batch_slots + t->c->dp - 1) / t->c->dp;
    for (int32_t b = 0; b < problem->n_branches; b++) {
        t->option[b] = &problem->branch[b].option[t->c->option[b]];
        fill_layers(t, b);
        fill_trains(t, b);
    }
}

int64_t cs_trial_rows(const struct cs_trial *t, int32_t from, bool is_out, int32_t cp)
{
    const struct cs_search_branch *branch = &t->problem->branch[from];
    return ((is_out ? branch->out_bytes : branch->inner_bytes) + cp - 1) / cp;
}

static int64_t shared_rows(const struct cs_trial *t, int32_t b, bool is_out)
{
    return cs_share_ns(cs_candidate_share(t->problem, t->c, b),
                       cs_trial_rows(t, b, is_out, t->option[b]->cp));
}

struct cs_memory_load cs_trial_load(const struct cs_trial *t, int32_t b, int32_t s, int32_t first,
                                    int32_t end)
{
    bool is_last = s == cs_trial_stages(t, b) - 1;
    struct cs_memory_load load = {.zero = t->c->zero[b],
                                  .shards = cs_trial_shards(t, b),
                                  .chunks = 1,
                                  .first = first,
                                  .turns = t->problem->zero_turns,
                                  .in_bytes = s > 0 ? shared_rows(t, b, false) : 0,
                                  .has_in_grad = s > 0 && t->trains[b][first],
                                  .has_out_grad = t->trains[b][end]};
    load.out_bytes = !is_last      ? shared_rows(t, b, false)
                     : b == t->llm ? 0
                                   : shared_rows(t, b, true);
    for (int32_t e = 0; b == t->llm && s == 0 && e < t->llm; e++)
        if (t->c->place[e] == CS_PLACE_OWN) {
            load.in_bytes += cs_trial_rows(t, e, true, t->option[b]->cp);
            load.has_in_grad = load.has_in_grad || t->trains[e][t->problem->branch[e].n_layers];
        }
    return load;
}

void cs_trial_add_encoders(const struct cs_trial *t, struct cs_memory *memory)
{
    for (int32_t e = 0; e < t->llm; e++) {
        if (t->c->place[e] == CS_PLACE_OWN)
            continue;
        struct cs_memory_load load = {.zero = t->c->zero[e],
                                      .shards = cs_trial_shards(t, e),
                                      .turns = t->problem->zero_turns,
                                      .out_bytes = shared_rows(t, e, true)};
        cs_memory_add(t->layer[e], t->problem->branch[e].n_layers, &load, memory);
    }
}

/* Lowering */

struct cs_trial_part *cs_trial_part_of(const struct cs_trial *t, int32_t stage, int32_t b)
{
    return &t->part[stage * t->problem->n_branches + b];
}

void cs_trial_add_layers(struct cs_trial_part *part, const struct cs_search_layer *l, int32_t n)
{
    for (int32_t i = 0; i < n; i++, l++) {
        const bool is_redone = l->redo_ns > 0 && l->redo_ns >= l->fwd_ns; /* with its waits */
        part->fwd_ns += l->fwd_ns;
        part->bwd_input_ns += l->bwd_input_ns + l->redo_ns;
        part->bwd_weight_ns += l->bwd_weight_ns;
        part->fwd_fixed_ns += l->fwd_fixed_ns;
        part->bwd_fixed_ns += l->bwd_fixed_ns + (is_redone ? l->fwd_fixed_ns : 0);
        part->weight_fixed_ns += l->weight_fixed_ns;
    }
}

static void add_part(struct cs_trial *t, int32_t stage, int32_t b, const struct cs_search_layer *l,
                     int32_t n)
{
    struct cs_trial_part *part = cs_trial_part_of(t, stage, b);
    struct cs_stage *st = &t->plan->stages[stage];
    cs_trial_add_layers(part, l, n);
    for (int32_t i = 0; i < n; i++)
        t->saved[stage] += l[i].saved_bytes;
    st->fwd_ns += part->fwd_ns;
    st->bwd_input_ns += part->bwd_input_ns;
    st->bwd_weight_ns += part->bwd_weight_ns;
    st->has_backward = st->bwd_input_ns + st->bwd_weight_ns > 0;
}

static void add_stage(struct cs_trial *t, int32_t b, int32_t index, int32_t rank,
                      const struct cs_search_layer *layer, int32_t n)
{
    int32_t id = t->plan->n_stages++;
    t->plan->stages[id] = (struct cs_stage){.name = t->problem->branch[b].name,
                                            .id = id,
                                            .branch = b,
                                            .index = index,
                                            .rank = rank,
                                            .n_layers = n};
    t->group[id] = id;
    add_part(t, id, b, layer, n);
}

static void add_own(struct cs_trial *t, int32_t b)
{
    int32_t n = cs_trial_stages(t, b), ranks = t->c->pp[b], layer = 0;
    t->first_stage[b] = t->plan->n_stages;
    t->first_rank[b] = t->plan->n_ranks;
    for (int32_t s = 0; s < n; s++) {
        int32_t id = t->plan->n_stages;
        add_stage(t, b, s, t->first_rank[b] + s % ranks, t->layer[b] + layer,
                  t->found->sizes[b][s]);
        t->group[id] = t->first_stage[b] + s % ranks;
        layer += t->found->sizes[b][s];
    }
    t->plan->n_ranks += ranks;
}

/* whole encoders: a copy on every rank of the LLM, each with every p-th slot; or in every stage */
static void add_on_llm(struct cs_trial *t, int32_t b, int32_t first_rank)
{
    int32_t p = t->c->pp[t->llm], n = t->problem->branch[b].n_layers;
    t->first_stage[b] = t->plan->n_stages;
    for (int32_t r = 0; r < p; r++) {
        t->share[t->plan->n_stages] = (struct cs_slot_share){p, r};
        add_stage(t, b, r, first_rank + r, t->layer[b], n);
    }
}

static void add_edge(struct cs_trial *t, int32_t from, int32_t to)
{
    struct cs_plan *plan = t->plan;
    bool has_grad = plan->stages[from].has_backward && plan->stages[to].has_backward;
    plan->edges[plan->n_edges] = (struct cs_edge){
        .id = plan->n_edges, .feed = -1, .from = from, .to = to, .has_grad = has_grad};
    plan->stages[to].needs_input_grad = plan->stages[to].needs_input_grad || has_grad;
    plan->n_edges++;
}

/* first rank of the cluster on which a stage's ranks are */
static int32_t cluster_rank(const struct cs_trial *t, int32_t stage)
{
    const struct cs_stage *s = &t->plan->stages[stage];
    int32_t base = 0, b = t->c->place[s->branch] == CS_PLACE_OWN ? s->branch : t->llm;
    int32_t index = s->rank - t->first_rank[b];
    for (int32_t e = 0; e < b; e++)
        if (t->c->place[e] == CS_PLACE_OWN)
            base += t->c->own_dp[e] * t->c->pp[e] * t->option[e]->tp * t->option[e]->cp;
    return base + index * t->c->own_dp[b] * t->option[b]->tp * t->option[b]->cp;
}

/* Rows go from ranks of a part to those of another as they would in a plan (core/plan/primitive.h); what these
 * put together afterwards counts here. */
static int64_t hop_ns(const struct cs_trial *t, const struct cs_edge *edge)
{
    const struct cs_search_problem *p = t->problem;
    const int32_t b = t->plan->stages[edge->from].branch, to = t->plan->stages[edge->to].branch;
    const int32_t senders = t->option[b]->tp, receivers = t->option[to]->tp;
    if (t->plan->stages[edge->from].rank == t->plan->stages[edge->to].rank)
        return 0;
    const int64_t bytes =
        cs_share_ns(cs_candidate_share(p, t->c, b), cs_trial_rows(t, b, to != b, t->option[b]->cp));
    const bool leaves = cluster_rank(t, edge->from) / p->ranks_per_node !=
                        cluster_rank(t, edge->to) / p->ranks_per_node;
    const struct cs_link_curve link = {.latency_ns = p->link_latency_ns,
                                       .bytes_per_s = p->link_bytes_per_s},
                               channel = p->channel.bytes_per_s > 0 ? p->channel : link;
    const struct cs_edge_links links = {
        .latency_ns = leaves ? p->net_latency_ns : channel.latency_ns,
        .bytes_per_s = leaves ? p->net_bytes_per_s : channel.bytes_per_s,
        .part_latency_ns = p->link_latency_ns,
        .part_bytes_per_s = p->link_bytes_per_s};
    const struct cs_edge_cost whole = cs_primitive_cost(CS_PRIMITIVE_POINT_TO_POINT, senders,
                                                        receivers, bytes, &links),
                              cut = cs_primitive_cost(CS_PRIMITIVE_STRIPED, senders, receivers,
                                                      bytes, &links);
    return receivers > 1 && cut.ns + cut.part_ns < whole.ns ? cut.ns + cut.part_ns : whole.ns;
}

static void add_edges(struct cs_trial *t)
{
    int32_t to = t->first_stage[t->llm];
    for (int32_t b = 0; b <= t->llm; b++) {
        int32_t first = t->first_stage[b], n = cs_trial_stages(t, b);
        for (int32_t s = 0; s + 1 < n; s++)
            add_edge(t, first + s, first + s + 1);
        if (b == t->llm || t->c->place[b] == CS_PLACE_REPLICATED)
            continue;
        if (t->c->place[b] == CS_PLACE_OWN)
            add_edge(t, first + n - 1, to);
        for (int32_t r = 0; t->c->place[b] == CS_PLACE_COLOCATED && r < t->c->pp[t->llm]; r++)
            add_edge(t, first + r, to);
    }
    for (int32_t e = 0; e < t->plan->n_edges; e++)
        t->hop[e] = hop_ns(t, &t->plan->edges[e]);
}

static int32_t most_stages(const struct cs_trial *t)
{
    int32_t n = 0;
    for (int32_t b = 0; b <= t->llm; b++)
        n += t->c->place[b] == CS_PLACE_OWN ? cs_trial_stages(t, b) : t->c->pp[t->llm];
    return n;
}

void cs_trial_lower(struct cs_trial *t)
{
    int32_t n = most_stages(t), llm_rank = 0;
    t->plan = CS_NEW(t->scratch, struct cs_plan);
    t->plan->stages = CS_NEW_ARRAY(t->scratch, struct cs_stage, n + 1);
    t->plan->edges = CS_NEW_ARRAY(t->scratch, struct cs_edge, n + 1);
    t->share = CS_NEW_ARRAY(t->scratch, struct cs_slot_share, n + 1);
    t->group = CS_NEW_ARRAY(t->scratch, int32_t, n + 1);
    t->part = CS_NEW_ARRAY(t->scratch, struct cs_trial_part, (n + 1) * t->problem->n_branches);
    t->saved = CS_NEW_ARRAY(t->scratch, int64_t, n + 1);
    t->hop = CS_NEW_ARRAY(t->scratch, int64_t, n + 1);
    for (int32_t b = 0; b < t->llm; b++)
        llm_rank += t->c->place[b] == CS_PLACE_OWN ? t->c->pp[b] : 0;
    for (int32_t b = 0; b <= t->llm; b++) {
        if (t->c->place[b] == CS_PLACE_OWN)
            add_own(t, b);
        else if (t->c->place[b] == CS_PLACE_COLOCATED)
            add_on_llm(t, b, llm_rank);
    }
    for (int32_t b = 0; b < t->llm; b++)
        for (int32_t s = 0; t->c->place[b] == CS_PLACE_REPLICATED && s < t->c->pp[t->llm]; s++)
            add_part(t, t->first_stage[t->llm] + s, b, t->layer[b], t->problem->branch[b].n_layers);
    t->plan->schedule = cs_plan_schedule((int)t->found->schedule)->name;
    t->plan->slots = t->slots;
    t->plan->head_stage = t->plan->embed_stage = t->plan->n_stages - 1;
    add_edges(t);
}

enum cs_status cs_trial_replay(const struct cs_trial *t, int32_t slots, struct cs_replay **out,
                               struct cs_err *err)
{
    return cs_replay_make(t->plan, t->share, slots, t->scratch, out, err);
}

int64_t *cs_trial_costs(const struct cs_trial *t, const struct cs_replay *r)
{
    int64_t *cost = CS_NEW_ARRAY(t->scratch, int64_t, r->n_items + 1);
    for (int32_t i = 0; i < r->n_items; i++)
        cost[i] = cs_work_ns(&t->plan->stages[r->item[i].stage], (enum cs_op)r->item[i].op);
    return cost;
}
