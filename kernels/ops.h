/* The operator table: one signature per operator, implemented by kernels/cpu (reference, fp32) and
 * by the CUDA plugin. Operators allocate nothing and synchronise nothing; they run on the stream of
 * the context and use its workspace.
 *
 * dtypes: "act" is the activation and weight type of the back end (fp32 on CPU, bf16 on GPU),
 * passed as void *; gradients of weights are of the type that the context names ("grad"); norms,
 * optimizer state and losses are fp32 (or fp64 where said). Matrices are row-major; a linear weight
 * is (out, in) as in PyTorch. Every gradient of a weight is ACCUMULATED (+=), or, where the context
 * says that it is the first (is_grad_new), OVERWRITTEN as if 0 lay there; every activation gradient
 * is OVERWRITTEN, unless a comment says otherwise. Row counts may be 0: then nothing
 * happens. Results are deterministic and do not depend on the alignment or on the address of a
 * buffer; only products on a GPU may round differently where pointers are not aligned to 16 bytes,
 * or where plans are measured (tune in kernels/device.h). */
#ifndef CS_KERNELS_OPS_H
#define CS_KERNELS_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/mask/plan.h"
#include "kernels/experts.h"
#include "kernels/recurrent.h"

#define CS_OPS_VERSION 12

enum cs_act {
    CS_ACT_NONE,
    CS_ACT_GELU, /* erf */
    CS_ACT_GELU_TANH,
    CS_ACT_QUICK_GELU, /* x sigmoid(1.702 x) */
    CS_ACT_SILU,
    CS_ACT_RELU,
    CS_ACT_SIGMOID, /* of gates; no layer of a family ends in it */
    CS_ACT_KINDS
};

/* What a part of the words says of a row (xent_part): its largest logit; the sum of exp(logit - that);
 * the label's logit; and 1 where the label is the first of the largest among these words, 0 where it is
 * not, -1 where it is no word of the part. */
enum { CS_XENT_MAX, CS_XENT_SUM, CS_XENT_LABEL, CS_XENT_IS_BEST, CS_XENT_STATS };

enum cs_norm {
    CS_NORM_LAYER, /* (x - mean) / sqrt(var + eps) * w + b */
    CS_NORM_RMS,   /* x / sqrt(mean(x^2) + eps) * (offset + w) */
    CS_NORM_KINDS
};

/* What gradients of weights are stored in. bf16 (uint16_t on the host): what one call adds to a
 * value is summed in fp32, added to it in fp32 and rounded to nearest even once; linear_xent does
 * so for every chunk of rows. */
enum cs_grad_type { CS_GRAD_F32, CS_GRAD_BF16, CS_GRAD_TYPES };

struct cs_device_ops;

struct cs_ctx {
    void *stream;    /* cudaStream_t, NULL on CPU */
    void *workspace; /* scratch, at least workspace_bytes(shape) of the operator */
    size_t workspace_bytes;
    void *handle; /* private to the back end */
    enum cs_grad_type grad;
    /* not 0: gradients of weights that the call makes are overwritten, not read (embed_grad, which
     * leaves most rows alone, always adds). Rows 0: nothing happens here either. */
    int is_grad_new;
};

struct cs_attention_shape {
    int32_t tokens, heads, kv_heads, head_dim;
    int32_t k_tokens;                      /* rows of k and v; 0: tokens */
    int32_t q_stride, kv_stride, o_stride; /* elements between rows (tokens) */
    float scale, softcap;                  /* softcap 0: none; else s = c tanh(s / c) */
    bool is_deterministic; /* gradients equal to the bit from run to run; may be slower */
    /* Attention sinks: every row sees one more score, sink[head] (heads) fp32, that no cap bends
     * and that has no value: p_j = exp(s_j) / (exp(sink) + sum exp(s)). NULL, or -inf: none. In
     * attention_grad dsink (heads) fp32 is ACCUMULATED, in a fixed order; NULL: not needed. */
    const float *sink;
    float *dsink;
};

/* Values of a patch: (channels, frames, patch, patch), as the weight of a convolution is stored, or
 * (frames, patch, patch, channels). Pixels are bytes (height, width, channels). */
