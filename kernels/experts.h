/* Mixtures of experts: every row goes to top_k of them. Operands of cs_ops.moe_* (kernels/ops.h).
 *
 * A pair is a row and one of its experts. Pairs stand in places, sorted by expert and then by row,
 * so that an expert's rows follow each other; there are rows * top_k places, however the rows are
 * spread over the experts: nothing is dropped, no expert has a capacity. */
#ifndef CS_KERNELS_EXPERTS_H
#define CS_KERNELS_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

#define CS_MOE_MAX_EXPERTS 512

struct cs_moe_shape {
    int32_t experts, top_k;
    bool is_normed;  /* the probabilities of a row's experts are divided by their sum */
    int64_t counted; /* rows that loads are of: the first ones */
};

/* All are outputs of moe_route, int32 and fp32, also for what comes later. */
struct cs_moe_routes {
    int32_t *expert; /* (rows, top_k) the strongest first, of equal ones the lowest */
    int32_t *place;  /* (rows, top_k) */
    int32_t *token;  /* (rows * top_k) row of every place */
    int32_t *first;  /* (experts + 1) first place of every expert */
    float *weight;   /* (rows * top_k) by place: probability of the pair */
};

/* Loads of experts are sums over rows, and over layers: (2, experts) int64. Of every expert its pairs, and
 * its probability in units of 2^-32, rounded for every row: whole numbers have one sum in any order. */
#define CS_MOE_LOADS 2
#define CS_MOE_UNIT  4294967296.0

struct cs_moe_groups {
    const int32_t *first; /* (experts + 1), in the memory of the device */
    int32_t experts;
    int64_t places;
};

#endif
