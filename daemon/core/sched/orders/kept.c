/* Walks along the orders of a schedule with what stages keep. */
#include "core/sched/orders/kept.h"

#include "core/sched/orders/generator.h"

static int64_t most_of(const struct cs_kept_of *of, const struct cs_order *order,
                       struct cs_arena *scratch)
{
    struct cs_kept_item *item = CS_NEW_ARRAY(scratch, struct cs_kept_item, (size_t)order->n + 1);
    for (uint32_t i = 0; i < order->n; i++)
        item[i] = (struct cs_kept_item){order->item[i].op, order->item[i].stage};
    return cs_kept_most(of, item, order->n, NULL, scratch);
}

static enum cs_status count(const struct cs_plan *plan, int32_t n_slots, const int64_t *held,
                            struct cs_arena *scratch, int64_t *kept, struct cs_err *err)
{
    const struct cs_program_options options = {.n_slots = n_slots, .share = plan->share};
    const struct cs_kept_of of = {plan, cs_traits_make(plan, false, plan->share, scratch), held};
    struct cs_pipeline pipeline;
    struct cs_order *order = NULL;
    cs_pipeline_init(plan, &options, of.traits, scratch, &pipeline);
    CS_TRY(cs_orders_make(&pipeline, scratch, &order, err));
    for (int32_t r = 0; r < plan->n_ranks; r++)
        kept[r] = most_of(&of, &order[r], scratch);
    return CS_OK;
}

enum cs_status cs_orders_kept(const struct cs_plan *plan, int32_t n_slots, const int64_t *held,
                              int64_t *kept, struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    enum cs_status status = count(plan, n_slots, held, scratch, kept, err);
    cs_arena_free(scratch);
    return status;
}
