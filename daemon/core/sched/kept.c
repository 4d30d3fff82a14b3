/* Walks along the compute actions of a rank with what its stages keep. */
#include "core/sched/kept.h"

#include "core/plan/offload.h"

struct walk {
    const struct cs_kept_of *of;
    int32_t *live; /* (n_stages) slots */
    int32_t *sets; /* (n_stages) of these that are on the device at most, 0: all */
};

static int32_t live_change(const struct walk *w, const struct cs_kept_item *x)
{
    const struct cs_action action = {.op = x->op};
    return cs_live_change(&w->of->traits[x->stage], &action);
}

/* A stage has as many sets as its slots that are alive at once ask for. */
static void count_sets(struct walk *w, const struct cs_kept_item *item, uint32_t n)
{
    const struct cs_stage *stages = w->of->plan->stages;
    for (uint32_t i = 0; i < n; i++) {
        if (item[i].stage < 0 || !stages[item[i].stage].offloads)
            continue;
        int32_t *live = &w->live[item[i].stage], *most = &w->sets[item[i].stage];
        *live += live_change(w, &item[i]);
        *most = *live > *most ? *live : *most;
    }
    for (int32_t s = 0; s < w->of->plan->n_stages; s++) {
        w->sets[s] = cs_offload_sets(w->sets[s]);
        w->live[s] = 0;
    }
}

static int32_t on_device(const struct walk *w, int32_t stage)
{
    const int32_t live = w->live[stage], sets = w->sets[stage];
    return sets > 0 && sets < live ? sets : live;
}

static struct cs_kept_change visit(struct walk *w, const struct cs_kept_item *x)
{
    const struct cs_stage_traits *t = &w->of->traits[x->stage];
    const bool is_split = w->of->held != NULL && t->has_input_part && t->has_weight_part;
    const int64_t held = is_split ? w->of->held[x->stage] : 0;
    const int32_t before = on_device(w, x->stage);
    w->live[x->stage] += live_change(w, x);
    const int64_t saved =
        (on_device(w, x->stage) - before) * w->of->plan->stages[x->stage].saved_bytes;
    return (struct cs_kept_change){
        .taken = (saved > 0 ? saved : 0) + (x->op == CS_OP_BWD_INPUT ? held : 0),
        .released = (saved < 0 ? -saved : 0) + (x->op == CS_OP_BWD_WEIGHT ? held : 0)};
}

int64_t cs_kept_most(const struct cs_kept_of *of, const struct cs_kept_item *item, uint32_t n,
                     struct cs_kept_change *change, struct cs_arena *scratch)
{
    struct walk w = {.of = of,
                     .live = CS_NEW_ARRAY(scratch, int32_t, of->plan->n_stages + 1),
                     .sets = CS_NEW_ARRAY(scratch, int32_t, of->plan->n_stages + 1)};
    int64_t now = 0, most = 0;
    count_sets(&w, item, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct cs_kept_change x =
            item[i].stage < 0 ? (struct cs_kept_change){0, 0} : visit(&w, &item[i]);
        if (change != NULL)
            change[i] = x;
        now += x.taken;
        most = now > most ? now : most;
        now -= x.released;
    }
    return most;
}
