/* The generators by the rows of the table of schedules. */
#include "core/sched/orders/generator.h"

static const struct cs_generator *const generators[CS_SCHEDULES] = {
#define X(id, name, layout, live, splits, encodes_all, takes, is_usual, help)                      \
    [CS_SCHEDULE_##id] = &cs_generator_##id,
    CS_SCHEDULES_TABLE(X)
#undef X
};

enum cs_status cs_orders_make(struct cs_pipeline *pipeline, struct cs_arena *arena,
                              struct cs_order **out, struct cs_err *err)
{
    const struct cs_schedule_info *info = NULL;
    CS_TRY(cs_plan_schedule_find(pipeline->plan->schedule, &info, err));
    const struct cs_generator *generator = generators[info->id];
    if (generator->prepare != NULL)
        CS_TRY(generator->prepare(pipeline, arena, err));
    *out = CS_NEW_ARRAY(arena, struct cs_order, pipeline->n_ranks + 1);
    for (int32_t r = 0; r < pipeline->n_ranks; r++) {
        cs_order_init(pipeline, r, arena, &(*out)[r]);
        generator->order(pipeline, r, &(*out)[r]);
    }
    return CS_OK;
}
