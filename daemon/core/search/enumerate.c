/* Layouts and their closed-form scores; see search.h.
 *
 * Chain of stages with times t: (slots - 1) * max t + sum of t along the longest way (source:
 * Cornstarch, stage partition; heterogeneity reference, closed forms). Colocated encoders share
 * slots among the LLM's stages: ceil(slots / pp) * t each; replicated ones add to every stage. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/search/candidate.h"

enum { MAX_CROSS = 1 << 20 };

struct choice {
    int16_t option, pp;
    int32_t ranks, block; /* tp * cp * pp, tp * cp */
    int64_t worst_ns, total_ns;
    int64_t state_bytes; /* least a rank must hold on average, nothing sharded but the optimizer */
    int64_t optim_bytes, saved_bytes, grad_bytes;
    bool is_light; /* fits with room to spare whatever the others do: bytes need no comparison */
};

struct choices {
    struct choice *at;
    int32_t n;
};

struct walk {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    struct choices branch[CS_SEARCH_MAX_BRANCHES];
    bool is_blind;
    int32_t keep, dp, slots;
    enum cs_search_modality modality;
    const struct choice *pick[CS_SEARCH_MAX_BRANCHES];
    struct cs_enumeration *out;
    int64_t order;
    int64_t bound; /* of n_scored: every dp has its share */
};

int64_t cs_search_layer_ns(const struct cs_search_layer *layer, bool is_blind)
{
    return is_blind ? layer->blind_ns
                    : layer->fwd_ns + layer->bwd_input_ns + layer->bwd_weight_ns + layer->redo_ns;
}

/* worst[k] = smallest bottleneck of all layers on k stages, k = 1 .. max */
static void bottlenecks(const struct cs_search_layer *layer, int32_t n, int32_t max, bool is_blind,
                        struct cs_arena *arena, int64_t *worst)
{
    int64_t *sum = CS_NEW_ARRAY(arena, int64_t, n + 1);
    int64_t *best = CS_NEW_ARRAY(arena, int64_t, n + 1);
    for (int32_t i = 0; i < n; i++)
        sum[i + 1] = sum[i] + cs_search_layer_ns(&layer[i], is_blind);
    memcpy(best, sum, ((size_t)n + 1) * sizeof(int64_t));
    worst[1] = best[n];
    for (int32_t k = 2; k <= max; k++) {
        int32_t i = n - 1;
        /* best is ascending and the cut moves left with the end: one sweep */
        for (int32_t j = n; j >= k; j--) {
            i = i < j - 1 ? i : j - 1;
            while (i > k - 1 && best[i] > sum[j] - sum[i])
                i--;
            int64_t low = best[i] > sum[j] - sum[i] ? best[i] : sum[j] - sum[i];
            if (i + 1 < j) {
                int64_t high =
                    best[i + 1] > sum[j] - sum[i + 1] ? best[i + 1] : sum[j] - sum[i + 1];
                low = high < low ? high : low;
            }
            best[j] = low;
        }
        worst[k] = best[n];
    }
}

/* every count up to 16, then in growing steps: neighbours differ by little there */
static bool is_tried(int32_t pp)
{
    return pp <= 16 || (pp <= 32 && pp % 2 == 0) || pp % 8 == 0;
}

static bool is_allowed(const struct walk *w, int32_t branch, const struct cs_search_option *o)
{
    const struct cs_search_options *options = w->options;
    if (options->fix[branch].tp > 0 && options->fix[branch].tp != o->tp)
        return false;
    if (options->fix[branch].cp > 0 && options->fix[branch].cp != o->cp)
        return false;
    return (options->recomputes >> o->recompute & 1) != 0;
}

/* twice the average stage, with as many slots in flight as a pipeline of max_pp asks for */
static bool is_light(const struct walk *w, const struct choice *c, int32_t pp)
{
    double slots = pp + w->options->max_pp;
    slots = slots < w->options->batch_slots ? slots : w->options->batch_slots;
    double bytes = (double)c->state_bytes + (double)c->optim_bytes + slots * (double)c->saved_bytes;
    return w->problem->mem_bytes <= 0 || 2 * bytes / pp < 0.75 * (double)w->problem->mem_bytes;
}

