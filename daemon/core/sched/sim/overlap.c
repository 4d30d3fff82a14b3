/* How long sums and weights of replicas keep a rank waiting, bucket by bucket. */
#include "core/sched/sim/overlap.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/links/beside.h"
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

/* Exchanges of one kind of a rank: on their way beside computing, and what they take there and alone. */
struct exchanges {
    const struct cs_device_class *device;
    enum cs_link_op op;
    int32_t holders;
    int32_t n;
    struct cs_overlap_item *item;
    int64_t alone_ns, beside_ns; /* of all */
    double slows;
};

static void add_item(struct exchanges *x, int64_t at_ns, int64_t bytes)
{
    const struct cs_beside one = cs_exchange_beside(x->device, x->op, x->holders, bytes);
    x->item[x->n++] = (struct cs_overlap_item){at_ns, one.beside_ns};
    x->alone_ns += one.alone_ns;
    x->beside_ns += one.beside_ns;
    x->slows = one.slows;
}

/* What nothing is computed beside goes on as fast as alone; the rest takes its part of the computing. */
static int64_t cost_of(const struct exchanges *x, int64_t left_ns)
{
    const int64_t hidden_ns = x->beside_ns > left_ns ? x->beside_ns - left_ns : 0;
    if (x->beside_ns == 0)
        return 0;
    return (int64_t)((double)left_ns * (double)x->alone_ns / (double)x->beside_ns +
                     (double)hidden_ns * x->slows);
}

/* Where slots' sums are made meanwhile (levels 2 and 3) only what the last slot leaves is the step's: stages pay for the
 * rest. */
static int64_t slots_left_ns(const struct exchanges *x)
{
    const int64_t left_ns = cs_overlap_left(x->item, x->n, 0);
    return x->beside_ns > 0
               ? (int64_t)((double)left_ns * (double)x->alone_ns / (double)x->beside_ns)
               : 0;
}

static void add_sums(const struct cs_program *program, int rank, int32_t stage,
                     struct exchanges *early, struct exchanges *late, struct exchanges *in_slots)
{
    const struct cs_stage *s = &program->plan->stages[stage];
    const int64_t whole_ns = s->bwd_input_ns + s->bwd_weight_ns;
    int64_t after_ns = 0, own_ns = 0;
    if (s->rank != rank || !after_last(program, rank, stage, &after_ns, &own_ns))
        return;
    for (int32_t b = 0; b < s->n_buckets; b++) {
        const struct cs_stage_bucket *bucket = &s->bucket[b];
        const double part = whole_ns > 0 ? (double)bucket->left_ns / (double)whole_ns : 0;
        const int64_t at_ns = bucket->is_late ? 0 : -after_ns - (int64_t)(part * (double)own_ns);
        add_item(bucket->is_late ? late
                 : s->zero >= 2  ? in_slots
                                 : early,
                 at_ns, bucket->grad_bytes);
    }
}

/* Times count back from the end of the rank's last backward, so complete ones are below 0. */
int64_t cs_overlap_reduce_ns(const struct cs_program *program, int rank,
                             const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    const int32_t all = count_buckets(plan, rank);
    struct exchanges kind[3];
    for (int k = 0; k < 3; k++)
        kind[k] = (struct exchanges){.device = device,
                                     .op = CS_LINK_REDUCE_SCATTER,
                                     .holders = cs_plan_holders(plan, rank),
                                     .item = new_items(all)};
    struct exchanges *const early = &kind[0], *const late = &kind[1], *const in_slots = &kind[2];
    for (int32_t s = 0; s < plan->n_stages; s++)
        add_sums(program, rank, s, early, late, in_slots);
    qsort(early->item, (size_t)early->n, sizeof *early->item, by_time);
    qsort(in_slots->item, (size_t)in_slots->n, sizeof *in_slots->item, by_time);
    for (int32_t i = 0; i < late->n; i++)
        early->item[early->n++] = late->item[i];
    early->alone_ns += late->alone_ns;
    early->beside_ns += late->beside_ns;
    early->slows = early->slows > late->slows ? early->slows : late->slows;
    const int64_t ns =
        cost_of(early, cs_overlap_left(early->item, early->n, 0)) + slots_left_ns(in_slots);
    for (int k = 0; k < 3; k++)
        free(kind[k].item);
    return ns;
}

/* Times count from the end of the update. */
int64_t cs_overlap_gather_ns(const struct cs_program *program, int rank, int64_t begin_ns,
                             const struct cs_device_class *device)
{
    const struct cs_plan *plan = program->plan;
    const int element = cs_device_element_bytes(device);
    struct exchanges x = {.device = device,
                          .op = CS_LINK_ALL_GATHER,
                          .holders = cs_plan_holders(plan, rank),
                          .item = new_items(count_buckets(plan, rank))};
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        if (stage->rank != rank)
            continue;
        const int64_t first_ns = begin_ns + before_first(program, rank, s);
        for (int32_t b = 0; b < stage->n_buckets; b++) {
            if (stage->zero >= 3 && !stage->bucket[b].is_late) /* they come in slots */
                continue;
            /* nobody knows which layer reads a tied table first: the first one waits */
            add_item(&x, stage->bucket[b].is_late ? begin_ns : first_ns + stage->bucket[b].into_ns,
                     stage->bucket[b].params * element);
        }
    }
    const int64_t ns = cost_of(&x, cs_overlap_delay(x.item, x.n));
    free(x.item);
    return ns;
}
