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
};

enum { CS_EXPERTS_MAX = 512 };

#endif
