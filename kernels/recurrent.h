/* Recurrent layers: the gated delta rule with the convolution and the gates around it. Operands of
 * cs_ops.delta and its neighbours (kernels/ops.h, where dtypes and accumulation are defined).
 *
 * Rows of a document follow each other; mask->segment says where documents start, nothing else of
 * the mask is looked at. State, convolution and gradients never cross from one into the next. */
#ifndef CS_KERNELS_RECURRENT_H
#define CS_KERNELS_RECURRENT_H

#include <stdint.h>

#define CS_DELTA_CHUNK     64  /* rows that are worked on at once */
#define CS_DELTA_MAX_DIM   256 /* of keys and of values */
#define CS_SHORT_CONV_TAPS 8   /* at most */

struct cs_delta_shape {
    int32_t heads, key_heads;             /* of values; of queries and keys, which divides heads */
    int32_t key_dim, value_dim;           /* of one head */
    int64_t q_stride, v_stride, o_stride; /* elements between rows; q_stride of k too */
    float eps;                            /* q and k are divided by sqrt(|x|^2 + eps) */
};

/* q, k (rows, key_heads, key_dim) and v (rows, heads, value_dim) act; q is scaled by key_dim^-1/2
 * after it is normalised. g (log of the decay, <= 0) and beta (0..1) (rows, heads) fp32, dense. */
struct cs_delta_in {
    const void *q, *k, *v;
    const float *g, *beta;
};

/* Gradients of the same layout, all overwritten. */
struct cs_delta_out {
    void *dq, *dk, *dv;
    float *dg, *dbeta;
};

/* Rows that begin or end in the middle of a document, the rest of which is elsewhere. Over the rows of
 * one document the state that leaves is an affine map of the one that enters, S' = map S + state; and
 * the gradient of the one that enters is map^T dS' + d_state. A map is (heads, key_dim, key_dim), a
 * state (heads, key_dim, value_dim), both fp32 and dense. NULL: not wanted. */
struct cs_delta_pass {
    float *map;   /* of rows that are one segment */
    float *state; /* what leaves the last segment, if zeros enter it */
    float
        *d_state; /* what the outputs of the first segment alone ask of the state that enters it */
};

#endif
