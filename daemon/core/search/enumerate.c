/* Enumerates layouts and scores them with a closed form.
 *
 * Chain of stages with times t: (slots - 1) * max t + sum of t along the longest way (source:
 * Cornstarch, stage partition; heterogeneity reference, closed forms). Colocated encoders share
 * slots among the LLM's stages: ceil(slots / pp) * t each; replicated ones add to every stage. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/stop.h"
#include "core/plan/cost/links/beside.h"
#include "core/search/choices.h"

struct pick {
    const struct cs_choice *c;
    int64_t worst_ns, total_ns, saved_bytes; /* with its share of a slot */
    int32_t dp;
    int zero;
};

struct walk {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    const struct cs_planner_rules *rules;
    struct cs_choices branch[CS_SEARCH_MAX_BRANCHES];
    int32_t share[CS_SEARCH_MAX_BRANCHES]; /* of a replica's ranks, rules->is_proportional */
    bool is_small;
    int32_t keep, dp, slots;
    struct pick pick[CS_SEARCH_MAX_BRANCHES];
    struct cs_enumeration *out;
    int64_t order;
    int64_t bound; /* of n_scored: every dp has its share */
};

static bool is_before(const struct cs_candidate *a, const struct cs_candidate *b)
{
    if (a->score_ns != b->score_ns)
        return a->score_ns < b->score_ns;
    if (a->n_ranks != b->n_ranks)
        return a->n_ranks < b->n_ranks;
    return a->order < b->order;
}

static void offer(struct walk *w, const struct cs_candidate *candidate)
{
    struct cs_enumeration *out = w->out;
    int32_t low = 0, high = out->n;
    if (out->n == w->keep && !is_before(candidate, &out->best[out->n - 1]))
        return;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (is_before(&out->best[mid], candidate))
            low = mid + 1;
        else
            high = mid;
    }
    int32_t n = out->n < w->keep ? out->n : w->keep - 1;
    memmove(&out->best[low + 1], &out->best[low], (size_t)(n - low) * sizeof(struct cs_candidate));
    out->best[low] = *candidate;
    out->n = n + 1;
}

/* of the LLM and the encoders from `first` on: a lower bound of what more of them make of it */
static int64_t score(const struct walk *w, int32_t first)
{
    int32_t llm = w->problem->llm;
    const struct pick *l = &w->pick[llm];
    int64_t worst = l->worst_ns, chain = 0, shared = 0, repeated = 0, slots = w->slots;
    int64_t slowest = 0, pp = l->c->pp;
    for (int32_t b = first; b < w->problem->n_branches; b++) {
        if (b == llm)
            continue;
        const struct pick *e = &w->pick[b];
        switch ((enum cs_placement)e->c->place) {
        case CS_PLACE_COLOCATED:
            shared += e->total_ns;
            break;
        case CS_PLACE_REPLICATED:
            repeated += e->total_ns;
            break;
        case CS_PLACE_OWN:
        case CS_PLACE_FIRST: /* not searched */
        case CS_PLACEMENTS:
            slowest = e->worst_ns > slowest ? e->worst_ns : slowest;
            if (w->rules->sums_encoders)
                chain += e->total_ns;
            else
                chain = e->total_ns > chain ? e->total_ns : chain;
            break;
        }
    }
    worst += repeated;
    worst = slowest > worst ? slowest : worst;
    return (slots - 1) * worst + chain + l->total_ns + pp * repeated +
           (slots + pp - 1) / pp * shared;
}

static int32_t shards_of(const struct walk *w, int32_t b)
{
    return w->pick[b].dp * w->problem->branch[b].option[w->pick[b].c->option].cp;
}

static int64_t sync_ns(const struct walk *w)
{
    static const int times[] = {2, 2, 1, 0}; /* zero 2 and 3 reduce in their slots */
    int64_t worst = 0;
    for (int32_t b = 0; b < w->problem->n_branches; b++) {
        const struct pick *p = &w->pick[b];
        const struct cs_search_option *o = &w->problem->branch[b].option[p->c->option];
        int64_t ns = times[p->zero] * cs_search_gather_ns(w->problem, shards_of(w, b), o->tp,
                                                          p->c->grad_bytes / p->c->pp);
        worst = ns > worst ? ns : worst;
    }
    return worst;
}

static int64_t shard(int64_t bytes, bool is_sharded, int32_t shards)
{
    return is_sharded ? bytes / shards : bytes;
}

