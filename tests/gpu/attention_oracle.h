/* Naive attention on the device, to compare the operators with: in fp64, and as an eager program in
 * bf16 computes it (every matrix is rounded when it is written), which says how much error the
 * number format excuses. The rule is asked for every pair. Not fast, and nothing is shared with the
 * operators but core/mask/rule.h. Ends the program on errors of the device. */
#ifndef CS_TESTS_GPU_ATTENTION_ORACLE_H
#define CS_TESTS_GPU_ATTENTION_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_attention_shape;
struct cs_mask_plan;

/* Operands of the operators in device memory, bf16 or fp32, strides as in the shape. */
struct att_operands {
    const void *q, *k, *v, *d_o;
    bool is_bf16;
};

/* Dense: o, dq (tokens, heads, head_dim), dk, dv (keys, kv_heads, head_dim), lse (heads, tokens).
 * noise: what dq and dk are off by, one standard deviation, when rowsum(dO o) is taken from
 * an o that was rounded to bf16, made with p in bf16, as every flash attention does. It matters where dq is a difference
 * of nearly equal numbers. Only exact has it. dsink (heads): zeros without sinks; dsink_noise: the
 * same for it, dsink_size: the sum of the sizes of its terms. */
struct att_reference {
    double *o, *lse, *dq, *dk, *dv;
    double *dq_noise, *dk_noise;
    double *dsink, *dsink_noise, *dsink_size;
};

/* A result, for the host. */
struct att_difference {
    double worst, worst_eager; /* largest |x - exact| of the operator, beyond twice the noise, and
                                  of the eager program */
    double largest;            /* largest |exact| */
    int64_t bad_rows;          /* (row, head) whose error is too large in the mean */
    int64_t bad_row;           /* one of them: row * heads + head */
};

#ifdef __cplusplus
extern "C" {
#endif

struct att_oracle; /* owns device memory that grows as needed */

struct att_oracle *att_oracle_new(void *stream);
void att_oracle_free(struct att_oracle *oracle);

/* n numbers, normally distributed */
void att_random(void *stream, void *x, bool is_bf16, int64_t n, uint64_t seed);

/* plan: device arrays, keys where it has any. The two references stay until the next call. */
void att_oracle_run(struct att_oracle *oracle, const struct cs_attention_shape *shape,
                    const struct cs_mask_plan *plan, const struct att_operands *x,
                    struct att_reference *exact, struct att_reference *eager);

/* x (rows, heads, dim) with a stride against dense references; eager and noise may be NULL */
struct att_difference att_compare(struct att_oracle *oracle, const void *x, bool is_bf16,
                                  int64_t stride, int32_t rows, int32_t heads, int32_t dim,
                                  const double *exact, const double *eager, const double *noise);
/* n values of lse that are off by more than tol, or wrongly (not) infinite */
int64_t att_compare_lse(struct att_oracle *oracle, const float *lse, const double *exact, int64_t n,
                        double tol);
/* 16-bit words in columns used .. stride of (rows, stride) that are not 0xffff */
int64_t att_changed_gap(struct att_oracle *oracle, const void *x, int32_t rows, int64_t stride,
                        int64_t used);
uint64_t att_hash(struct att_oracle *oracle, const void *x, size_t bytes); /* a multiple of 4 */
void att_download(struct att_oracle *oracle, double *host, const double *x, int64_t n);
/* to fp32 on the host, dense */
void att_download_rows(struct att_oracle *oracle, float *host, const void *x, bool is_bf16,
                       int32_t rows, int64_t stride, int32_t width);

#ifdef __cplusplus
}
#endif

#endif
