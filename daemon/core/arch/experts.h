/* Blocks whose ffn is a mixture of experts: every row goes to top_k of n gated MLPs, chosen by a
 * router, and their outputs are summed with the router's probabilities as weights. */
#ifndef CS_MODEL_EXPERTS_H
#define CS_MODEL_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

struct cs_experts {
    int32_t n, top_k;
    int32_t width;  /* inner width of one expert */
    bool is_normed; /* the weights of a row's experts are divided by their sum */
    float balance;  /* share of the balancing loss in the loss that is trained; 0: none */
    /* not of the model, but of a rank's view of it: so many ranks share the experts, this one has the
     * at-th part of them; 0 or 1: it has all */
    int32_t ranks, at;
};

/* Numbers of 64 bits that say how busy the experts of a slot are, on its way through the stages: of every
 * expert two (kernels/experts.h); 0: nothing asks. */
static inline int32_t cs_experts_loads(const struct cs_experts *e)
{
    return e->balance > 0 ? 2 * e->n : 0;
}

static inline int32_t cs_experts_ranks(const struct cs_experts *e)
{
    return e->ranks > 1 ? e->ranks : 1;
}

/* the first expert of a rank's part; of a rank behind the last: how many there are */
static inline int32_t cs_experts_begin(const struct cs_experts *e, int32_t rank)
{
    return (int32_t)((int64_t)e->n * rank / cs_experts_ranks(e));
}

/* experts of a rank */
static inline int32_t cs_experts_held(const struct cs_experts *e, int32_t rank)
{
    return cs_experts_begin(e, rank + 1) - cs_experts_begin(e, rank);
}

/* The most pairs of a row and an expert that can come to this rank for each of its own rows, where
 * all ranks have as many. */
static inline int32_t cs_experts_pairs(const struct cs_experts *e)
{
    return cs_experts_ranks(e) * e->top_k;
}

enum { CS_EXPERTS_MAX = 512 };

#endif
