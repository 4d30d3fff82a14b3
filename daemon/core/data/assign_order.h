/* The order of slots inside a lane. It changes the order in which gradients are added, nothing
 * else. */
#ifndef CS_DATA_ASSIGN_ORDER_H
#define CS_DATA_ASSIGN_ORDER_H

#include "core/data/assign.h"
#include "core/data/assign_pipe.h"

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

/* The orders above on a whole assignment, lane by lane, with the recurrence of assign_pipe.h. */
enum cs_order_how {
    CS_ORDER_KEPT,
    CS_ORDER_SORTED, /* by enc + llm, the smallest first */
    CS_ORDER_DISTTRAIN,
    CS_ORDER_SEARCHED,
    CS_ORDER_HOWS
};

struct cs_order_lanes {
    enum cs_order_how how;
    struct cs_pipe pipe;
    int32_t rounds; /* SEARCHED, as above */
    uint64_t seed;
};

/* Renumbers the slots of every lane. Not after a deferral, whose pairs are neighbours. */
void cs_order_lanes(const struct cs_assign_samples *samples, const struct cs_order_lanes *options,
                    struct cs_arena *arena, struct cs_assign_result *result);
/* Time of the slowest lane with the slots as they are. */
double cs_order_makespan(const struct cs_pipe *pipe, const struct cs_assign_result *result,
                         struct cs_arena *arena);
bool cs_order_from_name(const char *name, enum cs_order_how *how);

#endif
