/* Encoders on the ranks of the LLM: every rank has a copy of every encoder and takes each p-th
 * slot, rank r slots r, p+r, 2p+r ...
 *
 * three-phase  all encoder forwards, the LLM's schedule, all encoder backwards. Source: NVIDIA,
 *              Heterogeneous Parallelism. With chunks the LLM's schedule is interleaved.
 * anchors      groups of p slots; `window` groups are encoded ahead, the next one after the last
 *              forward of a group; the encoder's backward of group g follows backward (g+1)p-1+s of
 *              rank s. The "+s" keeps the insertions on one diagonal wave, so every rank is delayed
 *              at the same logical time: the makespan of three-phase with window + 1 live encoder
 *              slots per rank. Source: bounded look-ahead of MegaScale-Omni and BigMac. */
#include "core/sched/orders/generator.h"
#include "core/sched/orders/interleaved.h"

struct place {
    const struct cs_pipeline *pipe;
    int32_t rank, position, p, n_encoders, n_groups;
    struct cs_order *order;
};

static enum cs_status prepare(struct cs_pipeline *pipe, struct cs_arena *arena, struct cs_err *err)
{
    const struct cs_plan *plan = pipe->plan;
    CS_TRY(cs_pipeline_find_chunks(pipe, plan->schedule, arena, err));
    int32_t branch = plan->stages[plan->head_stage].branch;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        const struct cs_slot_share *share = &pipe->traits[s].share;
        int32_t position = pipe->head_position[stage->rank];
        bool is_copy = position >= 0 && share->n == pipe->n_head_ranks && share->at == position;
        if (stage->branch != branch && !is_copy)
            return cs_fail(err, CS_PLAN,
                           "schedule %s: %s is not one of %d copies of an encoder on the ranks of "
                           "%s, each with its share of the slots",
                           plan->schedule, stage->name, pipe->n_head_ranks,
                           plan->stages[plan->head_stage].name);
    }
    return CS_OK;
}

static struct place place_of(const struct cs_pipeline *pipe, int32_t rank, struct cs_order *order)
{
    int32_t p = pipe->n_head_ranks;
    return (struct place){pipe,
                          rank,
                          pipe->head_position[rank],
                          p,
                          pipe->node[rank].n_stages - pipe->n_chunks,
                          (pipe->n_slots + p - 1) / p,
                          order};
}

/* forward or backward of this rank's slot of the group */
static void encode(const struct place *x, enum cs_op op, int32_t group)
{
    int32_t slot = group * x->p + x->position, n = x->n_encoders;
    if (group >= x->n_groups || slot >= x->pipe->n_slots)
        return;
    for (int32_t i = 0; i < n; i++)
        cs_order_stage(x->pipe, op, x->pipe->node[x->rank].stages[op == CS_OP_FWD ? i : n - 1 - i],
                       slot, x->order);
}

static void order_three_phase(const struct cs_pipeline *pipe, int32_t rank, struct cs_order *order)
{
    struct place x = place_of(pipe, rank, order);
    for (int32_t g = 0; g < x.n_groups; g++)
        encode(&x, CS_OP_FWD, g);
    cs_order_interleaved(pipe, rank, order);
    for (int32_t g = 0; g < x.n_groups; g++)
        encode(&x, CS_OP_BWD, g);
}

static void order_anchors(const struct cs_pipeline *pipe, int32_t rank, struct cs_order *order)
{
    struct place x = place_of(pipe, rank, order);
    int32_t m = pipe->n_slots, stage = pipe->node[rank].stages[x.n_encoders];
    int32_t window = pipe->options->window > 0 ? pipe->options->window : CS_ANCHOR_WINDOW;
    int32_t warm = x.p - 1 - x.position, group = 0;
    for (int32_t g = 0; g < window && g < x.n_groups; g++)
        encode(&x, CS_OP_FWD, g);
    for (int32_t k = 0; k < m + warm; k++) {
        int32_t f = k, b = k - warm;
        if (f < m) {
            cs_order_stage(pipe, CS_OP_FWD, stage, f, order);
            if ((f + 1) % x.p == 0)
                encode(&x, CS_OP_FWD, f / x.p + window);
        }
        if (b < 0)
            continue;
        cs_order_stage(pipe, CS_OP_BWD, stage, b, order);
        if (b >= (group + 1) * x.p - 1 + x.position)
            encode(&x, CS_OP_BWD, group++);
    }
    for (; group < x.n_groups; group++)
        encode(&x, CS_OP_BWD, group);
}

const struct cs_generator cs_generator_three_phase = {.prepare = prepare,
                                                      .order = order_three_phase};
const struct cs_generator cs_generator_anchors = {.prepare = prepare, .order = order_anchors};