static int64_t state_bytes(const struct walk *w, int32_t b, int zero)
{
    const struct pick *p = &w->pick[b];
    int32_t shards = shards_of(w, b);
    return shard(p->c->weight_bytes, zero >= 3, shards) +
           shard(p->c->grad_bytes, zero >= 2, shards) + shard(p->c->optim_bytes, zero >= 1, shards);
}

/* Average over the stages: if that does not fit with one slot in flight, no cut does. Where there
 * are many layouts, with most of the slots that are in flight on average. */
static int64_t average_bytes(const struct walk *w, int32_t b, int zero)
{
    const struct pick *p = &w->pick[b];
    int32_t llm = w->problem->llm, pp = p->c->pp;
    int64_t alive = 1, halves = pp + 1 + (b == llm ? 0 : 2 * w->pick[llm].c->pp);
    if (!w->is_small) {
        alive = halves < 2 * w->slots ? halves : 2 * (int64_t)w->slots;
        alive = 3 * alive / 8 > 1 ? 3 * alive / 8 : 1;
    }
    return (state_bytes(w, b, zero) + alive * p->saved_bytes + pp - 1) / pp;
}

/* the cheapest zero level under which the branch may fit */
static bool may_fit(struct walk *w, int32_t b)
{
    int64_t bytes = 0;
    struct pick *p = &w->pick[b];
    for (int z = cs_search_next_zero(w->options->zeros, -1); z >= 0;
         z = cs_search_next_zero(w->options->zeros, z)) {
        p->zero = z;
        if (w->problem->mem_bytes <= 0)
            return true;
        bytes = average_bytes(w, b, z);
        if (bytes <= w->problem->mem_bytes)
            return true;
    }
    w->out->n_pruned++;
    if (w->out->least_bytes == 0 || bytes < w->out->least_bytes) {
        w->out->least_bytes = bytes;
        w->out->least_branch = b;
        w->out->least_ranks = p->c->ranks;
    }
    return false;
}

/* Exchanges of zero 2 and 3 in every slot: with room for two layers what computing beside them does not hide. */
static int64_t zero_ns(const struct walk *w, const struct pick *p, int32_t tp, int32_t shards)
{
    const struct cs_device_class link = cs_search_replica_link(w->problem, shards, tp);
    const int gathers = p->zero < 3 ? 0 : p->c->has_backward ? 2 : 1;
    struct cs_lanes lanes = {0};
    int64_t last = cs_lanes_exchange(
        &lanes, cs_exchange_beside(&link, CS_LINK_REDUCE_SCATTER, shards, p->c->grad_bytes));
    for (int i = 0; i < gathers; i++)
        last = cs_lanes_exchange(
            &lanes, cs_exchange_beside(&link, CS_LINK_ALL_GATHER, shards, p->c->weight_bytes));
    if (w->problem->zero_turns > 1) {
        cs_lanes_compute(&lanes, p->total_ns);
        lanes.now_ns -= (double)p->total_ns;
    }
    cs_lanes_await(&lanes, last);
    return llround(lanes.now_ns);
}

static void add_zero_ns(struct walk *w, int32_t b)
{
    struct pick *p = &w->pick[b];
    if (p->zero < 2)
        return;
    int32_t tp = w->problem->branch[b].option[p->c->option].tp, shards = shards_of(w, b);
    const int64_t ns = zero_ns(w, p, tp, shards);
    p->worst_ns += ns / p->c->pp;
    p->total_ns += ns;
}

/* Whole encoders beside a stage of the LLM; raises their zero level while that is needed. */
static bool shared_fit(struct walk *w)
{
    int32_t llm = w->problem->llm;
    int64_t cap = w->problem->mem_bytes, base = average_bytes(w, llm, w->pick[llm].zero);
    for (int32_t e = 0; e < w->problem->n_branches; e++) {
        struct pick *p = &w->pick[e];
        if (e == llm || p->c->place == CS_PLACE_OWN)
            continue;
        while (cap > 0 && base + state_bytes(w, e, p->zero) + p->saved_bytes > cap) {
            int next = cs_search_next_zero(w->options->zeros, p->zero);
            if (next < 0)
                break;
            p->zero = next;
        }
        base += state_bytes(w, e, p->zero) + p->saved_bytes;
        add_zero_ns(w, e);
    }
    if (cap <= 0 || base <= cap)
        return true;
    w->out->n_pruned++;
    return false;
}