struct cs_patch_shape {
    int32_t channels, frames, patch;
    int32_t is_channels_last;
};

/* Where a patch begins, in bytes, and the bytes from line to line and from frame to frame (0: the same
 * frame again). */
struct cs_patch_place {
    int64_t at;
    int32_t line, frame;
};

struct cs_adamw {
    float lr, beta1, beta2, eps, weight_decay;
    float grad_scale; /* every gradient is multiplied by it first: clip / trained tokens */
    int64_t step;     /* 1 for the first update: bias correction */
};

/* One parameter of adamw_many: n elements each; w as in adamw. weight_decay replaces the one of the
 * common struct cs_adamw. */
struct cs_adamw_tensor {
    int64_t n;
    float weight_decay;
    const float *grad;
    float *master, *exp_avg, *exp_avg_sq;
    void *w;
};

/* One parameter of adamw_bf16_many: n elements each, all bf16 (uint16_t on the host). */
struct cs_adamw_bf16_tensor {
    int64_t n;
    float weight_decay;
    uint64_t key;  /* of the random bits: another one for every tensor and step */
    int64_t first; /* index of element 0 in the whole tensor, of which this may be a part */
    const void *grad;
    void *w, *exp_avg, *exp_avg_sq;
};

struct cs_sumsq_tensor {
    int64_t n;
    const void *x;
};

/* A norm over n columns in all, of which an operator has some: sum (rows, heads) fp32 is what
 * norm_heads_sums makes of all of them, added up. */
struct cs_norm_all {
    int64_t n;
    const float *sum;
};

struct cs_ops {
    uint32_t version;
    const char *name; /* "cpu", "cuda" */
    size_t act_bytes; /* bytes of one act element */

    /* c (m, n) = alpha op(a) op(b) + beta c, row-major with leading dimensions; act in, act out */
    void (*gemm)(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                 float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                 void *c, int64_t ldc);
    /* dw (out, in) grad += dy (rows, out)^T x (rows, in) */
    void (*gemm_wgrad)(struct cs_ctx *ctx, int64_t rows, int64_t out, int64_t in, const void *dy,
                       int64_t ld_dy, const void *x, int64_t ldx, void *dw);
    /* y (rows, n) += bias (n) */
    void (*bias_add)(struct cs_ctx *ctx, int64_t rows, int64_t n, void *y, int64_t ldy,
                     const void *bias);
    /* db (n) grad += column sums of dy (rows, n) */
    void (*bias_grad)(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *dy, int64_t ld_dy,
                      void *db);

    /* A linear layer: y (rows, out) = act(x w^T + bias) + residual. x (rows, in) with row stride
     * ldx, w (out, in); bias (out) or NULL; residual (rows, out) or NULL, not y itself. pre (rows,
     * out) receives x w^T + bias for the backward, NULL: not needed, always NULL for CS_ACT_NONE.
     * The same as gemm, bias_add, act and add in this order, with fewer roundings in between where
     * the back end fuses them. */
    void (*linear)(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *x,
                   int64_t ldx, const void *w, const void *bias, const void *residual,
                   enum cs_act act, void *pre, void *y);
    /* dx (rows, in) = (dy w) act'(pre): the gradient with respect to the pre-activation of the
     * layer below. dy (rows, out), w (out, in), pre (rows, in); CS_ACT_NONE: pre is NULL */
    void (*linear_dgrad)(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *w, enum cs_act act, const void *pre, void *dx);
    /* dw (out, in) grad += dy (rows, out)^T x (rows, in), db (out) grad += column sums of dy; each
     * may be NULL */
    void (*linear_wgrad)(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *x, void *dw, void *db);

    /* y (rows, n) from x (rows, n); stat (rows, 2) fp32 keeps mean and 1/std (RMS: 0 and 1/rms) */
    void (*norm)(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                 float offset, const void *x, const void *w, const void *b, void *y, float *stat);
    /* sum = a + b (rows, n) in act type, y and stat as norm of sum (the rounded one). sum may be a
     * or b; bias NULL: none */
    void (*add_norm)(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                     float offset, const void *a, const void *b, const void *w, const void *bias,
                     void *sum, void *y, float *stat);
    /* dx = dx_in + d norm; dx_in NULL: 0 (it is the residual's gradient). dw, db (n) grad NULL: not
     * needed */
    void (*norm_grad)(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                      const void *x, const void *w, const float *stat, const void *dy,
                      const void *dx_in, void *dx, void *dw, void *db);

