/* Walks along the compute actions of a rank with what its stages keep. */
#include "core/sched/kept.h"

#include "core/plan/offload.h"

/* live: slots; sets: of these that are on the device at most, 0: all */
struct cs_kept_of cs_kept_of_make(const struct cs_plan *plan, const struct cs_stage_traits *traits,
                                  const int64_t *held, struct cs_arena *arena)
{
    return (struct cs_kept_of){plan, traits, held, CS_NEW_ARRAY(arena, int32_t, plan->n_stages + 1),
                               CS_NEW_ARRAY(arena, int32_t, plan->n_stages + 1)};
}

static int32_t live_change(const struct cs_kept_of *w, const struct cs_kept_item *x)
{
    const struct cs_action action = {.op = x->op};
    return cs_live_change(&w->traits[x->stage], &action);
}

/* A stage has as many sets as its slots that are alive at once ask for. */
static void count_sets(const struct cs_kept_of *w, const struct cs_kept_order *order)
{
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_kept_item *x = &order->item[i];
        if (x->stage < 0 || !w->plan->stages[x->stage].offloads)
            continue;
        w->live[x->stage] += live_change(w, x);
        if (w->live[x->stage] > w->sets[x->stage])
            w->sets[x->stage] = w->live[x->stage];
    }
    for (uint32_t i = 0; i < order->n; i++) { /* of each stage once: it is marked by -1 */
        const int32_t s = order->item[i].stage;
        if (s < 0 || w->live[s] < 0)
            continue;
        w->sets[s] = cs_offload_sets(w->sets[s]);
        w->live[s] = -1;
    }
}

/* no stage of the rank has a slot alive */
static void clear_live(const struct cs_kept_of *w, const struct cs_kept_order *order)
{
    for (uint32_t i = 0; i < order->n; i++)
        if (order->item[i].stage >= 0)
            w->live[order->item[i].stage] = 0;
}

static int32_t on_device(const struct cs_kept_of *w, int32_t stage)
{
    const int32_t live = w->live[stage], sets = w->sets[stage];
    return sets > 0 && sets < live ? sets : live;
}

static struct cs_kept_change visit(const struct cs_kept_of *w, const struct cs_kept_item *x)
{
    const struct cs_stage_traits *t = &w->traits[x->stage];
    const bool is_split = w->held != NULL && t->has_input_part && t->has_weight_part;
    const int64_t held = is_split ? w->held[x->stage] : 0;
    const int32_t before = on_device(w, x->stage);
    w->live[x->stage] += live_change(w, x);
    const int64_t saved = (on_device(w, x->stage) - before) * w->plan->stages[x->stage].saved_bytes;
    return (struct cs_kept_change){
        .taken = (saved > 0 ? saved : 0) + (x->op == CS_OP_BWD_INPUT ? held : 0),
        .released = (saved < 0 ? -saved : 0) + (x->op == CS_OP_BWD_WEIGHT ? held : 0)};
}

int64_t cs_kept_most(const struct cs_kept_of *of, const struct cs_kept_order *order,
                     struct cs_kept_change *change)
{
    int64_t now = 0, most = 0;
    count_sets(of, order);
    clear_live(of, order);
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_kept_item *item = &order->item[i];
        const struct cs_kept_change x =
            item->stage < 0 ? (struct cs_kept_change){0, 0} : visit(of, item);
        if (change != NULL)
            change[i] = x;
        now += x.taken;
        most = now > most ? now : most;
        now -= x.released;
    }
    clear_live(of, order);
    for (uint32_t i = 0; i < order->n; i++)
        if (order->item[i].stage >= 0)
            of->sets[order->item[i].stage] = 0;
    return most;
}
