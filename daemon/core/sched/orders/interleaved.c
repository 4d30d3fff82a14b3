/* Interleaved 1F1B: rank s of the head's p ranks has v chunks, stages s, p+s, 2p+s ... Slots go in
 * groups of p through one chunk after the other: forward k of a rank is chunk (k mod pv) / p of
 * slot (k / pv) p + k mod p, backwards use the chunks from the last to the first. Warm-up 2(p-s-1)
 * + (v-1)p; one chunk: plain 1F1B. Source: Megatron-LM (Narayanan et al. 2021).
 *
 * When p does not divide the slots, the last group is filled up with slots that do not exist and
 * whose actions are left out: taking nodes out of an acyclic graph leaves it acyclic.
 *
 * Branches that feed the head are not cut into chunks; they run 1F1B. How far they must be ahead:
 * before the backward of slot i in its first stage, the head's first rank forwards some number of
 * slots through that stage; the most by which this exceeds i, over all i, is what the last rank of
 * a branch has to have done before its own backward of slot i, and each rank before it one more.
 * For one chunk this is the depth of plain 1F1B. */
#include "core/sched/orders/interleaved.h"

#include "core/sched/orders/generator.h"

struct walk {
    int32_t p, v, m;
    int32_t n; /* forwards of one rank, with those that do not exist */
};

struct virtual_item {
    int32_t chunk, slot;
};

static struct walk make_walk(int32_t n_ranks, int32_t n_chunks, int32_t n_slots)
{
    struct walk w = {n_ranks, n_chunks, n_slots, 0};
    w.n = (w.m + w.p - 1) / w.p * w.p * w.v;
    return w;
}

static struct walk walk_of(const struct cs_pipeline *pipe)
{
    return make_walk(pipe->n_head_ranks, pipe->n_chunks, pipe->n_slots);
}

static int32_t warm_of(const struct walk *w, int32_t position)
{
    int32_t after = w->p - position - 1;
    int32_t warm = w->v == 1 ? after : 2 * after + (w->v - 1) * w->p;
    return warm < w->n ? warm : w->n;
}

static struct virtual_item item_at(const struct walk *w, int32_t k, bool is_backward)
{
    int32_t chunk = k % (w->p * w->v) / w->p;
    return (struct virtual_item){is_backward ? w->v - 1 - chunk : chunk,
                                 k / (w->p * w->v) * w->p + k % w->p};
}

/* chunk 0: the encoders of the rank, chunk 1: its stage of the head, the last */
static void emit_grid(const struct cs_pipeline *pipe, int32_t rank, enum cs_op op,
                      const struct virtual_item *item, struct cs_order *order)
{
    const struct cs_rank_node *node = &pipe->node[rank];
    int32_t first = item->chunk == 0 ? 0 : node->n_stages - 1;
    int32_t n = item->chunk == 0 ? node->n_stages - 1 : 1;
    for (int32_t i = 0; i < n && item->slot < pipe->n_slots; i++)
        cs_order_stage(pipe, op, node->stages[first + (op == CS_OP_FWD ? i : n - 1 - i)],
                       item->slot, order);
}

static void emit(const struct cs_pipeline *pipe, const struct walk *w, int32_t rank, int32_t k,
                 enum cs_op op, struct cs_order *order)
{
    struct virtual_item item = item_at(w, k, op == CS_OP_BWD);
    const struct cs_rank_node *node = &pipe->node[rank];
    if (pipe->is_grid) {
        emit_grid(pipe, rank, op, &item, order);
        return;
    }
    /* colocated encoders come first in the node's list */
    int32_t stage = node->stages[node->n_stages - w->v + item.chunk];
    if (item.slot < w->m)
        cs_order_stage(pipe, op, stage, item.slot, order);
}

