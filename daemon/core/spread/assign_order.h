/* The order of slots inside a replica. It changes the order in which gradients are added, nothing
 * else. */
#ifndef CS_SPREAD_ASSIGN_ORDER_H
#define CS_SPREAD_ASSIGN_ORDER_H

#include "core/spread/assign_pipe.h"

enum { CS_ORDER_ROUNDS = 300 };

/* DistTrain's order (reconstructed): the smallest encoder cost first, the stages - 1 next smallest
 * last; between them the slots whose forward fits the idle window of the first stage best. order
 * (n) receives the slot of every place. O(n^2 * stages). */
void cs_order_disttrain(const struct cs_pipe *pipe, const struct cs_pipe_slots *slots,
                        struct cs_arena *arena, int32_t *order);
/* ascending by weight, ties by slot */
void cs_order_sorted(const double *weight, int32_t n, struct cs_arena *arena, int32_t *order);

/* Time of a step with the slots in this order, smaller is better; pure. */
typedef double (*cs_order_cost)(void *user, const int32_t *order, int32_t n);

struct cs_order_search {
    int32_t n;
    const double *weight; /* (n) of a slot, for the start: smallest first, second smallest last */
    int32_t rounds;       /* 0: CS_ORDER_ROUNDS */
    uint64_t seed;
    cs_order_cost cost;
    void *user;
};

/* Hill climbing on cost: swap two or move one, keep what does not cost more. order (n) holds an
 * order to start from (taken when it beats the start above) and receives the best; returns its
 * cost, which is never above that of the order given and never rises with more rounds. */
double cs_order_search(const struct cs_order_search *search, struct cs_arena *arena,
                       int32_t *order);

#endif