static void offer_pick(struct walk *w, int32_t ranks)
{
    struct cs_candidate c = {
        .dp = w->dp, .n_ranks = ranks, .planner = w->options->planner, .order = w->order++};
    w->out->n_scored++;
    for (int32_t b = 0; b < w->problem->n_branches; b++) {
        c.option[b] = w->pick[b].c->option;
        c.pp[b] = w->pick[b].c->pp;
        c.place[b] = w->pick[b].c->place;
        c.own_dp[b] = w->pick[b].dp;
        c.zero[b] = (uint8_t)w->pick[b].zero;
    }
    c.score_ns = score(w, 0) + sync_ns(w);
    const int32_t modality = cs_candidate_modality(w->problem, &c);
    if ((w->options->modalities >> modality & 1) != 0 || w->rules->is_own_only)
        offer(w, &c);
}

static void finish(struct walk *w, int32_t ranks)
{
    struct pick before[CS_SEARCH_MAX_BRANCHES];
    memcpy(before, w->pick, sizeof before);
    if (shared_fit(w))
        offer_pick(w, ranks);
    memcpy(w->pick, before, sizeof before);
}

static void pick_branch(struct walk *w, int32_t b, int32_t ranks);

/* the tp and cp of the LLM, which was picked before */
static bool is_alike(const struct walk *w, int32_t b, const struct cs_choice *c)
{
    const int32_t llm = w->problem->llm;
    if (b == llm)
        return true;
    const struct cs_search_option *own = &w->problem->branch[b].option[c->option];
    const struct cs_search_option *its = &w->problem->branch[llm].option[w->pick[llm].c->option];
    return own->tp == its->tp && own->cp == its->cp;
}

/* The same encoder is laid out over all ranks of the LLM's stage, too. */
static bool has_same_on_all(const struct walk *w, int32_t b, const struct cs_choice *c,
                            int32_t block)
{
    const struct cs_search_option *own = &w->problem->branch[b].option[c->option];
    for (int32_t i = 0; i < w->branch[b].n; i++) {
        const struct cs_choice *x = &w->branch[b].at[i];
        const struct cs_search_option *o = &w->problem->branch[b].option[x->option];
        if (x->place == c->place && x->block == block && o->tp == own->tp && o->sp == own->sp &&
            o->recompute == own->recompute)
            return true;
    }
    return false;
}

/* Encoders on ranks of the LLM, of which some were picked before, are shared in one way. */
static bool is_shared_alike(const struct walk *w, int32_t b, const struct cs_choice *c)
{
    const int32_t tp = w->problem->branch[b].option[c->option].tp;
    for (int32_t e = b + 1; e < w->problem->n_branches; e++) {
        const struct cs_choice *other = w->pick[e].c;
        if (e != w->problem->llm && other->place != CS_PLACE_OWN &&
            w->problem->branch[e].option[other->option].tp != tp)
            return false;
    }
    return true;
}

/* replicas of the branch and its share of a slot; false: it cannot be beside that LLM */
static bool settle(struct walk *w, int32_t b, const struct cs_choice *c)
{
    struct pick *p = &w->pick[b];
    int32_t llm = w->problem->llm, fixed = w->options->fix[b].dp, parts = 1;
    if (w->rules->has_one_tp && !is_alike(w, b, c))
        return false;
    if (fixed <= 0 && c->place == CS_PLACE_OWN && b != llm)
        fixed = w->options->dp;
    *p = (struct pick){.c = c,
                       .worst_ns = c->worst_ns,
                       .total_ns = c->total_ns,
                       .saved_bytes = c->saved_bytes,
                       .dp = w->dp};
    if (c->place == CS_PLACE_OWN) {
        p->dp = w->dp * c->ratio.times / c->ratio.over;
        bool divides = w->dp % c->ratio.over == 0;
        const struct cs_search_option *o = &w->problem->branch[b].option[c->option];
        divides = divides && (o->ep < 2 || p->dp * o->cp % o->ep == 0);
        return divides && p->dp >= 1 && (fixed <= 0 || fixed == p->dp);
    }
    const struct cs_choice *its = w->pick[llm].c;
    const struct cs_search_option *own = &w->problem->branch[b].option[c->option];
    const struct cs_search_option *o = &w->problem->branch[llm].option[its->option];
    if (its->block % c->block != 0 || (own->tp != 1 && own->tp != o->tp))
        return false; /* ranks share its matrices as the LLM's, or its items */
    if (!is_shared_alike(w, b, c))
        return false;
    if (c->place == CS_PLACE_REPLICATED)
        return own->tp == o->tp && own->cp == o->cp && (fixed <= 0 || fixed == w->dp);
    parts = its->block / c->block;
    if (parts > 1 && has_same_on_all(w, b, c, its->block))
        return false; /* one job, whose ranks share the items anyway */
    p->dp = w->dp * its->pp * parts;
    struct cs_share share = cs_share_of(&w->problem->branch[b], parts, 1);
    p->total_ns = cs_share_ns(share, c->total_ns);
    return (parts == 1 || parts <= w->problem->branch[b].n_items) && (fixed <= 0 || fixed == p->dp);
}

