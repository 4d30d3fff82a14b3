/* Walks along the orders of a schedule with what stages keep. */
#include "core/sched/orders/kept.h"

#include "core/sched/orders/generator.h"

static struct cs_kept_order items_of(const struct cs_order *order, struct cs_arena *scratch)
{
    struct cs_kept_item *item = CS_NEW_ARRAY(scratch, struct cs_kept_item, (size_t)order->n + 1);
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_order_item *x = &order->item[i];
        item[i] = (struct cs_kept_item){x->op, x->stage, x->slot};
    }
    return (struct cs_kept_order){item, order->n};
}

static enum cs_status count(const struct cs_plan *plan, int32_t n_slots, const int64_t *held,
                            struct cs_arena *scratch, int64_t *kept, int32_t *n_buffers,
                            struct cs_err *err)
{
    const struct cs_program_options options = {.n_slots = n_slots, .share = plan->share};
    const struct cs_kept_of of =
        cs_kept_of_make(plan, cs_traits_make(plan, false, plan->share, scratch), held, scratch);
    struct cs_kept_order *items = CS_NEW_ARRAY(scratch, struct cs_kept_order, plan->n_ranks + 1);
    struct cs_pipeline pipeline;
    struct cs_order *order = NULL;
    cs_pipeline_init(plan, &options, of.traits, scratch, &pipeline);
    CS_TRY(cs_orders_make(&pipeline, scratch, &order, err));
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        items[r] = items_of(&order[r], scratch);
        kept[r] = cs_kept_most(&of, &items[r], NULL);
    }
    const struct cs_buffers buffers = cs_buffers_make(plan, items, n_slots, scratch);
    cs_buffers_count(&buffers, n_buffers);
    return CS_OK;
}

enum cs_status cs_orders_kept(const struct cs_plan *plan, int32_t n_slots, const int64_t *held,
                              int64_t *kept, int32_t *n_buffers, struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    enum cs_status status = count(plan, n_slots, held, scratch, kept, n_buffers, err);
    cs_arena_free(scratch);
    return status;
}
