/* The first rank of those that share experts gathers what each has of a tensor. */
#include "worker/comm/experts.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/groups.h"

struct cs_expert_ranks {
    const struct cs_params *params;
    struct cs_comm *comm;
    const int32_t *rank; /* (n) the plan's: of the group of experts */
    int n, deadline_ms;
    float *whole; /* of the largest tensor; NULL: nothing was collected yet */
};

/* Elements of a tensor that a rank has: `n` of those that all ranks of experts together have, from `at`
 * on. */
struct piece {
    int64_t at, n;
};

static struct piece piece_of(const struct cs_expert_ranks *r, const struct cs_shard *t, int place)
{
    const struct cs_tp own = r->params->tp;
    struct cs_tp_part part;
    cs_tp_part_of(r->params->view.whole, t->whole,
                  (struct cs_tp){.ranks = own.ranks, .at = own.at, .ep = r->n, .ep_at = place},
                  &part);
    const int64_t n = cs_tp_count(&part, t->whole);
    const bool is_cut = part.experts.end > 0;
    const int64_t first = is_cut ? part.experts.begin : part.begin[0],
                  end = is_cut ? part.experts.end : part.end[0];
    return t->whole->n_dims == 3 ? (struct piece){first * (n / (end - first)), n}
                                 : (struct piece){0, n};
}

static enum cs_status give(struct cs_expert_ranks *r, const float *own, int64_t n,
                           struct cs_err *err)
{
    struct cs_xfer x = {.peer = r->rank[0],
                        .data = (void *)(uintptr_t)own,
                        .bytes = (size_t)n * sizeof *own,
                        .is_send = 1};
    return n > 0 ? r->comm->table->exchange(r->comm, &x, 1, r->deadline_ms, err) : CS_OK;
}

static enum cs_status make_room(struct cs_expert_ranks *r, struct cs_err *err)
{
    int64_t most = 1;
    for (int32_t i = 0; i < r->params->n; i++)
        if (r->params->shard[i].whole->count > most)
            most = r->params->shard[i].whole->count;
    if (r->whole == NULL)
        r->whole = malloc((size_t)most * sizeof *r->whole);
    return r->whole != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for a parameter of %lld elements",
                         (long long)most);
}

enum cs_status cs_expert_ranks_collect(struct cs_expert_ranks *ranks, const struct cs_shard *shard,
                                       const float *own, const float **out, struct cs_err *err)
{
    struct cs_expert_ranks *r = ranks;
    *out = own;
    if (r == NULL || !cs_param_is_of_expert(shard->whole))
        return CS_OK;
    const int place = r->params->tp.ep_at;
    const struct piece mine = piece_of(r, shard, place);
    if (place > 0)
        return give(r, own, mine.n, err);
    for (int k = 1; k < r->n; k++) {
        const struct piece its = piece_of(r, shard, k);
        if (its.n == 0)
            continue;
        CS_TRY(make_room(r, err));
        struct cs_xfer x = {.peer = r->rank[k],
                            .data = r->whole + its.at,
                            .bytes = (size_t)its.n * sizeof *r->whole};
        CS_TRY(r->comm->table->exchange(r->comm, &x, 1, r->deadline_ms, err));
        *out = r->whole;
    }
    if (*out != own && mine.n > 0)
        memcpy(r->whole + mine.at, own, (size_t)mine.n * sizeof *own);
    return CS_OK;
}

enum cs_status cs_expert_ranks_new(const struct cs_plan *plan, int rank,
                                   const struct cs_params *params, struct cs_comm *comm,
                                   int deadline_ms, struct cs_expert_ranks **out,
                                   struct cs_err *err)
{
    const int32_t group = cs_plan_group(plan, CS_GROUP_EP, -1, rank);
    *out = NULL;
    if (group < 0)
        return CS_OK;
    struct cs_expert_ranks *r = calloc(1, sizeof *r);
    if (r == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the ranks of experts");
    *r = (struct cs_expert_ranks){.params = params,
                                  .comm = comm,
                                  .rank = plan->group[group].rank,
                                  .n = plan->group[group].n,
                                  .deadline_ms = deadline_ms};
    *out = r;
    return CS_OK;
}

void cs_expert_ranks_free(struct cs_expert_ranks *ranks)
{
    if (ranks == NULL)
        return;
    free(ranks->whole);
    free(ranks);
}
