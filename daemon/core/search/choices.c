/* Lists the ways one branch can be laid out, and drops those that others beat in all respects. */
#include "core/search/choices.h"
#include "core/base/buf.h"
#include "core/base/units.h"

#include <string.h>

enum { MAX_CROSS = 1 << 15, ROOM_PARTS = 240 /* what divides by every ratio */ };

struct maker {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    const struct cs_planner_rules *rules;
    struct cs_arena *arena;
    struct cs_choices *out;
    int32_t branch;
};

/* worst[k] = smallest bottleneck of all layers on k stages, k = 1 .. max */
static void bottlenecks(const struct cs_search_layer *layer, int32_t n, int32_t max,
                        enum cs_search_cut cut, struct cs_arena *arena, int64_t *worst)
{
    int64_t *sum = CS_NEW_ARRAY(arena, int64_t, n + 1);
    int64_t *best = CS_NEW_ARRAY(arena, int64_t, n + 1);
    for (int32_t i = 0; i < n; i++)
        sum[i + 1] = sum[i] + cs_search_layer_ns(&layer[i], cut);
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

static bool is_llm(const struct maker *m)
{
    return m->branch == m->problem->llm;
}

static bool is_allowed(const struct maker *m, const struct cs_search_option *o)
{
    const struct cs_search_options *options = m->options;
    int32_t b = m->branch;
    if (options->fix[b].tp > 0 && options->fix[b].tp != o->tp)
        return false;
    if (options->fix[b].cp > 0 ? options->fix[b].cp != o->cp : !m->rules->has_cp && o->cp > 1)
        return false;
    if (options->fix[b].sp > 0 ? options->fix[b].sp != 1 + o->sp : o->is_slower)
        return false;
    const int32_t ep = o->ep > 1 ? o->ep : 1;
    if (options->fix[b].ep > 0 ? options->fix[b].ep != ep : !m->rules->has_cp && ep > 1)
        return false;
    if (!options->may_leave_node && o->tp * o->cp > m->problem->ranks_per_node)
        return false;
    if (options->fix[b].recompute > 0 && options->fix[b].recompute != 1 + (int32_t)o->recompute)
        return false;
    return (options->recomputes >> o->recompute & 1) != 0;
}

static bool may_place(const struct maker *m, enum cs_placement place)
{
    int32_t fixed = m->options->fix[m->branch].place;
    if (is_llm(m))
        return place == CS_PLACE_OWN;
    if (fixed > 0)
        return place == (enum cs_placement)(fixed - 1);
    if (m->rules->is_own_only)
        return place == CS_PLACE_OWN;
    bool mixes = (m->options->modalities >> CS_SEARCH_MIXED & 1) != 0;
    bool is_asked = (m->options->modalities >> place & 1) != 0;
    /* a mixture takes replicated encoders only where they are asked for: they are a baseline */
    return is_asked || (mixes && place != CS_PLACE_REPLICATED);
}

/* twice the average stage, with as many slots in flight as a pipeline of max_pp asks for */
static bool is_light(const struct maker *m, const struct cs_choice *c)
{
    double slots = c->pp + m->options->max_pp;
    slots = slots < m->options->batch_slots ? slots : m->options->batch_slots;
    double bytes = (double)c->weight_bytes + (double)c->grad_bytes + (double)c->optim_bytes +
                   slots * (double)c->saved_bytes;
    return m->problem->mem_bytes <= 0 || 2 * bytes / c->pp < 0.75 * (double)m->problem->mem_bytes;
}

static void add(struct maker *m, struct cs_choice c)
{
    c.is_light = is_light(m, &c);
    if (c.ranks <= m->problem->n_ranks)
        m->out->at[m->out->n++] = c;
}

static bool may_have_ratio(const struct maker *m, struct cs_search_ratio ratio)
{
    const struct cs_search_branch *branch = &m->problem->branch[m->branch];
    if (ratio.times == ratio.over)
        return true;
    if (is_llm(m) || m->rules->has_one_dp || m->options->has_one_dp)
        return false;
    return cs_search_tries_ratio(ratio, m->problem->n_ranks) &&
           (ratio.times == 1 || ratio.times <= ratio.over * branch->n_items);
}

/* with ranks of its own: every dp that the rules allow */
static void add_own(struct maker *m, struct cs_choice c)
{
    const struct cs_search_branch *branch = &m->problem->branch[m->branch];
    for (int r = 0; r < CS_SEARCH_RATIOS; r++) {
        const struct cs_search_ratio ratio = cs_search_ratio[r];
        if (!may_have_ratio(m, ratio))
            continue;
        struct cs_share share = cs_share_of(branch, ratio.times, ratio.over);
        struct cs_choice own = c;
        own.ratio = ratio;
        own.room = (int64_t)c.ranks * ROOM_PARTS * ratio.times / ratio.over;
        own.worst_ns = cs_share_ns(share, c.worst_ns);
        own.total_ns = cs_share_ns(share, c.total_ns);
        own.saved_bytes = c.saved_bytes * cs_item_slots(ratio.over, branch->option[c.option].cp);
        add(m, own);
    }
}

static struct cs_choice sum_layers(const struct maker *m, int16_t o)
{
    const struct cs_search_branch *branch = &m->problem->branch[m->branch];
    const struct cs_search_option *option = &branch->option[o];
    struct cs_choice sum = {.option = o, .block = option->tp * option->cp};
    for (int32_t i = 0; i < branch->n_layers; i++) {
        const struct cs_search_layer *l = &option->layer[i];
        sum.total_ns += cs_search_layer_ns(l, m->rules->cut);
        sum.weight_bytes += l->weight_bytes;
        sum.grad_bytes += l->grad_bytes;
        sum.optim_bytes += l->optim_bytes;
        sum.saved_bytes += l->saved_bytes;
        sum.has_backward = sum.has_backward || l->bwd_input_ns + l->bwd_weight_ns > 0;
    }
    return sum;
}

/* all layers on one rank: a tied table is there once */
static struct cs_choice on_one_rank(const struct maker *m, struct cs_choice sum)
{
    const struct cs_search_layer *shared = &m->problem->branch[m->branch].option[sum.option].shared;
    sum.weight_bytes -= shared->weight_bytes;
    sum.grad_bytes -= shared->grad_bytes;
    sum.optim_bytes -= shared->optim_bytes;
    return sum;
}

static void add_option(struct maker *m, int16_t o)
{
    const struct cs_search_branch *branch = &m->problem->branch[m->branch];
    const struct cs_search_options *options = m->options;
    int32_t max = branch->n_layers < options->max_pp ? branch->n_layers : options->max_pp;
    int32_t fixed = options->fix[m->branch].pp;
    struct cs_choice sum = sum_layers(m, o);
    max = fixed > max && fixed <= branch->n_layers ? fixed : max;
    int64_t *worst = CS_NEW_ARRAY(m->arena, int64_t, max + 1);
    bottlenecks(branch->option[o].layer, branch->n_layers, max, m->rules->cut, m->arena, worst);
    for (int32_t pp = 1; pp <= max; pp++) {
        if (fixed > 0 ? pp != fixed : !is_tried(pp))
            continue;
        sum.pp = (int16_t)pp;
        sum.ranks = pp * sum.block;
        sum.worst_ns = m->rules->uses_means ? sum.total_ns / pp : worst[pp];
        if (may_place(m, CS_PLACE_OWN))
            add_own(m, pp == 1 ? on_one_rank(m, sum) : sum);
    }
    sum.pp = 1;
    sum.ranks = sum.block;
    sum.worst_ns = sum.total_ns;
    for (int p = CS_PLACE_COLOCATED; p < CS_SEARCHED_PLACEMENTS; p++) {
        sum.place = (uint8_t)p;
        if (fixed <= 1 && may_place(m, (enum cs_placement)p))
            add(m, sum);
    }
}

static bool beats(const struct cs_choice *a, const struct cs_choice *b)
{
    if (a->place != b->place || a->place != CS_PLACE_OWN)
        return false;
    if (a->room > b->room || a->worst_ns > b->worst_ns || a->total_ns > b->total_ns)
        return false;
    return a->is_light ||
           ((a->weight_bytes + a->grad_bytes) * b->pp <=
                (b->weight_bytes + b->grad_bytes) * a->pp &&
            a->optim_bytes * b->pp <= b->optim_bytes * a->pp && a->saved_bytes <= b->saved_bytes);
}

/* Drop what another choice beats in ranks, time and bytes. */
static void prune(struct cs_choices *c)
{
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

static enum cs_status refuse(const struct maker *m, struct cs_err *err)
{
    const struct cs_search_branch *branch = &m->problem->branch[m->branch];
    const int32_t b = m->branch;

    const struct {
        const char *key;
        int32_t asked;
    } of[] = {
        {"tp", m->options->fix[b].tp},
        {"cp", m->options->fix[b].cp},
        {"pp", m->options->fix[b].pp},
        {"ep", m->options->fix[b].ep},
    };

    static const char *const sp[] = {NULL, "sp = false", "sp = true"};
    struct cs_buf asked = {0};
    for (size_t i = 0; i < CS_ARRAY_LEN(of); i++)
        if (of[i].asked > 0)
            cs_buf_addf(&asked, "%s%s = %d", asked.len > 0 ? ", " : " with ", of[i].key,
                        of[i].asked);
    if (sp[m->options->fix[b].sp] != NULL)
        cs_buf_addf(&asked, "%s%s", asked.len > 0 ? ", " : " with ", sp[m->options->fix[b].sp]);
    const enum cs_status status =
        cs_fail(err, CS_PLAN,
                "no layout of %s is possible%s on %d rank%s: the search looks at tp and cp of any "
                "number on few ranks, else of 1, 2, 4, ..., of what divides the ranks of a node "
                "and of what is asked for, of which tp divides heads and widths, and at up to %d "
                "stage%s, one a layer; ask for others",
                branch->name, cs_buf_str(&asked), m->problem->n_ranks,
                CS_PLURAL(m->problem->n_ranks), branch->n_layers, CS_PLURAL(branch->n_layers));
    cs_buf_free(&asked);
    return status;
}

enum cs_status cs_choices_make(const struct cs_search_problem *problem,
                               const struct cs_search_options *options, struct cs_arena *arena,
                               struct cs_choices *out, bool *is_small, struct cs_err *err)
{
    struct maker m = {.problem = problem,
                      .options = options,
                      .rules = &cs_planner_rules[options->planner],
                      .arena = arena};
    double cross = 1;
    for (int32_t b = 0; b < problem->n_branches; b++) {
        const struct cs_search_branch *branch = &problem->branch[b];
        int64_t room = 0;
        m.branch = b;
        m.out = &out[b];
        for (int32_t o = 0; o < branch->n_options; o++)
            if (is_allowed(&m, &branch->option[o]))
                room += (int64_t)CS_SEARCH_RATIOS * branch->n_layers + CS_SEARCHED_PLACEMENTS;
        *m.out = (struct cs_choices){.at = CS_NEW_ARRAY(arena, struct cs_choice, room)};
        for (int16_t o = 0; o < branch->n_options; o++)
            if (is_allowed(&m, &branch->option[o]))
                add_option(&m, o);
        if (m.out->n == 0)
            return refuse(&m, err);
        cross *= m.out->n;
    }
    *is_small = cross <= MAX_CROSS;
    for (int32_t b = 0; b < problem->n_branches && !*is_small; b++)
        prune(&out[b]);
    return CS_OK;
}