    /* RMS norm of every head by itself, before queries and keys turn: x (rows, heads, n) and y alike,
     * rows ld_x, ld_y elements apart; w (n), NULL: all 1 and no offset; stat (rows, heads) keeps
     * 1 / rms. y may be x. all: of norms of which others have the other columns, NULL: of no such. */
    void (*norm_heads)(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n, float eps,
                       float offset, const void *x, int64_t ld_x, const void *w,
                       const struct cs_norm_all *all, void *y, int64_t ld_y, float *stat);
    /* dx = (adds: dx +) gradient of dy, each with its own distance of rows and apart from the others;
     * dw (n) grad NULL: not needed */
    void (*norm_heads_grad)(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *w,
                            const float *stat, const struct cs_norm_all *all, const void *dy,
                            int64_t ld_dy, void *dx, int64_t ld_dx, int adds, void *dw);
    /* sum (rows, heads) for cs_norm_all.sum, of the columns that are here: of squares of x, or, with
     * dy (else NULL, and w and stat are not read), of dy (offset + w) x stat */
    void (*norm_heads_sums)(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *w,
                            const float *stat, const void *dy, int64_t ld_dy, float *sum);
    /* y (rows, n) = x w + residual: w (n) by column, or the one number w (w_step 0, else 1);
     * residual NULL: 0. y may be x or residual. */
    void (*scale_columns)(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x, const void *w,
                          int32_t w_step, const void *residual, void *y);
    /* dw (n) grad += column sums of x dy, both (rows, n) */
    void (*scale_columns_wgrad)(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                                const void *dy, void *dw);

    /* rotate-half rope in place on x (rows, heads, head_dim), row stride ldx; cos/sin fp32
     * (rows, rot_dim / 2), rot_dim <= head_dim. inverse: the adjoint (backward) */
    void (*rope)(struct cs_ctx *ctx, int64_t rows, int32_t heads, int32_t head_dim, int32_t rot_dim,
                 int64_t ldx, void *x, const float *cos, const float *sin, int inverse);

    /* y = act(x); n elements */
    void (*act)(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, void *y);
    void (*act_grad)(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, const void *dy,
                     void *dx);
    /* y = act(gate) * up; (rows, n) each, gate and up with row stride ld, y contiguous */
    void (*gated)(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n, const void *gate,
                  const void *up, int64_t ld, void *y);
    /* dgate may be gate where dup is up, with the same stride */
    void (*gated_grad)(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n,
                       const void *gate, const void *up, int64_t ld, const void *dy, void *dgate,
                       void *dup, int64_t ld_d);
    /* y = a + b; n elements; y may alias a or b */
    void (*add)(struct cs_ctx *ctx, int64_t n, const void *a, const void *b, void *y);

    /* y (rows, n) = table[ids] * scale; an id < 0 gives a zero row */
    void (*embed)(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                  const void *table, float scale, void *y);
    /* dtable[ids] grad += dy * scale in row order; ids < 0 skipped */
    void (*embed_grad)(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                       const void *dy, float scale, void *dtable);
    /* y (rows, n) = x[index]; index < 0: zero row */
    void (*gather_rows)(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                        const void *x, void *y);
    /* y[index] = x (rows, n): each target at most once; add != 0: y[index] += x */
    void (*scatter_rows)(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                         const void *x, void *y, int add);

    /* y (rows, heads, dim) = x: heads x_head, y_head elements apart, rows x_row, y_row */
    void (*copy_heads)(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                       int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head);
    /* the same, y += x */
    void (*add_heads)(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                      int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head);
    /* y (rows, n) = x weight, weight (rows) fp32; y may be x */
    void (*scale_rows)(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                       const float *weight, void *y);
    /* dx = dy weight, may be dy; dweight (rows) fp32 = row sums of dy x */
    void (*scale_rows_grad)(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                            const float *weight, const void *dy, void *dx, float *dweight);
    /* y (rows, n) = residual (rows, n), NULL: 0, + x[index[row, 0]] + x[index[row, 1]] ..., summed
     * in fp32 in this order; index (rows, terms) */
    void (*sum_rows)(struct cs_ctx *ctx, int64_t rows, int32_t terms, int64_t n,
                     const int32_t *index, const void *x, const void *residual, void *y);

