/* Zero-bubble schedules: the backward is split, its input half I carries the gradient upstream, its
 * weight half W has no consumer but the optimizer and fills what would be bubbles. Source: ZB-H1
 * and ZB-H2 (Qi et al.). Over a graph the position of a rank is counted from the end of the longest
 * path, as in 1F1B. A stage with frozen weights has no W; one whose producers need no gradient, and
 * without trainable layers in a row, has no I.
 *
 * zb-h1       warm-up and memory of 1F1B: W of position s is s slots late, so that at most p slots
 *             are live on every rank; it catches up in the cool-down.
 * zb-h2       warm-up 2(p-s)-1, then F, I, W of one slot each in turn.
 * zb-h2-late  the same warm-up, then I before F and W up to 2s slots late: at most 2p-1 slots are
 *             live, and no rank waits between its first and last action when I, W and F weigh
 * alike.
 *
 * Where stages share ranks in a cycle every rank uses the warm-up of the first, see onef1b.c. */
#include "core/sched/orders/generator.h"

static int32_t depth_of(const struct cs_pipeline *p, int32_t rank)
{
    return p->is_cyclic ? p->longest_chain - 1 : p->node[rank].depth;
}

static int32_t position_of(const struct cs_pipeline *p, int32_t rank)
{
    return p->is_cyclic ? 0 : p->max_depth - p->node[rank].depth;
}

/* I(i), then the oldest W when more than `late` of them wait or nothing else is left to do */
static void input_then_weight(const struct cs_pipeline *p, int32_t rank, int32_t slot, int32_t late,
                              int32_t *weights, struct cs_order *order)
{
    cs_order_bwd(p, rank, CS_OP_BWD_INPUT, slot, order);
    if (slot + 1 - *weights > late)
        cs_order_bwd(p, rank, CS_OP_BWD_WEIGHT, (*weights)++, order);
}

static void rest_of_weights(const struct cs_pipeline *p, int32_t rank, int32_t weights,
                            struct cs_order *order)
{
    for (; weights < p->n_slots; weights++)
        cs_order_bwd(p, rank, CS_OP_BWD_WEIGHT, weights, order);
}

static void order_h1(const struct cs_pipeline *p, int32_t rank, struct cs_order *order)
{
    int32_t m = p->n_slots, warm = depth_of(p, rank), late = position_of(p, rank), weights = 0;
    warm = warm < m ? warm : m;
    if (!p->node[rank].has_backward) {
        cs_order_forwards(p, rank, order);
        return;
    }
    for (int32_t i = 0; i < warm; i++)
        cs_order_fwd(p, rank, i, order);
    for (int32_t i = 0; i < m; i++) {
        if (warm + i < m)
            cs_order_fwd(p, rank, warm + i, order);
        input_then_weight(p, rank, i, warm + i < m ? late : 0, &weights, order);
    }
    rest_of_weights(p, rank, weights, order);
}

/* slots in flight; the warm-up must fit or the schedule is not what its name says */
static enum cs_status prepare_h2(struct cs_pipeline *p, struct cs_arena *arena, struct cs_err *err)
{
    int32_t stages = (p->is_cyclic ? p->longest_chain - 1 : p->max_depth) + 1;
    (void)arena;
    if (p->n_slots < 2 * stages - 1)
        return cs_fail(err, CS_PLAN,
                       "schedule %s: %d slots on a path of %d ranks: at least %d slots are needed "
                       "(twice the ranks, less one); zb-h1 takes fewer",
                       p->plan->schedule, p->n_slots, stages, 2 * stages - 1);
    return CS_OK;
}

static void order_h2(const struct cs_pipeline *p, int32_t rank, struct cs_order *order)
{
    int32_t m = p->n_slots, warm = 2 * depth_of(p, rank) + 1;
    if (!p->node[rank].has_backward) {
        cs_order_forwards(p, rank, order);
        return;
    }
    for (int32_t i = 0; i < warm && i < m; i++)
        cs_order_fwd(p, rank, i, order);
    for (int32_t i = 0; i < m; i++) {
        if (warm + i < m)
            cs_order_fwd(p, rank, warm + i, order);
        cs_order_bwd(p, rank, CS_OP_BWD_INPUT, i, order);
        cs_order_bwd(p, rank, CS_OP_BWD_WEIGHT, i, order);
    }
}

static void order_h2_late(const struct cs_pipeline *p, int32_t rank, struct cs_order *order)
{
    int32_t m = p->n_slots, warm = 2 * depth_of(p, rank) + 1, late = 2 * position_of(p, rank);
    int32_t weights = 0;
    if (!p->node[rank].has_backward) {
        cs_order_forwards(p, rank, order);
        return;
    }
    for (int32_t i = 0; i < warm && i < m; i++)
        cs_order_fwd(p, rank, i, order);
    for (int32_t i = 0; i < m; i++) {
        input_then_weight(p, rank, i, warm + i < m ? late : 0, &weights, order);
        if (warm + i < m)
            cs_order_fwd(p, rank, warm + i, order);
    }
    rest_of_weights(p, rank, weights, order);
}

const struct cs_generator cs_generator_zb_h1 = {.order = order_h1};
const struct cs_generator cs_generator_zb_h2 = {.prepare = prepare_h2, .order = order_h2};
const struct cs_generator cs_generator_zb_h2_late = {.prepare = prepare_h2, .order = order_h2_late};
