/* Sums the gradients of an encoder over the ranks that have a copy of it. */
#include "worker/comm/copies.h"

#include <stdlib.h>

#include "core/plan/groups.h"

struct cs_copies {
    const struct cs_plan *plan;
    struct cs_params *params;
    struct cs_comm *comm;
    int rank, deadline_ms;
    struct cs_xfer *xfer; /* of one exchange */
    float *theirs;        /* parts of gradients that come, shard by shard, copy by copy */
};

/* the copies of a stage that this rank has */
static const struct cs_group *group_of(const struct cs_copies *c, int32_t stage)
{
    const int32_t at =
        cs_plan_group(c->plan, CS_GROUP_COPIES, c->plan->stages[stage].branch, c->rank);
    return at >= 0 ? &c->plan->group[at] : NULL;
}

static bool is_summed(const struct cs_shard *t, const struct cs_stage *stage)
{
    return t->grad != NULL && t->param->layer >= stage->first_layer &&
           t->param->layer < stage->first_layer + stage->n_layers;
}

/* The elements of a gradient that a copy sums: begin of the k-th part of n. */
static int64_t begin_of(const struct cs_shard *t, int k, int n)
{
    return t->param->count * k / n;
}

/* A message of the part that copy k sums, to or from a copy. */
static struct cs_xfer part_of(const struct cs_group *g, const struct cs_shard *t, int k,
                              float *data, int with, bool is_send)
{
    const int64_t n = begin_of(t, k + 1, g->n) - begin_of(t, k, g->n);
    return (struct cs_xfer){
        .peer = g->rank[with], .data = data, .bytes = (size_t)n * sizeof *data, .is_send = is_send};
}

/* Every part to who sums it; what comes lies in `theirs`. */
static enum cs_status bring_parts(struct cs_copies *c, const struct cs_stage *stage,
                                  const struct cs_group *g, int me, struct cs_err *err)
{
    float *to = c->theirs;
    int n = 0;
    for (int32_t i = 0; i < c->params->n; i++) {
        const struct cs_shard *t = &c->params->shard[i];
        for (int k = 0; is_summed(t, stage) && k < g->n; k++) {
            if (k == me)
                continue;
            float *grad = (float *)t->grad + begin_of(t, k, g->n);
            c->xfer[n++] = part_of(g, t, k, grad, k, true);
            c->xfer[n++] = part_of(g, t, me, to, k, false);
            to += begin_of(t, me + 1, g->n) - begin_of(t, me, g->n);
        }
    }
    return n > 0 ? c->comm->table->exchange(c->comm, c->xfer, n, c->deadline_ms, err) : CS_OK;
}

static void add_parts(struct cs_copies *c, const struct cs_stage *stage, const struct cs_group *g,
                      int me)
{
    const float *from = c->theirs;
    for (int32_t i = 0; i < c->params->n; i++) {
        const struct cs_shard *t = &c->params->shard[i];
        if (!is_summed(t, stage))
            continue;
        const int64_t begin = begin_of(t, me, g->n), n = begin_of(t, me + 1, g->n) - begin;
        float *own = (float *)t->grad + begin;
        for (int64_t x = 0; x < n; x++) {
            float sum = 0.0f;
            for (int k = 0; k < g->n; k++)
                sum += k == me ? own[x] : from[(k - (k > me)) * n + x];
            own[x] = sum;
        }
        from += (g->n - 1) * n;
    }
}

/* Every sum to all others. */
static enum cs_status give_sums(struct cs_copies *c, const struct cs_stage *stage,
                                const struct cs_group *g, int me, struct cs_err *err)
{
    int n = 0;
    for (int32_t i = 0; i < c->params->n; i++) {
        const struct cs_shard *t = &c->params->shard[i];
        for (int k = 0; is_summed(t, stage) && k < g->n; k++) {
            if (k == me)
                continue;
            c->xfer[n++] = part_of(g, t, me, (float *)t->grad + begin_of(t, me, g->n), k, true);
            c->xfer[n++] = part_of(g, t, k, (float *)t->grad + begin_of(t, k, g->n), k, false);
        }
    }
    return n > 0 ? c->comm->table->exchange(c->comm, c->xfer, n, c->deadline_ms, err) : CS_OK;
}

enum cs_status cs_copies_reduce(struct cs_copies *copies, int32_t stage, struct cs_err *err)
{
    const struct cs_group *g = copies != NULL ? group_of(copies, stage) : NULL;
    if (g == NULL)
        return cs_fail(err, CS_INTERNAL, "a sum over copies on a rank without any");
    const struct cs_stage *its = &copies->plan->stages[stage];
    const int me = cs_group_position(g, copies->rank);
    CS_TRY(bring_parts(copies, its, g, me, err));
    add_parts(copies, its, g, me);
    return give_sums(copies, its, g, me, err);
}

static enum cs_status make_room(struct cs_copies *c, struct cs_err *err)
{
    size_t floats = 1, n = 1;
    for (int32_t s = 0; s < c->plan->n_stages; s++) {
        const struct cs_group *g = group_of(c, s);
        const bool is_here = c->plan->stages[s].rank == cs_plan_rank_in_replica(c->plan, c->rank);
        for (int32_t i = 0; is_here && g != NULL && i < c->params->n; i++) {
            const struct cs_shard *t = &c->params->shard[i];
            if (!is_summed(t, &c->plan->stages[s]))
                continue;
            floats += (size_t)(g->n - 1) * ((size_t)t->param->count / (size_t)g->n + 1);
            n += 2 * ((size_t)g->n - 1);
        }
    }
    c->theirs = malloc(floats * sizeof *c->theirs);
    c->xfer = calloc(n, sizeof *c->xfer);
    return c->theirs != NULL && c->xfer != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for the gradients of copies");
}

enum cs_status cs_copies_new(const struct cs_plan *plan, int rank, struct cs_params *params,
                             struct cs_comm *comm, int deadline_ms, struct cs_copies **out,
                             struct cs_err *err)
{
    *out = NULL;
    if (cs_plan_group(plan, CS_GROUP_COPIES, -1, rank) < 0)
        return CS_OK;
    if (params->device->mem != NULL)
        return cs_fail(err, CS_UNSUPPORTED, "copies of encoders run on CPU ranks only yet");
    if (comm == NULL)
        return cs_fail(err, CS_INVALID, "copies of an encoder need a transport");
    struct cs_copies *c = calloc(1, sizeof *c);
    if (c == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the copies of an encoder");
    *c = (struct cs_copies){
        .plan = plan, .params = params, .comm = comm, .rank = rank, .deadline_ms = deadline_ms};
    const enum cs_status status = make_room(c, err);
    if (status != CS_OK) {
        cs_copies_free(c);
        return status;
    }
    *out = c;
    return CS_OK;
}

void cs_copies_free(struct cs_copies *copies)
{
    if (copies == NULL)
        return;
    free(copies->xfer);
    free(copies->theirs);
    free(copies);
}
