/* The vectorised loops of attention and loss over one row of scores. Sums use CS_LANES lanes. */
#ifndef CS_KERNELS_CPU_SOFTMAX_ROWS_H
#define CS_KERNELS_CPU_SOFTMAX_ROWS_H

#include <stdbool.h>
#include <stdint.h>

/* x = cap tanh(x / cap) */
void cs_rows_cap(int64_t n, float cap, float *x);
/* x = value where allow is 0 */
void cs_rows_select(int64_t n, const uint8_t *allow, float value, float *x);
/* largest element; NaN are passed over */
float cs_rows_max(int64_t n, const float *x);
/* x = exp(x - max); returns the sum */
float cs_rows_exp(int64_t n, float max, float *x);
/* the sum of exp(x - max) */
float cs_rows_exp_sum(int64_t n, float max, const float *x);
/* z becomes exp(z - max) inv_sum, times the slope of the cap (1 without one: inv_cap 0) */
void cs_rows_loss_grad(int64_t n, float max, float inv_sum, float inv_cap, float *z);
/* All before it are smaller and none after it is larger: false wherever a NaN takes part. */
bool cs_rows_is_best(int64_t n, const float *z, int64_t which);
/* x *= factor */
void cs_rows_scale(int64_t n, float factor, float *x);
/* p = exp(z - lse) */
void cs_rows_prob(int64_t n, float lse, const float *z, float *p);
/* ds (on entry dp) = p (dp - dot) (1 - (z inv_cap)^2); inv_cap 0: no cap */
void cs_rows_score_grad(int64_t n, float dot, float inv_cap, const float *z, const float *p,
                        float *ds);
float cs_rows_dot(int64_t n, const float *a, const float *b);

#endif
