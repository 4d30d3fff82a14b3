/* Orders of slots: sorted, DistTrain's, and hill climbing on a cost. */
#include "core/spread/assign_order.h"

#include <math.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/spread/assign_list.h"

void cs_order_sorted(const double *weight, int32_t n, struct cs_arena *arena, int32_t *order)
{
    double *negative = CS_NEW_ARRAY(arena, double, n);
    for (int32_t i = 0; i < n; i++) {
        negative[i] = -weight[i];
        order[i] = i;
    }
    cs_list_sort(order, n, negative, NULL, arena);
}

/* Removes item `at` of list and returns it. */
static int32_t take(int32_t *list, int32_t *n, int32_t at)
{
    const int32_t taken = list[at];
    memmove(list + at, list + at + 1, (size_t)(*n - at - 1) * sizeof *list);
    --*n;
    return taken;
}

/* Place in list of the slot whose first-stage forward is closest to want. */
static int32_t closest(const struct cs_pipe *pipe, const double *enc, const int32_t *list,
                       int32_t n, double want)
{
    int32_t best = 0;
    double best_gap = INFINITY;
    for (int32_t i = 0; i < n; i++) {
        const double gap = fabs(enc[list[i]] / pipe->enc_stages - want);
        if (gap < best_gap) {
            best_gap = gap;
            best = i;
        }
    }
    return best;
}

/* Idle time of stage 0 in front of backward i, as far as the slots placed so far tell. */
static double idle_before(const struct cs_pipe *pipe, const struct cs_pipe_slots *slots,
                          const int32_t *order, int32_t placed, int32_t i, double *scratch,
                          double *back)
{
    struct cs_pipe_slots part = *slots;
    part.n = placed;
    cs_pipe_run(pipe, &part, order, scratch, back);
    const double since = i > 0 ? back[2 * (i - 1) + 1] : slots->enc[order[0]] / pipe->enc_stages;
    return back[2 * i] - since;
}

void cs_order_disttrain(const struct cs_pipe *pipe, const struct cs_pipe_slots *slots,
                        struct cs_arena *arena, int32_t *order)
{
    const int32_t depth = pipe->enc_stages + pipe->llm_stages;
    int32_t n = slots->n, placed = 0, n_rear = 0;
    int32_t *list = CS_NEW_ARRAY(arena, int32_t, n), *rear = CS_NEW_ARRAY(arena, int32_t, n);
    double *scratch = CS_NEW_ARRAY(arena, double, cs_pipe_scratch(pipe, n));
    double *back = CS_NEW_ARRAY(arena, double, 2 * n);
    cs_order_sorted(slots->enc, n, arena, list);
    if (n > 0)
        order[placed++] = take(list, &n, 0);
    while (n_rear < depth - 1 && n > 0)
        rear[n_rear++] = take(list, &n, 0);
    for (int32_t i = 0; n > 0; i++) {
        const int32_t want = i == 0 ? depth - 1 : 1; /* forwards that the window hosts */
        double gap = idle_before(pipe, slots, order, placed, i, scratch, back);
        for (int32_t k = want; k > 0 && n > 0; k--) {
            const int32_t slot = take(list, &n, closest(pipe, slots->enc, list, n, gap / k));
            gap -= slots->enc[slot] / pipe->enc_stages;
            order[placed++] = slot;
        }
    }
    for (int32_t i = n_rear - 1; i >= 0; i--) /* the cheapest at the very end */
        order[placed++] = rear[i];
}

static void start_order(const struct cs_order_search *s, struct cs_arena *arena, int32_t *order)
{
    int32_t *sorted = CS_NEW_ARRAY(arena, int32_t, s->n), at = 0;
    cs_order_sorted(s->weight, s->n, arena, sorted);
    order[at++] = sorted[0];
    for (int32_t i = 0; i < s->n; i++)
        if (i != sorted[0] && i != sorted[1])
            order[at++] = i;
    order[at] = sorted[1];
}

static void mutate(int32_t *order, int32_t a, int32_t b, bool is_swap)
{
    const int32_t moved = order[a];
    if (is_swap) {
        order[a] = order[b];
    } else if (a < b) {
        memmove(order + a, order + a + 1, (size_t)(b - a) * sizeof *order);
    } else {
        memmove(order + b + 1, order + b, (size_t)(a - b) * sizeof *order);
    }
    order[b] = moved;
}

double cs_order_search(const struct cs_order_search *s, struct cs_arena *arena, int32_t *order)
{
    const size_t bytes = (size_t)s->n * sizeof *order;
    const int32_t rounds = s->rounds > 0 ? s->rounds : CS_ORDER_ROUNDS;
    int32_t *trial = CS_NEW_ARRAY(arena, int32_t, s->n + 1);
    double best = s->cost(s->user, order, s->n);
    if (s->n < 2)
        return best;
    start_order(s, arena, trial);
    const double start = s->cost(s->user, trial, s->n);
    if (start < best) {
        best = start;
        memcpy(order, trial, bytes);
    }
    for (int32_t i = 0; i < rounds; i++) {
        const uint32_t counter[4] = {(uint32_t)i, 0, 0, 0};
        uint32_t random[4];
        cs_philox(s->seed, counter, random);
        const int32_t a = (int32_t)(random[0] % (uint32_t)s->n),
                      b = (int32_t)(random[1] % (uint32_t)s->n);
        if (a == b)
            continue;
        memcpy(trial, order, bytes);
        mutate(trial, a, b, random[2] & 1);
        const double now = s->cost(s->user, trial, s->n);
        if (now <= best) {
            best = now;
            memcpy(order, trial, bytes);
        }
    }
    return best;
}
