/* What the device of the test computed beside what transformers has, in fp32 or in bf16. */
#ifndef CS_TESTS_SUPPORT_GOLDEN_COMPARE_H
#define CS_TESTS_SUPPORT_GOLDEN_COMPARE_H

#include "core/model/graph.h"

/* In bf16 single values are rounded: directions are compared, and gradients by the norm of what they are
 * off. What bf16 leaves open is the family's: PyTorch in bf16 on the CPU, against the same fp32 figures,
 * has logits as a whole from 0.9993 to 0.9999, their worst row from 0.9937 (qwen2) to 0.9998, gradients
 * off by 0.04 to 0.09 of their norm; where scores are not divided (gemma4) 0.9916 and 0.28, with recurrent
 * blocks (qwen3.5) 0.9962 and 0.46; a row of mixtral whose expert is chosen by less than bf16 holds takes
 * another one. */
struct golden_limits {
    const char *family;
    double all, row, gradient, steps; /* steps: losses and norms of five */
};

extern const struct golden_limits golden_usual;
const struct golden_limits *golden_limits_of(const struct cs_graph *graph);

/* acts of the device as fp32 on the host; the caller frees */
float *golden_fetch(const void *acts, int64_t n);
/* losses and norms: the tolerance of fp32, or what bf16 allows after five steps of models whose
 * weights are as large as these */
double golden_allowed(const struct golden_limits *bf16, double tolerance);
void golden_assert_cosine(const char *what, int64_t n, const float *got, const float *want,
                          double least);
/* n acts: each within the tolerance, in bf16 together by their cosine */
void golden_assert_close(const char *what, int64_t n, const void *acts, const float *want,
                         double tolerance, double cosine);
/* ||got * scale - want|| <= 1e-3 ||want|| + noise, in bf16 <= bf16 ||want|| and more noise. The gradient of a
 * key's bias is zero, because it shifts a row of scores: there rounding noise meets rounding noise. */
void golden_assert_norm_close(const char *what, int64_t n, const float *grad, double scale,
                              const float *want, double noise, double bf16);

#endif
