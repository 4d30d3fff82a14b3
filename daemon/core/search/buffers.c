/* Counts buffers by the orders of a plan, of plans that are alike once. */
#include "core/search/buffers.h"

#include <string.h>

#include "core/base/hash.h"

enum { BUCKETS = 1 << 10 };

/* Plans that are alike, by all that their orders and the proof over them ask. */
struct kind {
    const struct kind *next;
    const int32_t *word;
    int32_t n_words;
    const int32_t *n_buffers,
        *more; /* (n_edges, 2) of the slots that have orders; of every period after them */
};

struct cs_known_buffers {
    struct cs_arena *arena;
    const struct kind *bucket[BUCKETS];
};

struct cs_known_buffers *cs_known_buffers_new(struct cs_arena *arena)
{
    struct cs_known_buffers *known = CS_NEW(arena, struct cs_known_buffers);
    known->arena = arena;
    return known;
}

/* ---- what a plan is like ---- */

struct words {
    int32_t *at, n;
};

static void add(struct words *w, int32_t word)
{
    w->at[w->n++] = word;
}

static bool repeats(struct cs_buffer_slots of)
{
    return of.slots > of.enough + of.period;
}

/* slots that have orders */
static int32_t ordered(struct cs_buffer_slots of)
{
    return repeats(of) ? of.enough + of.period : of.slots;
}

static void describe_stage(const struct cs_plan *plan, int32_t s, struct words *w)
{
    const struct cs_stage *stage = &plan->stages[s];
    const struct cs_slot_share share =
        plan->share != NULL ? plan->share[s] : (struct cs_slot_share){0, 0};
    add(w, stage->branch);
    add(w, stage->index);
    add(w, stage->rank);
    add(w, stage->copies);
    add(w, share.n);
    add(w, share.at);
    add(w, stage->has_backward | stage->needs_input_grad << 1 | (stage->bwd_input_ns > 0) << 2 |
               (stage->bwd_weight_ns > 0) << 3);
}

/* (branches) with rows between stages of other widths (cs_plan_is_uneven) */
static bool *find_uneven(const struct cs_plan *plan, struct cs_arena *scratch)
{
    bool *is_uneven = CS_NEW_ARRAY(scratch, bool, plan->stages[plan->head_stage].branch + 1);
    for (int32_t e = 0; e < plan->n_edges; e++)
        if (cs_plan_widths_differ(plan, e))
            is_uneven[plan->stages[plan->edges[e].from].branch] = true;
    return is_uneven;
}

static struct words describe(const struct cs_plan *plan, struct cs_buffer_slots slots,
                             struct cs_arena *scratch)
{
    enum { OF_PLAN = 6, OF_STAGE = 7, OF_EDGE = 4 };

    const struct cs_schedule_info *schedule = NULL;
    struct words w = {
        .at = CS_NEW_ARRAY(scratch, int32_t,
                           OF_PLAN + OF_STAGE * plan->n_stages + OF_EDGE * plan->n_edges)};
    add(&w, cs_plan_schedule_find(plan->schedule, &schedule, NULL) == CS_OK ? (int32_t)schedule->id
                                                                            : -1);
    add(&w, plan->n_ranks);
    add(&w, plan->n_stages);
    add(&w, plan->head_stage);
    add(&w, ordered(slots));
    add(&w, repeats(slots) ? slots.period : 0);
    for (int32_t s = 0; s < plan->n_stages; s++)
        describe_stage(plan, s, &w);
    const bool *is_uneven = find_uneven(plan, scratch);
    for (int32_t e = 0; e < plan->n_edges; e++) {
        add(&w, is_uneven[plan->stages[plan->edges[e].from].branch]);
        add(&w, plan->edges[e].from);
        add(&w, plan->edges[e].to);
        add(&w, plan->edges[e].has_grad);
    }
    return w;
}

static const struct kind **bucket_of(struct cs_known_buffers *known, const struct words *w)
{
    return &known->bucket[cs_fnv1a64(w->at, (size_t)w->n * sizeof *w->at) % BUCKETS];
}

static const struct kind *find(struct cs_known_buffers *known, const struct words *w)
{
    const struct kind *k = *bucket_of(known, w);
    while (k != NULL &&
           (k->n_words != w->n || memcmp(k->word, w->at, (size_t)w->n * sizeof *w->at) != 0))
        k = k->next;
    return k;
}

static void remember(struct cs_known_buffers *known, const struct words *w, struct kind *kind)
{
    const struct kind **bucket = bucket_of(known, w);
    int32_t *word = CS_NEW_ARRAY(known->arena, int32_t, w->n);
    memcpy(word, w->at, (size_t)w->n * sizeof *word);
    kind->word = word;
    kind->n_words = w->n;
    kind->next = *bucket;
    *bucket = kind;
}

/* ---- its buffers ---- */

static enum cs_status count(const struct cs_plan *plan, struct cs_buffer_slots of,
                            struct cs_arena *arena, struct cs_arena *scratch, struct kind *out,
                            struct cs_err *err)
{
    const int32_t n = 2 * plan->n_edges;
    int64_t *kept = CS_NEW_ARRAY(scratch, int64_t, plan->n_ranks + 1);
    int32_t *n_buffers = CS_NEW_ARRAY(arena, int32_t, n + 1),
            *more = CS_NEW_ARRAY(arena, int32_t, n + 1);
    out->n_buffers = n_buffers;
    out->more = more;
    CS_TRY(cs_orders_kept(plan, ordered(of), NULL, kept, n_buffers, err));
    if (!repeats(of))
        return CS_OK;
    CS_TRY(cs_orders_kept(plan, of.enough, NULL, kept, more, err));
    for (int32_t i = 0; i < n; i++)
        more[i] = n_buffers[i] - more[i];
    return CS_OK;
}

enum cs_status cs_search_buffers(struct cs_known_buffers *known, const struct cs_plan *plan,
                                 struct cs_buffer_slots slots, struct cs_arena *scratch,
                                 int32_t *n_buffers, struct cs_err *err)
{
    const struct words words = describe(plan, slots, scratch);
    const struct kind *alike = known != NULL ? find(known, &words) : NULL;
    /* what is left over counts as a period */
    const int32_t periods = (slots.slots - ordered(slots) + slots.period - 1) / slots.period;
    if (alike == NULL) {
        struct cs_arena *arena = known != NULL ? known->arena : scratch;
        struct kind *own = CS_NEW(arena, struct kind);
        CS_TRY(count(plan, slots, arena, scratch, own, err));
        if (known != NULL)
            remember(known, &words, own);
        alike = own;
    }
    for (int32_t i = 0; i < 2 * plan->n_edges; i++)
        n_buffers[i] = alike->n_buffers[i] + periods * alike->more[i];
    return CS_OK;
}
