/* The groups of GPU operator tests; each runs its cases and prints one line per operator. */
#ifndef CS_TESTS_GPU_GROUPS_H
#define CS_TESTS_GPU_GROUPS_H

#include "gpu/lab.h"

void group_matmul(struct lab *lab); /* gemm, gemm_wgrad, bias_add, bias_grad */
void group_linear(struct lab *lab); /* linear, linear_dgrad, linear_wgrad, tuned plans */
void group_rows(
    struct lab *lab); /* norm, add_norm, rope, activations, embed, gather, scatter, patches */
void group_heads(struct lab *lab);     /* norms of heads, scales of columns */
void group_mixes(struct lab *lab);     /* weighted rows of tables, unfold and fold */
void group_attention(struct lab *lab); /* attention and its gradient */
void group_delta(struct lab *lab);     /* gated delta rule, parts of its documents */
void group_recurrent(struct lab *lab); /* its gates, short convolution */
void group_experts(struct lab *lab);   /* routing, products by expert, parts of rows */
void group_loss(struct lab *lab);      /* linear_xent, the loss over words in parts */
void group_train(struct lab *lab);     /* adamw, sumsq */
void group_states(struct lab *lab);    /* gradients and optimizer in bf16 */
void group_fresh(struct lab *lab);     /* gradients that nothing was added to before */
void group_errors(struct lab *lab);    /* what is refused, and how it is told */

#endif
