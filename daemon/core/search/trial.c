/* A candidate on its way to a plan value: layers with its share of a slot, what a stage of them takes. */
#include "core/search/trial.h"

#include "core/plan/context.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/links/windows.h"
#include "core/sched/traits.h"

int32_t cs_trial_rows_each(const struct cs_trial *t)
{
    if (t->option[t->llm]->cp < 2)
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
                                    few = {.ranks = o->cp,
                                           .rows_each = b == t->llm ? cs_trial_rows_each(t) : 0};
    if (few.rows_each == 0)
        return;
    const int32_t room = cs_context_room(seq, o->cp, few.rows_each),
                  most = cs_context_most(seq, o->cp);
    const struct cs_share rows = {room, most};
    const struct cs_search_heads *h = l->heads;
    const int64_t moving =
        h ? cs_context_heads_bytes(&h->attention, &all, seq, most, h->element) : 0;
    l->saved_bytes = cs_share_ns(rows, l->saved_bytes);
    l->held_bytes = cs_share_ns(rows, l->held_bytes);
    l->work_bytes = cs_share_ns(rows, l->work_bytes - moving) +
                    (h ? cs_context_heads_bytes(&h->attention, &few, seq, room, h->element) : 0);
}

/* where the branch whose ranks it has is */
static int32_t host_of(const struct cs_trial *t, int32_t b)
{
    return t->c->place[b] == CS_PLACE_OWN ? b : t->llm;
}

int32_t cs_trial_lanes(const struct cs_trial *t, int32_t b)
{
    return t->c->own_dp[host_of(t, b)] / t->repeats;
}

int32_t cs_trial_parts(const struct cs_trial *t, int32_t b)
{
    const struct cs_search_option *host = t->option[host_of(t, b)];
    return cs_trial_lanes(t, b) * host->cp * (host->tp / t->option[b]->tp);
}

int32_t cs_trial_item_slots(const struct cs_trial *t, int32_t b)
{
    return b == t->llm ? 1 : cs_item_slots(t->c->dp / t->repeats, cs_trial_parts(t, b));
}

/* Bytes are those that ranks have room for: however a slot's items are shared, one of them may have them all. */
static void fill_layers(struct cs_trial *t, int32_t b)
{
    const struct cs_search_branch *branch = &t->problem->branch[b];
    const struct cs_share share = cs_candidate_share(t->problem, t->c, b);
    const int32_t slots = cs_trial_item_slots(t, b);
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
        l->saved_bytes *= slots;
        l->held_bytes *= slots;
        l->work_bytes *= slots;
        add_rows(t, b, l);
    }
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
    t->repeats = t->c->dp;
    for (int32_t b = 0, rank = 0; b < problem->n_branches; b++)
        if (t->c->place[b] == CS_PLACE_OWN) {
            t->repeats = cs_common_divisor(t->repeats, t->c->own_dp[b]);
            t->first_rank[b] = rank;
            rank += t->c->pp[b];
        }
    for (int32_t b = 0; b < problem->n_branches; b++)
        t->option[b] = &problem->branch[b].option[t->c->option[b]];
    for (int32_t b = 0; b < problem->n_branches; b++) {
        fill_layers(t, b);
        fill_trains(t, b);
    }
}

int32_t cs_trial_base(const struct cs_trial *t, int32_t branch)
{
    int32_t base = 0;
    for (int32_t b = 0; b < branch; b++)
        base += t->problem->branch[b].n_layers;
    return base;
}

struct cs_memory_load cs_trial_load(const struct cs_trial *t, int32_t b, int32_t first)
{
    return (struct cs_memory_load){.zero = t->c->zero[b],
                                   .shards = cs_trial_shards(t, host_of(t, b)),
                                   .chunks = 1,
                                   .first = cs_trial_base(t, b) + first,
                                   .turns = t->problem->zero_turns};
}

int64_t cs_trial_windows(const struct cs_trial *t, int32_t b)
{
    int32_t tp = t->option[b]->tp, ep = t->option[b]->ep;
    for (int32_t e = 0; b == t->llm && e < t->llm; e++)
        if (t->c->place[e] != CS_PLACE_OWN)
            tp = t->option[e]->tp > tp ? t->option[e]->tp : tp;
    return t->problem->has_windows ? cs_window_bytes(t->problem->ranks_per_node, tp, ep) : 0;
}

void cs_trial_add_encoders(const struct cs_trial *t, struct cs_memory *memory)
{
    for (int32_t e = 0; e < t->llm; e++) {
        const struct cs_memory_load load = cs_trial_load(t, e, 0);
        if (t->c->place[e] != CS_PLACE_OWN)
            cs_memory_add(t->layer[e], t->problem->branch[e].n_layers, &load, memory);
    }
}

struct cs_trial_part *cs_trial_part_of(const struct cs_trial *t, int32_t stage, int32_t b)
{
    return &t->part[stage * t->problem->n_branches + b];
}

/* What is made again is part of the half that the layer has: that of its input's gradients, if it has one. */
void cs_trial_add_layers(struct cs_trial_part *part, const struct cs_search_layer *l, int32_t n)
{
    for (int32_t i = 0; i < n; i++, l++) {
        const bool is_redone = l->redo_ns > 0 && l->redo_ns >= l->fwd_ns; /* with its waits */
        part->fwd_ns += l->fwd_ns;
        part->bwd_input_ns += l->bwd_input_ns;
        part->bwd_weight_ns += l->bwd_weight_ns;
        part->fwd_fixed_ns += l->fwd_fixed_ns;
        part->bwd_fixed_ns += l->bwd_fixed_ns;
        part->weight_fixed_ns += l->weight_fixed_ns;
        *(l->needs_input_grad ? &part->bwd_input_ns : &part->bwd_weight_ns) += l->redo_ns;
        *(l->needs_input_grad ? &part->bwd_fixed_ns : &part->weight_fixed_ns) +=
            is_redone ? l->fwd_fixed_ns : 0;
    }
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