static void add_choices(struct walk *w, int32_t b, int16_t o, struct cs_arena *arena)
{
    const struct cs_search_branch *branch = &w->problem->branch[b];
    const struct cs_search_option *option = &branch->option[o];
    int32_t max = branch->n_layers < w->options->max_pp ? branch->n_layers : w->options->max_pp;
    int32_t fixed = w->options->fix[b].pp;
    max = fixed > max && fixed <= branch->n_layers ? fixed : max;
    int64_t *worst = CS_NEW_ARRAY(arena, int64_t, max + 1);
    struct choice sum = {.option = o, .block = option->tp * option->cp};
    bottlenecks(option->layer, branch->n_layers, max, w->is_blind, arena, worst);
    for (int32_t i = 0; i < branch->n_layers; i++) {
        const struct cs_search_layer *l = &option->layer[i];
        sum.total_ns += cs_search_layer_ns(l, w->is_blind);
        sum.state_bytes += l->weight_bytes + l->grad_bytes;
        sum.optim_bytes += l->optim_bytes;
        sum.saved_bytes += l->saved_bytes;
        sum.grad_bytes += l->grad_bytes;
    }
    for (int32_t pp = 1; pp <= max; pp++) {
        if (fixed > 0 ? pp != fixed : !is_tried(pp))
            continue;
        sum.pp = (int16_t)pp;
        sum.ranks = pp * sum.block;
        sum.worst_ns = worst[pp];
        sum.is_light = is_light(w, &sum, pp);
        if (sum.ranks <= w->problem->n_ranks)
            w->branch[b].at[w->branch[b].n++] = sum;
    }
}

static bool beats(const struct choice *a, const struct choice *b)
{
    if (a->ranks > b->ranks || a->worst_ns > b->worst_ns || a->total_ns > b->total_ns)
        return false;
    return a->is_light ||
           (a->state_bytes * b->pp <= b->state_bytes * a->pp &&
            a->optim_bytes * b->pp <= b->optim_bytes * a->pp && a->saved_bytes <= b->saved_bytes);
}

/* Drop what another choice beats in ranks, time and bytes; where there is little to do, nothing. */
static void prune(struct walk *w)
{
    double cross = 1;
    for (int32_t b = 0; b < w->problem->n_branches; b++)
        cross *= w->branch[b].n;
    if (cross <= MAX_CROSS / 32.0)
        return;
    for (int32_t b = 0; b < w->problem->n_branches; b++) {
        struct choices *c = &w->branch[b];
        int32_t n = 0;
        for (int32_t i = 0; i < c->n; i++) {
            bool is_beaten = false;
            for (int32_t k = 0; k < n && !is_beaten; k++)
                is_beaten = beats(&c->at[k], &c->at[i]);
            for (int32_t k = i + 1; k < c->n && !is_beaten; k++)
                is_beaten = beats(&c->at[k], &c->at[i]) && !beats(&c->at[i], &c->at[k]);
            if (!is_beaten)
                c->at[n++] = c->at[i];
        }
        c->n = n;
    }
}

static enum cs_status make_choices(struct walk *w, struct cs_arena *arena, struct cs_err *err)
{
    for (int32_t b = 0; b < w->problem->n_branches; b++) {
        const struct cs_search_branch *branch = &w->problem->branch[b];
        int64_t room = (int64_t)branch->n_options * (branch->n_layers + 1);
        w->branch[b].at = CS_NEW_ARRAY(arena, struct choice, room);
        for (int16_t o = 0; o < branch->n_options; o++)
            if (is_allowed(w, b, &branch->option[o]))
                add_choices(w, b, o, arena);
        if (w->branch[b].n == 0)
            return cs_fail(err, CS_PLAN,
                           "no layout of %s is possible: tp %d, cp %d, pp %d as asked (0: free) on "
                           "%d ranks, with %d layers; ask for others",
                           branch->name, w->options->fix[b].tp, w->options->fix[b].cp,
                           w->options->fix[b].pp, w->problem->n_ranks, branch->n_layers);
    }
    prune(w);
    return CS_OK;
}

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

/* of the branches from `first` on: a lower bound of what more branches make of it */
static int64_t score(const struct walk *w, int32_t first)
{
    int32_t llm = w->problem->n_branches - 1;
    const struct choice *l = w->pick[llm];
    int64_t worst = l->worst_ns, chain = 0, shared = 0, slots = w->slots;
    for (int32_t b = first; b < llm; b++) {
        const struct choice *e = w->pick[b];
        worst = w->modality == CS_SEARCH_PARALLEL && e->worst_ns > worst ? e->worst_ns : worst;
        chain = e->total_ns > chain ? e->total_ns : chain;
        shared += e->total_ns;
    }
    if (w->modality == CS_SEARCH_COLOCATED)
        return (slots - 1) * worst + l->total_ns + (slots + l->pp - 1) / l->pp * shared;
    if (w->modality == CS_SEARCH_REPLICATED)
        return (slots - 1) * (worst + shared) + l->total_ns + l->pp * shared;
    return (slots - 1) * worst + chain + l->total_ns;
}

static int64_t sync_ns(const struct walk *w)
{
    int64_t worst = 0;
    for (int32_t b = 0; b < w->problem->n_branches; b++) {
        const struct cs_search_option *o = &w->problem->branch[b].option[w->pick[b]->option];
        bool leaves = (int64_t)w->dp * o->cp * o->tp > w->problem->ranks_per_node;
        int64_t ns = cs_ring_ns(w->dp * o->cp, w->pick[b]->grad_bytes / w->pick[b]->pp,
                                leaves ? w->problem->net_bytes_per_s : w->problem->link_bytes_per_s,
                                leaves ? w->problem->net_latency_ns : w->problem->link_latency_ns);
        worst = ns > worst ? ns : worst;
    }
    return worst;
}

