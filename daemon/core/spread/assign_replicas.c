/* The slots of every replica put in order, and how long the slowest replica takes. */
#include "core/spread/assign_replicas.h"

#include <math.h>
#include <string.h>

/* One replica as the recurrence sees it. */
struct replica {
    const struct cs_pipe *pipe;
    struct cs_pipe_slots slots;
    double *scratch;
};

static struct replica replica_of(const struct cs_pipe *pipe, const struct cs_assign_result *r,
                                 int32_t l, struct cs_arena *arena)
{
    const int64_t at = (int64_t)l * r->slots;
    return (struct replica){
        .pipe = pipe,
        .slots = {.n = r->slots,
                  .enc = r->enc + at,
                  .enc_back = r->enc_back + at,
                  .llm = r->llm + at},
        .scratch = CS_NEW_ARRAY(arena, double, cs_pipe_scratch(pipe, r->slots))
    };
}

static double replica_time(void *user, const int32_t *order, int32_t n)
{
    const struct replica *replica = user;
    (void)n;
    return cs_pipe_run(replica->pipe, &replica->slots, order, replica->scratch, NULL);
}

void cs_order_replicas(const struct cs_assign_samples *samples,
                       const struct cs_order_replicas *options, struct cs_arena *arena,
                       struct cs_assign_result *result)
{
    const int32_t n = result->slots;
    int32_t *order = CS_NEW_ARRAY(arena, int32_t, n);
    double *both = CS_NEW_ARRAY(arena, double, n);
    for (int32_t l = 0; l < result->replicas && options->how != CS_ORDER_KEPT; l++) {
        struct replica replica = replica_of(&options->pipe, result, l, arena);
        for (int32_t i = 0; i < n; i++) {
            order[i] = i;
            both[i] = replica.slots.enc[i] + replica.slots.llm[i];
        }
        const struct cs_order_search search = {
            n, both, options->rounds, options->seed, replica_time, &replica};
        if (options->how == CS_ORDER_SORTED)
            cs_order_sorted(both, n, arena, order);
        else if (options->how == CS_ORDER_DISTTRAIN)
            cs_order_disttrain(&options->pipe, &replica.slots, arena, order);
        else
            (void)cs_order_search(&search, arena, order);
        cs_assign_renumber(samples, arena, l, order, result);
    }
}

double cs_order_makespan(const struct cs_pipe *pipe, const struct cs_assign_result *result,
                         struct cs_arena *arena)
{
    double slowest = 0;
    for (int32_t l = 0; l < result->replicas; l++) {
        struct replica replica = replica_of(pipe, result, l, arena);
        slowest = fmax(slowest, replica_time(&replica, NULL, result->slots));
    }
    return slowest;
}

bool cs_order_from_name(const char *name, enum cs_order_how *how)
{
    static const char *const names[CS_ORDER_HOWS] = {"kept", "sorted", "disttrain", "searched"};
    for (int i = 0; i < CS_ORDER_HOWS; i++)
        if (strcmp(names[i], name) == 0) {
            *how = (enum cs_order_how)i;
            return true;
        }
    return false;
}