/* After the LLM its encoders, from the last to the first; -1: all are picked. */
static int32_t next_branch(const struct walk *w, int32_t b)
{
    int32_t next = b == w->problem->llm ? w->problem->n_branches - 1 : b - 1;
    return next == w->problem->llm ? next - 1 : next;
}

static void pick_choice(struct walk *w, int32_t b, const struct cs_choice *c, int32_t ranks)
{
    bool is_own = c->place == CS_PLACE_OWN;
    if (w->rules->is_proportional && c->ranks != w->share[b])
        return;
    if (!settle(w, b, c))
        return;
    int64_t total = ranks + (is_own ? (int64_t)c->ranks * w->pick[b].dp : 0);
    if (total > w->problem->n_ranks || (is_own && !may_fit(w, b)))
        return;
    if (is_own)
        add_zero_ns(w, b);
    else /* with the others, once the rank is full */
        w->pick[b].zero = cs_search_next_zero(w->options->zeros, -1);
    int32_t first = b == w->problem->llm ? w->problem->n_branches : b;
    if (w->out->n == w->keep && score(w, first) > w->out->best[w->keep - 1].score_ns)
        return; /* no better than what is kept */
    pick_branch(w, next_branch(w, b), (int32_t)total);
}

/* the LLM first: colocated encoders live on its ranks */
static void pick_branch(struct walk *w, int32_t b, int32_t ranks)
{
    if (w->out->n_scored >= w->bound || cs_stop_is_asked())
        return;
    if (b < 0) {
        finish(w, ranks);
        return;
    }
    for (int32_t i = 0; i < w->branch[b].n; i++)
        pick_choice(w, b, &w->branch[b].at[i], ranks);
}

/* ranks of a replica in proportion to work, as many as a layout can use */
static void deal_ranks(struct walk *w)
{
    double work[CS_SEARCH_MAX_BRANCHES];
    int32_t n = w->problem->n_branches;
    for (int32_t b = 0; b < n; b++) {
        const struct cs_search_branch *branch = &w->problem->branch[b];
        work[b] = w->options->work[b];
        for (int32_t i = 0; i < branch->n_layers && w->options->work[w->problem->llm] <= 0; i++)
            work[b] += (double)cs_search_layer_ns(&branch->option[0].layer[i], CS_CUT_TRUE);
    }
    cs_planner_deal(work, n, w->problem->n_ranks / w->dp, w->share);
    for (int32_t b = 0; b < n; b++) { /* what a layout can have of it */
        int32_t best = 0;
        for (int32_t i = 0; i < w->branch[b].n; i++) {
            int32_t r = w->branch[b].at[i].ranks;
            best = r > best && r <= w->share[b] ? r : best;
        }
        w->share[b] = best;
    }
}

/* what divides one step in equal slots, many replicas first: where there are ranks for them they
 * win, and bound the rest */
static void walk_all(struct walk *w)
{
    const struct cs_search_options *options = w->options;
    int32_t most =
        w->problem->n_ranks < options->batch_slots ? w->problem->n_ranks : options->batch_slots;
    int32_t llm = w->problem->llm;
    int32_t fixed = options->fix[llm].dp > 0 ? options->fix[llm].dp : options->dp;
    for (int32_t dp = most; dp >= 1; dp--) {
        if (fixed > 0 ? dp != fixed : options->batch_slots % dp != 0)
            continue;
        w->dp = dp;
        w->bound = w->out->n_scored + options->max_scored / 16;
        w->slots = (options->batch_slots + dp - 1) / dp;
        if (w->rules->is_proportional)
            deal_ranks(w);
        pick_branch(w, w->problem->llm, 0);
    }
}

enum cs_status cs_search_enumerate(const struct cs_search_problem *problem,
                                   const struct cs_search_options *options, int32_t keep,
                                   struct cs_arena *arena, struct cs_enumeration *out,
                                   struct cs_err *err)
{
    struct walk w = {.problem = problem,
                     .options = options,
                     .rules = &cs_planner_rules[options->planner],
                     .keep = keep,
                     .out = out};
    *out = (struct cs_enumeration){.best = CS_NEW_ARRAY(arena, struct cs_candidate, keep + 1)};
    CS_TRY(cs_choices_make(problem, options, arena, w.branch, &w.is_small, err));
    walk_all(&w);
    return CS_OK;
}