    /* y (rows, n) = sum of weight[e] x[index[e]] over e from start[r] to start[r + 1] - 1, in fp32 in
     * that order; add != 0: y += it. start (rows + 1); x and y apart */
    void (*mix_rows)(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                     const int32_t *index, const float *weight, const void *x, int add, void *y);
    /* The same of dy into a weight's gradient: dx (rows, n) grad += */
    void (*mix_rows_grad)(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                          const int32_t *index, const float *weight, const void *dy, void *dx);
    /* y (rows, n, taps): y[r][j][k] = x[index[r * taps + k]][j], an index < 0: 0; index NULL: r * taps
     * + k. So a convolution is a product with a weight that is stored (out, n, taps) */
    void (*unfold)(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *index,
                   const void *x, void *y);
    /* Its adjoint: dx (rows, n)[r][j] = sum of dy[entry[e] / taps][j][entry[e] % taps] over e from
     * start[r] to start[r + 1] - 1, in fp32; start NULL: the one entry r */
    void (*fold)(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *start,
                 const int32_t *entry, const void *dy, void *dx);
    /* Patches of pictures as rows of y (rows, values): those at place[r] of pixels, value = (pixel *
     * rescale - mean[c]) / std[c] in fp32; mean, std (channels) */
    void (*patches)(struct cs_ctx *ctx, int64_t rows, const struct cs_patch_shape *shape,
                    const struct cs_patch_place *place, const uint8_t *pixels, float rescale,
                    const float *mean, const float *std, void *y);

    /* Fill the lists and bitmaps of mask->cells (core/mask/cells.h) from the words of mask and,
     * where set, mask->keys: all arrays are the caller's, q_row and k_row are given. NULL: the back
     * end's attention works from documents. Workspace: mask_workspace bytes. */
    void (*mask_build)(struct cs_ctx *ctx, const struct cs_mask_plan *mask,
                       struct cs_mask_cells *cells);
    size_t (*mask_workspace)(int32_t n_q_tiles, int32_t n_k_tiles, int32_t bitmap_room);

    /* q (tokens, heads, head_dim), k and v (tokens, kv_heads, head_dim), o like q; lse (heads,
     * tokens) fp32, with the sink in it. A row that sees nothing gives o = 0, lse = -inf (sink,
     * where there is one), and zero gradients. attention_grad finds the sink in lse: only dsink
     * makes it look at sink again. */
    void (*attention)(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                      const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                      void *o, float *lse);
    void (*attention_grad)(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                           const struct cs_mask_plan *mask, const void *q, const void *k,
                           const void *v, const void *o, const float *lse, const void *d_o,
                           void *dq, void *dk, void *dv);
    size_t (*attention_workspace)(const struct cs_attention_shape *shape,
                                  const struct cs_mask_plan *mask);
    /* Results of the same queries over n_parts sets of keys that do not overlap become the result
     * over all of them: lse = log sum exp(lse_i), o = sum exp(lse_i - lse) o_i, summed in fp32 in
     * the order of the parts. part_o (n_parts) of o's shape, part_stride elements apart (below 0:
     * each before the one in front of it); part_lse (n_parts, heads, tokens). o and lse may be one
     * of the parts. attention_grad of a part takes
     * the merged o and lse; gradients of q are then summed over the parts. k_tokens, scale and
     * strides of k and v are not looked at. A sink belongs to one part: the forward pass of that
     * part alone has it, attention_grad of that part alone (with the merged o and lse, hence of
     * all rows) has dsink; this function does not look at it. */
    void (*attention_merge)(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            int32_t n_parts, int64_t part_stride, const void *part_o,
                            const float *part_lse, void *o, float *lse);