static int32_t needed_ahead(const struct walk *w)
{
    int32_t warm = warm_of(w, 0), forwards = 0, most = 1;
    for (int32_t k = 0; k < warm; k++)
        forwards += item_at(w, k, false).chunk == 0 && item_at(w, k, false).slot < w->m;
    for (int32_t k = 0; k < w->n; k++) {
        if (warm + k < w->n) {
            struct virtual_item f = item_at(w, warm + k, false);
            forwards += f.chunk == 0 && f.slot < w->m;
        }
        struct virtual_item b = item_at(w, k, true);
        if (b.chunk == 0 && b.slot < w->m && forwards - b.slot > most)
            most = forwards - b.slot;
    }
    return most;
}

int32_t cs_interleaved_live(int32_t n_ranks, int32_t n_chunks, int32_t n_slots, int32_t hops)
{
    const struct walk w = make_walk(n_ranks, n_chunks, n_slots);
    const int32_t live = needed_ahead(&w) + hops;
    return live < n_slots ? live : n_slots;
}

static enum cs_status prepare(struct cs_pipeline *pipe, struct cs_arena *arena, struct cs_err *err)
{
    CS_TRY(cs_pipeline_find_chunks(pipe, "interleaved", arena, err));
    int32_t branch = pipe->plan->stages[pipe->plan->head_stage].branch;
    for (int32_t s = 0; s < pipe->plan->n_stages; s++) {
        const struct cs_stage *stage = &pipe->plan->stages[s];
        const struct cs_rank_node *node = &pipe->node[stage->rank];
        if (stage->branch != branch && node->n_stages > 1)
            return cs_fail(err, CS_PLAN,
                           "schedule interleaved: stage %s shares rank %d with others: encoders "
                           "need ranks of their own",
                           stage->name, stage->rank);
    }
    if ((int64_t)pipe->n_slots * pipe->n_chunks > INT32_MAX / 4)
        return cs_fail(err, CS_PLAN, "schedule interleaved: %d slots are too many", pipe->n_slots);
    struct walk w = walk_of(pipe);
    pipe->head_ahead = needed_ahead(&w);
    return CS_OK;
}

static void one_to_one(const struct cs_pipeline *pipe, const struct walk *w, int32_t rank,
                       struct cs_order *order)
{
    int32_t warm = warm_of(w, pipe->head_position[rank]);
    for (int32_t k = 0; k < warm; k++)
        emit(pipe, w, rank, k, CS_OP_FWD, order);
    for (int32_t k = 0; k < w->n; k++) {
        if (warm + k < w->n)
            emit(pipe, w, rank, warm + k, CS_OP_FWD, order);
        emit(pipe, w, rank, k, CS_OP_BWD, order);
    }
}

void cs_order_grid_1f1b(const struct cs_pipeline *pipe, int32_t rank, struct cs_order *order)
{
    struct walk w = walk_of(pipe);
    one_to_one(pipe, &w, rank, order);
}

void cs_order_grid_gpipe(const struct cs_pipeline *pipe, int32_t rank, struct cs_order *order)
{
    for (int32_t chunk = 0; chunk < 2; chunk++)
        for (int32_t slot = 0; slot < pipe->n_slots; slot++)
            emit_grid(pipe, rank, CS_OP_FWD, &(struct virtual_item){chunk, slot}, order);
    for (int32_t chunk = 1; chunk >= 0; chunk--)
        for (int32_t slot = 0; slot < pipe->n_slots; slot++)
            emit_grid(pipe, rank, CS_OP_BWD, &(struct virtual_item){chunk, slot}, order);
}

void cs_order_interleaved(const struct cs_pipeline *pipe, int32_t rank, struct cs_order *order)
{
    struct walk w = walk_of(pipe);
    const struct cs_rank_node *node = &pipe->node[rank];
    int32_t position = pipe->head_position[rank];
    if (position < 0) {
        int32_t hops = pipe->tail[node->stages[0]] - (w.p * w.v - 1);
        if (node->has_backward)
            cs_order_one_to_one(pipe, rank, pipe->head_ahead + (hops > 1 ? hops : 1) - 1, order);
        else
            cs_order_forwards(pipe, rank, order);
        return;
    }
    one_to_one(pipe, &w, rank, order);
}

const struct cs_generator cs_generator_interleaved = {.prepare = prepare,
                                                      .order = cs_order_interleaved};