/* average over the stages: if that does not fit, no cut does */
static int64_t average_bytes(const struct walk *w, int32_t b)
{
    const struct choice *c = w->pick[b];
    int32_t shards = w->dp * w->problem->branch[b].option[c->option].cp;
    int64_t optim = w->options->no_zero ? c->optim_bytes : c->optim_bytes / shards;
    return (c->state_bytes + optim + c->saved_bytes + c->pp - 1) / c->pp;
}

static bool may_fit(const struct walk *w, int32_t b)
{
    int64_t bytes = average_bytes(w, b);
    if (w->problem->mem_bytes <= 0 || bytes <= w->problem->mem_bytes)
        return true;
    w->out->n_pruned++;
    if (w->out->least_bytes == 0 || bytes < w->out->least_bytes) {
        w->out->least_bytes = bytes;
        w->out->least_branch = b;
        w->out->least_ranks = w->pick[b]->ranks;
    }
    return false;
}

static void finish(struct walk *w, int32_t ranks)
{
    struct cs_candidate c = {.dp = w->dp,
                             .n_ranks = ranks * w->dp,
                             .modality = (uint8_t)w->modality,
                             .is_blind = w->is_blind,
                             .order = w->order++};
    w->out->n_scored++;
    for (int32_t b = 0; b < w->problem->n_branches; b++) {
        c.option[b] = w->pick[b]->option;
        c.pp[b] = w->pick[b]->pp;
    }
    c.score_ns = score(w, 0) + sync_ns(w);
    offer(w, &c);
}

static void pick_branch(struct walk *w, int32_t b, int32_t ranks);

static void pick_choice(struct walk *w, int32_t b, const struct choice *c, int32_t ranks)
{
    bool is_own = w->modality == CS_SEARCH_PARALLEL || b == w->problem->n_branches - 1;
    int64_t total = ranks + (int64_t)(is_own ? c->ranks : 0);
    if (total * w->dp > w->problem->n_ranks)
        return;
    w->pick[b] = c;
    if (is_own && !may_fit(w, b))
        return;
    if (w->out->n == w->keep && score(w, b) > w->out->best[w->keep - 1].score_ns)
        return; /* no better than what is kept */
    pick_branch(w, b - 1, (int32_t)total);
}

/* the LLM first: colocated encoders take its tp and cp */
static void pick_branch(struct walk *w, int32_t b, int32_t ranks)
{
    int32_t llm = w->problem->n_branches - 1;
    if (w->out->n_scored >= w->bound)
        return;
    if (b < 0) {
        finish(w, ranks);
        return;
    }
    for (int32_t i = 0; i < w->branch[b].n; i++) {
        const struct choice *c = &w->branch[b].at[i];
        if (w->modality != CS_SEARCH_PARALLEL && b != llm) {
            const struct cs_search_option *own = &w->problem->branch[b].option[c->option];
            const struct cs_search_option *its =
                &w->problem->branch[llm].option[w->pick[llm]->option];
            int32_t first = w->options->fix[b].pp > 0 ? w->options->fix[b].pp : 1;
            if (c->pp != first || own->tp != its->tp || own->cp != its->cp)
                continue;
        }
        pick_choice(w, b, c, ranks);
    }
}

enum cs_status cs_search_enumerate(const struct cs_search_problem *problem,
                                   const struct cs_search_options *options, bool is_blind,
                                   int32_t keep, struct cs_arena *arena, struct cs_enumeration *out,
                                   struct cs_err *err)
{
    struct walk w = {
        .problem = problem, .options = options, .is_blind = is_blind, .keep = keep, .out = out};
    *out = (struct cs_enumeration){.best = CS_NEW_ARRAY(arena, struct cs_candidate, keep + 1)};
    CS_TRY(make_choices(&w, arena, err));
    int32_t most =
        problem->n_ranks < options->batch_slots ? problem->n_ranks : options->batch_slots;
    /* many replicas first: where there are ranks for them they win, and bound the rest */
    for (int32_t dp = most; dp >= 1; dp--) {
        if (options->dp > 0 ? dp != options->dp : options->batch_slots % dp != 0)
            continue;
        w.dp = dp;
        w.bound = out->n_scored + options->max_scored / 16;
        w.slots = (options->batch_slots + dp - 1) / dp;
        for (int m = 0; m < CS_SEARCH_MODALITIES; m++) {
            w.modality = (enum cs_search_modality)m;
            /* a model without encoders has one modality */
            if ((options->modalities >> m & 1) != 0 && (problem->n_branches > 1 || m == 0))
                pick_branch(&w, problem->n_branches - 1, 0);
        }
    }
    return CS_OK;
}
