/* How long sums and weights of replicas keep a rank waiting, bucket by bucket. */
#include "core/sched/sim/overlap.h"
#include "core/plan/cost/bytes.h"
#include "core/plan/cost/links.h"
#include "core/plan/cost/stage/buckets.h"

#include <stdlib.h>

#include "core/sched/traits.h"

int64_t cs_overlap_left(const struct cs_overlap_item *item, int32_t n, int64_t end_ns)
{
    int64_t free_ns = INT64_MIN / 4;
    for (int32_t i = 0; i < n; i++)
        free_ns = (item[i].at_ns > free_ns ? item[i].at_ns : free_ns) + item[i].takes_ns;
    return free_ns > end_ns ? free_ns - end_ns : 0;
}

int64_t cs_overlap_delay(const struct cs_overlap_item *item, int32_t n)
{
    int64_t arrives_ns = 0, delay_ns = 0;
    for (int32_t i = 0; i < n; i++) {
        arrives_ns += item[i].takes_ns;
        if (arrives_ns - item[i].at_ns > delay_ns)
            delay_ns = arrives_ns - item[i].at_ns;
    }
    return delay_ns;
}

static bool makes_gradients(const struct cs_action *a)
{
    return cs_op_does((enum cs_op)a->op, CS_PART_WEIGHT);
}

/* Time that the rank computes after its last gradients of a stage, and what they themselves take;
 * false: it has none. */
static bool after_last(const struct cs_program *program, int rank, int32_t stage, int64_t *after_ns,
                       int64_t *own_ns)
{
    const struct cs_rank_program *rp = &program->rank[rank];
    const uint32_t *fifo = rp->fifo[CS_STREAM_COMPUTE];
    *after_ns = 0;
    for (uint32_t i = rp->n_fifo[CS_STREAM_COMPUTE]; i-- > 0;) {
        const struct cs_action *a = &rp->actions[fifo[i]];
        *own_ns = cs_action_work_ns(program->plan, a);
        if (a->stage == stage && makes_gradients(a))
            return true;
        *after_ns += *own_ns;
    }
    return false;
}

/* Time that the rank computes before its first forward of a stage. */
static int64_t before_first(const struct cs_program *program, int rank, int32_t stage)
{
    const struct cs_rank_program *rp = &program->rank[rank];
    const uint32_t *fifo = rp->fifo[CS_STREAM_COMPUTE];
    int64_t before_ns = 0;
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &rp->actions[fifo[i]];
        if (a->stage == stage && cs_op_does((enum cs_op)a->op, CS_PART_FORWARD))
            break;
        before_ns += cs_action_work_ns(program->plan, a);
    }
    return before_ns;
}

static int32_t count_buckets(const struct cs_plan *plan, int rank)
{
    int32_t n = 0;
    for (int32_t s = 0; s < plan->n_stages; s++)
        n += plan->stages[s].rank == rank ? plan->stages[s].n_buckets : 0;
    return n;
}

static struct cs_overlap_item *new_items(int32_t n)
{
    struct cs_overlap_item *item = calloc((size_t)n + 1, sizeof *item);
    CS_ASSERT(item != NULL);
    return item;
}

static int by_time(const void *a, const void *b)
{
    const struct cs_overlap_item *x = a, *y = b;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* with what hidden transfers take from the computing beside them */
static int64_t with_units(int64_t exposed_ns, const struct cs_overlap_item *item, int32_t n,
                          const struct cs_device_class *device)
{
    int64_t all_ns = 0;
    for (int32_t i = 0; i < n; i++)
        all_ns += item[i].takes_ns;
    const int64_t hidden_ns = all_ns > exposed_ns ? all_ns - exposed_ns : 0;
    return exposed_ns +
           (device->units > CS_GROUP_UNITS ? hidden_ns * CS_GROUP_UNITS / device->units : 0);
}

/* Times count back from the end of the rank's last backward, so complete ones are below 0. */
int64_t cs_overlap_reduce_ns(const struct cs_program *program, int rank,
                             const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    const int32_t dp = cs_plan_rank_shape(plan, rank).dp, all = count_buckets(plan, rank);
    int32_t n = 0, n_late = 0;
    struct cs_overlap_item *item = new_items(all), *late = new_items(all);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        const int64_t whole_ns = stage->bwd_input_ns + stage->bwd_weight_ns;
        int64_t after_ns = 0, own_ns = 0;
        if (stage->rank != rank || !after_last(program, rank, s, &after_ns, &own_ns))
            continue;
        for (int32_t b = 0; b < stage->n_buckets; b++) {
            const struct cs_stage_bucket *bucket = &stage->bucket[b];
            if (stage->zero >= 2 && !bucket->is_late) /* summed in slots */
                continue;
            const double part = whole_ns > 0 ? (double)bucket->left_ns / (double)whole_ns : 0;
            const struct cs_overlap_item one = {
                bucket->is_late ? 0 : -after_ns - (int64_t)(part * (double)own_ns),
                cs_exchange_ns(device, CS_LINK_REDUCE_SCATTER, dp, bucket->grad_bytes)};
            *(bucket->is_late ? &late[n_late++] : &item[n++]) = one;
        }
    }
    qsort(item, (size_t)n, sizeof *item, by_time);
    for (int32_t i = 0; i < n_late; i++)
        item[n++] = late[i];
    const int64_t ns = with_units(cs_overlap_left(item, n, 0), item, n, device);
    free(item);
    free(late);
    return ns;
}

/* Times count from the end of the update. */
int64_t cs_overlap_gather_ns(const struct cs_program *program, int rank, int64_t begin_ns,
                             const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    const int element = cs_device_element_bytes(device);
    const int32_t dp = cs_plan_rank_shape(plan, rank).dp;
    int32_t n = 0;
    struct cs_overlap_item *item = new_items(count_buckets(plan, rank));
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        if (stage->rank != rank)
            continue;
        const int64_t first_ns = begin_ns + before_first(program, rank, s);
        for (int32_t b = 0; b < stage->n_buckets; b++) {
            if (stage->zero >= 3 && !stage->bucket[b].is_late) /* they come in slots */
                continue;
            item[n++] = (struct cs_overlap_item){
                /* nobody knows which layer reads a tied table first: the first one waits */
                stage->bucket[b].is_late ? begin_ns : first_ns + stage->bucket[b].into_ns,
                cs_exchange_ns(device, CS_LINK_ALL_GATHER, dp, stage->bucket[b].params * element)};
        }
    }
    const int64_t ns = with_units(cs_overlap_delay(item, n), item, n, device);
    free(item);
    return ns;
}
