/* Sums the gradients of an encoder over the ranks that have a copy of it, bucket by bucket. */
#include "worker/comm/copies.h"

#include <stdlib.h>

#include "core/plan/groups.h"

struct cs_copies {
    const struct cs_plan *plan;
    struct cs_params *params;
    struct cs_comm *comm;
    struct cs_context_comm *sums; /* devices */
    int rank, deadline_ms;
    struct cs_xfer *xfer; /* of one exchange */
    float *theirs;        /* host: parts of gradients that come, bucket by bucket, copy by copy */
};

/* the copies of a stage that this rank has */
static const struct cs_group *group_of(const struct cs_copies *c, int32_t stage)
{
    const int32_t at =
        cs_plan_group(c->plan, CS_GROUP_COPIES, c->plan->stages[stage].branch, c->rank);
    return at >= 0 ? &c->plan->group[at] : NULL;
}

/* What of a bucket copies have to sum: where replicas divide gradients their sum is there already, part by
 * part, else all of it. */
static float *summed_of(const struct cs_copies *c, const struct cs_bucket *b, int64_t *n)
{
    const bool is_divided = b->zero >= 2;
    *n = is_divided ? b->n / c->params->holders[b->held].n : b->n;
    return cs_params_at(c->params->state, is_divided ? b->own_grad : b->grad);
}

/* ---- devices ---- */

static enum cs_status sum_on_device(struct cs_copies *c, int32_t stage, struct cs_err *err)
{
    for (int32_t i = 0; i < c->params->n_buckets; i++) {
        const struct cs_bucket *b = &c->params->bucket[i];
        int64_t n;
        void *grads = summed_of(c, b, &n);
        if (b->stage != stage)
            continue;
        if (b->zero < 2)
            cs_params_settle_grads(c->params, i);
        CS_TRY(cs_context_comm_sum_now(c->sums, grads, (size_t)n, c->params->device->grad, err));
    }
    return CS_OK;
}

/* ---- the host ---- */

/* The elements that a copy sums: begin of the k-th part of n. */
static int64_t begin_of(int64_t count, int k, int n)
{
    return count * k / n;
}

/* A message of the part that copy k sums, to or from a copy. */
static struct cs_xfer part_of(const struct cs_group *g, int64_t count, int k, float *data, int with,
                              bool is_send)
{
    const int64_t n = begin_of(count, k + 1, g->n) - begin_of(count, k, g->n);
    return (struct cs_xfer){
        .peer = g->rank[with], .data = data, .bytes = (size_t)n * sizeof *data, .is_send = is_send};
}

/* Every part to who sums it; what comes lies in `theirs`. */
static int list_parts(struct cs_copies *c, int32_t stage, const struct cs_group *g, int me)
{
    float *to = c->theirs;
    int n_xfers = 0;
    for (int32_t i = 0; i < c->params->n_buckets; i++) {
        int64_t n;
        float *grads = summed_of(c, &c->params->bucket[i], &n);
        for (int k = 0; c->params->bucket[i].stage == stage && k < g->n; k++) {
            if (k == me)
                continue;
            c->xfer[n_xfers++] = part_of(g, n, k, grads + begin_of(n, k, g->n), k, true);
            c->xfer[n_xfers++] = part_of(g, n, me, to, k, false);
            to += begin_of(n, me + 1, g->n) - begin_of(n, me, g->n);
        }
    }
    return n_xfers;
}

static void add_parts(struct cs_copies *c, int32_t stage, const struct cs_group *g, int me)
{
    const float *from = c->theirs;
    for (int32_t i = 0; i < c->params->n_buckets; i++) {
        int64_t count;
        float *grads = summed_of(c, &c->params->bucket[i], &count);
        if (c->params->bucket[i].stage != stage)
            continue;
        const int64_t begin = begin_of(count, me, g->n), n = begin_of(count, me + 1, g->n) - begin;
        float *own = grads + begin;
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
static int list_sums(struct cs_copies *c, int32_t stage, const struct cs_group *g, int me)
{
    int n_xfers = 0;
    for (int32_t i = 0; i < c->params->n_buckets; i++) {
        int64_t n;
        float *grads = summed_of(c, &c->params->bucket[i], &n);
        for (int k = 0; c->params->bucket[i].stage == stage && k < g->n; k++) {
            if (k == me)
                continue;
            c->xfer[n_xfers++] = part_of(g, n, me, grads + begin_of(n, me, g->n), k, true);
            c->xfer[n_xfers++] = part_of(g, n, k, grads + begin_of(n, k, g->n), k, false);
        }
    }
    return n_xfers;
}

static enum cs_status exchange(struct cs_copies *c, int n, struct cs_err *err)
{
    return n > 0 ? c->comm->table->exchange(c->comm, c->xfer, n, c->deadline_ms, err) : CS_OK;
}

static enum cs_status sum_on_host(struct cs_copies *c, int32_t stage, const struct cs_group *g,
                                  struct cs_err *err)
{
    const int me = cs_group_position(g, c->rank);
    CS_TRY(exchange(c, list_parts(c, stage, g, me), err));
    add_parts(c, stage, g, me);
    return exchange(c, list_sums(c, stage, g, me), err);
}

enum cs_status cs_copies_reduce(struct cs_copies *copies, int32_t stage, struct cs_err *err)
{
    const struct cs_group *g = copies != NULL ? group_of(copies, stage) : NULL;
    if (g == NULL)
        return cs_fail(err, CS_INTERNAL, "a sum over copies on a rank without any");
    return copies->sums != NULL ? sum_on_device(copies, stage, err)
                                : sum_on_host(copies, stage, g, err);
}

/* ---- life ---- */

static enum cs_status make_room(struct cs_copies *c, struct cs_err *err)
{
    size_t floats = 1, n_xfers = 1;
    for (int32_t i = 0; i < c->params->n_buckets; i++) {
        const struct cs_bucket *b = &c->params->bucket[i];
        const struct cs_group *g = b->stage >= 0 ? group_of(c, b->stage) : NULL;
        int64_t n;
        summed_of(c, b, &n);
        if (g == NULL)
            continue;
        floats += (size_t)(g->n - 1) * ((size_t)n / (size_t)g->n + 1);
        n_xfers += 2 * ((size_t)g->n - 1);
    }
    c->theirs = malloc(floats * sizeof *c->theirs);
    c->xfer = calloc(n_xfers, sizeof *c->xfer);
    return c->theirs != NULL && c->xfer != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for the gradients of copies");
}

enum cs_status cs_copies_new(const struct cs_plan *plan, int rank, struct cs_params *params,
                             struct cs_comm *comm, struct cs_context_comm *sums, int deadline_ms,
                             struct cs_copies **out, struct cs_err *err)
{
    *out = NULL;
    if (cs_plan_group(plan, CS_GROUP_COPIES, -1, rank) < 0)
        return CS_OK;
    if (comm == NULL || (params->device->mem != NULL && sums == NULL))
        return cs_fail(err, CS_INVALID, "copies of an encoder need a transport");
    struct cs_copies *c = calloc(1, sizeof *c);
    if (c == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the copies of an encoder");
    *c = (struct cs_copies){.plan = plan,
                            .params = params,
                            .comm = comm,
                            .sums = sums,
                            .rank = rank,
                            .deadline_ms = deadline_ms};
    const enum cs_status status = sums == NULL ? make_room(c, err) : CS_OK;
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