    /* The gated delta rule (kernels/recurrent.h): with S = 0 before a document's first row, row by
     * row S <- e^g S, u = beta (v - k S), S <- S + k^T u, o = q S. o (rows, heads, value_dim). The
     * backward keeps nothing: it finds the states again. The operators of recurrent layers
     * are NULL where a back end has none. */
    void (*delta)(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                  const struct cs_mask_plan *mask, const struct cs_delta_in *in, void *o);
    void (*delta_grad)(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_out *out);
    size_t (*delta_workspace)(const struct cs_delta_shape *shape, const struct cs_mask_plan *mask);
    /* The same over a part of the rows (struct cs_delta_pass): state enters the first segment, NULL:
     * zeros; d_state is the gradient of the one that leaves the last, NULL: zeros. Workspaces as
     * above. */
    void (*delta_part)(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const float *state, void *o);
    void (*delta_part_grad)(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                            const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                            const float *state, const float *d_state, const void *d_o,
                            const struct cs_delta_out *out);
    /* d_o is read for out->d_state only */
    void (*delta_pass)(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_pass *out);
    /* state = map state + add, or map^T state + add */
    void (*delta_join)(struct cs_ctx *ctx, const struct cs_delta_shape *shape, const float *map,
                       bool is_transposed, const float *add, float *state);
    /* g = -exp(a_log) softplus(a + dt_bias), beta = sigmoid(b), (rows, heads) each; a and b with
     * row stride ld, g and beta dense fp32; a_log and dt_bias (heads) */
    void (*delta_gate)(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                       const void *b, int64_t ld, const void *a_log, const void *dt_bias, float *g,
                       float *beta);
    /* da, db with row stride ld_d; da_log, ddt_bias (heads) grad, NULL: not needed */
    void (*delta_gate_grad)(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                            const void *b, int64_t ld, const void *a_log, const void *dt_bias,
                            const float *dg, const float *dbeta, void *da, void *db, int64_t ld_d,
                            void *da_log, void *ddt_bias);
    /* y (rows, channels) = silu(causal convolution of every channel by itself): w (channels, taps),
     * the last tap is the row's own; rows before the document count as 0 */
    void (*short_conv)(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                       int32_t taps, const void *x, int64_t ldx, const void *w, void *y,
                       int64_t ldy);
    /* dx has the row stride of x, dy ldy; dw (channels, taps) grad, NULL: not needed */
    void (*short_conv_grad)(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                            int32_t taps, const void *x, int64_t ldx, const void *w, const void *dy,
                            int64_t ldy, void *dx, void *dw);

    /* Mixtures of experts (kernels/experts.h): which experts a row goes to, from logits (rows,
     * experts) act. The softmax is taken over all experts in fp32. */
    void (*moe_route)(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                      const void *logits, const struct cs_moe_routes *routes);
    /* load (CS_MOE_LOADS, experts) += pairs and probabilities of the counted rows */
    void (*moe_load)(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                     const void *logits, const struct cs_moe_routes *routes, int64_t *load);
    /* dlogits (rows, experts) act from dweight (rows * top_k) fp32, by place as routes->weight is,
     * and from balance times the sum over experts e and the counted rows of pairs_e times the
     * probability of e, where pairs (experts), the first part of loads, is a constant; NULL: 0 */
    void (*moe_route_grad)(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                           const void *logits, const struct cs_moe_routes *routes,
                           const float *dweight, float balance, const int64_t *pairs,
                           void *dlogits);
    /* y (n) += x: loads of rows that are elsewhere */
    void (*add_counts)(struct cs_ctx *ctx, int64_t n, const int64_t *x, int64_t *y);
    /* Products with a matrix for each expert, w (experts, out, in); x (places, in), dy and y
     * (places, out): rows first[e] to first[e + 1] - 1 are those of expert e. Else as linear,
     * linear_dgrad and linear_wgrad; dw (experts, out, in) grad */
    void (*moe_linear)(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                       int64_t out, const void *x, const void *w, void *y);
    void (*moe_linear_dgrad)(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *dy, const void *w, void *dx);
    void (*moe_linear_wgrad)(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *dy, const void *x, void *dw);

