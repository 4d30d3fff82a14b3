/* Frozen-aware partition of a chain of layers into stages: contiguous min-max dynamic programming,
 * O(stages * layers^2). Ties: the earliest cut. Source: Cornstarch, stage partition. */
#ifndef CS_PLAN_MAKE_SPLIT_H
#define CS_PLAN_MAKE_SPLIT_H

#include <stdint.h>

#include "core/base/status.h"

/* cost[n] >= 0; sizes[stages] receives layers per stage (each >= 1); bottleneck: largest stage sum.
 * CS_PLAN when stages > n or stages < 1. */
enum cs_status cs_split(const double *cost, int n, int stages, int *sizes, double *bottleneck,
                        struct cs_err *err) CS_NODISCARD;

/* With a memory cap: in_flight[s] microbatches are alive on stage s, the stage holds
 * beside[s] + sum(weight[i]) + in_flight[s] * sum(saved[i]) <= cap. cap <= 0: none. beside NULL: nothing; it may be
 * below 0. */
struct cs_split_memory {
    const double *weight, *saved;
    const double *in_flight, *beside;
    double cap;
};
enum cs_status cs_split_capped(const double *cost, int n, int stages,
                               const struct cs_split_memory *memory, int *sizes, double *bottleneck,
                               struct cs_err *err) CS_NODISCARD;

#endif