    /* Fused chunked linear + cross-entropy over rows that have a label (labels >= 0 all).
     * x (rows, in), w (vocab, in). loss: fp64, += sum over rows. row_loss (rows)
     * fp64: that of each, may be NULL. correct (rows) uint8: 1 where the
     * label is the argmax (lowest index wins a tie), may be NULL. dx (rows, in) act: gradient of
     * the loss SUM, overwritten, NULL: forward only. dw (vocab, in) grad: accumulated, NULL:
     * frozen. softcap 0: none. Logits are never materialised for more than one chunk of rows. */
    void (*linear_xent)(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab, const void *x,
                        const void *w, const int32_t *labels, float softcap, double *loss,
                        double *row_loss, uint8_t *correct, void *dx, void *dw);
    /* Bytes for chunks of the best size. A GPU also takes less (a chunk of min(rows, 128) is the
     * least): smaller chunks, dw is read and written once for each. */
    size_t (*linear_xent_workspace)(int64_t rows, int64_t in, int64_t vocab);

    /* The same loss where several ranks have some words of the vocabulary each, in three steps; NULL where
     * a back end has not got them. Of one part: z (rows, words) act are logits, left as the third step
     * wants them; labels (rows): the label's number among these words, -1: it is another part's. stat (rows,
     * CS_XENT_STATS) fp32. */
    void (*xent_part)(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                      float softcap, void *z, float *stat);
    /* Of all parts, in the order of their words: stat (parts, rows, CS_XENT_STATS). loss, row_loss and
     * correct as above; whole (rows, 2) fp32: the largest logit, 1 / sum of exp(logit - it), summed in
     * the order of the parts. */
    void (*xent_join)(struct cs_ctx *ctx, int64_t rows, int32_t parts, const float *stat,
                      double *loss, double *row_loss, uint8_t *correct, float *whole);
    /* z, as xent_part left it, becomes the gradient of the loss SUM before the cap. */
    void (*xent_part_grad)(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                           float softcap, const float *whole, void *z);

    /* decoupled decay first, then the update; w act copy of master is written when w != NULL and
     * w != master. n elements */
    void (*adamw)(struct cs_ctx *ctx, int64_t n, const struct cs_adamw *hyper, const float *grad,
                  float *master, float *exp_avg, float *exp_avg_sq, void *w);
    /* *sum (fp64) = sum of squares of x (n) grad, in a fixed order; overwrites */
    void (*sumsq)(struct cs_ctx *ctx, int64_t n, const void *x, double *sum);
    /* The same for a list of tensors in few launches: the same bits as one call for each. The list
     * is host memory and is read before the function returns. sum (n_tensors) */
    void (*adamw_many)(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_adamw_tensor *tensor,
                       const struct cs_adamw *hyper);
    void (*sumsq_many)(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_sumsq_tensor *tensor,
                       double *sum);
    /* The same update without masters: all arrays are bf16. Computed in fp32 without contracting
     * products into sums (a GPU's root and quotient may be off by some units in the last place of
     * fp32); w, exp_avg and exp_avg_sq are rounded stochastically with 16 bits of
     * cs_round_element(key, first + i) each (kernels/round.h). The update of w reads both moments
     * before they are rounded. weight_decay of hyper is not looked at. */
    void (*adamw_bf16_many)(struct cs_ctx *ctx, int32_t n_tensors,
                            const struct cs_adamw_bf16_tensor *tensor,
                            const struct cs_adamw *hyper);
    /* n elements: act type from fp32 (to nearest even), fp32 from act type; x and y apart */
    void (*cast_to_act)(struct cs_ctx *ctx, int64_t n, const float *x, void *y);
    void (*cast_to_f32)(struct cs_ctx *ctx, int64_t n, const void *x, float *y);
    /* y = alpha x + beta y (n) fp32, each product rounded; beta 0: y is not read; y may be x */
    void (*scale_add)(struct cs_ctx *ctx, int64_t n, float alpha, const float *x, float beta,
                      float *y);

    const struct cs_device_ops *device; /* kernels/device.h; NULL: arrays are host memory */
};

const struct cs_ops *cs_ops_cpu(void);

/* Compare the back end's GEMM with plain C on odd shapes (some OpenBLAS builds compute wrong
 * results on recent processors). CS_INTERNAL with the shape that differs. */
enum cs_status cs_ops_cpu_selfcheck(struct cs_err *err) CS_NODISCARD;

#endif
