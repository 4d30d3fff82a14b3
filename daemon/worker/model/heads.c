/* Norms and rotation of heads, forward and backward. */
#include "worker/model/heads.h"

struct cs_head_dims cs_head_dims(const struct cs_layer_model *l)
{
    const int64_t q = cs_attention_q_width(l->attention), kv = cs_attention_kv_width(l->attention);
    return (struct cs_head_dims){q, kv, cs_attention_made_width(l->attention), q + 2 * kv};
}

/* what the slot has for the block's kind of attention */
static const struct cs_slot_kind *kind_of(const struct cs_run *run, const struct cs_layer_model *l)
{
    return &run->input->tables->kind[l->attention_id];
}

int32_t cs_mask_index(const struct cs_run *run, const struct cs_layer_model *l)
{
    return kind_of(run, l)->mask;
}

const struct cs_mask_plan *cs_mask_of(const struct cs_run *run, const struct cs_layer_model *l)
{
    return &run->input->at.mask[cs_mask_index(run, l)];
}

static bool has_norms(const struct cs_layer_model *l)
{
    return l->arch->qk_norm != CS_QK_NORM_NONE;
}

/* NULL where memory is only counted */
static const float *angles_at(const float *table, int64_t begin)
{
    return table != NULL ? table + begin : NULL;
}

/* x (rows, heads, head_dim), rows `stride` columns apart, turns in place by table r (-1: not) */
static void rotate(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, int32_t r,
                   int32_t heads, int64_t stride, void *x, int inverse)
{
    const struct cs_attention *a = l->attention;
    if (r < 0)
        return;
    /* the pieces of a head that turn by themselves */
    const int32_t planes = run->input->tables->rope[r].planes, dims = a->rope.dims / planes;
    for (int32_t p = 0; p < planes; p++) {
        const int64_t begin = (int64_t)p * rows * (dims / 2);
        run->ops->rope(run->ctx, rows, heads, a->head_dim, dims, stride,
                       cs_run_at(run, x, (int64_t)p * dims),
                       angles_at(run->input->at.cos[r], begin),
                       angles_at(run->input->at.sin[r], begin), inverse);
    }
}

/* q, and k behind it: all their heads in one call where both turn by the same table */
static void rotate_both(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                        int64_t stride, void *q, int inverse)
{
    const struct cs_attention *a = l->attention;
    const struct cs_slot_kind *kind = kind_of(run, l);
    void *k = cs_run_at(run, q, cs_head_dims(l).q);
    if (kind->rope == kind->rope_q) {
        rotate(run, l, rows, kind->rope, a->n_heads + a->n_kv_heads, stride, q, inverse);
        return;
    }
    rotate(run, l, rows, kind->rope_q, a->n_heads, stride, q, inverse);
    rotate(run, l, rows, kind->rope, a->n_kv_heads, stride, k, inverse);
}

void cs_heads_turn(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, void *qkv)
{
    if (!has_norms(l))
        rotate_both(run, l, rows, cs_head_dims(l).made, qkv, 0);
}

static struct cs_attention_shape shape_of(const struct cs_layer_model *l, int64_t rows,
                                          int64_t stride)
{
    const struct cs_attention *a = l->attention;
    return (struct cs_attention_shape){
        .tokens = (int32_t)rows,
        .heads = a->n_heads,
        .kv_heads = a->n_kv_heads,
        .head_dim = a->head_dim,
        .q_stride = (int32_t)stride,
        .kv_stride = (int32_t)stride,
        .o_stride = (int32_t)cs_head_dims(l).q,
        .scale = a->scale,
        .softcap = a->softcap,
    };
}

/* One norm: of every head by itself, or of all of them as one. */
struct norm {
    int32_t heads;
    int64_t n;
};

static struct norm norm_of(const struct cs_layer_model *l, int32_t heads)
{
    const int64_t n = l->attention->head_dim;
    return l->arch->qk_norm == CS_QK_NORM_WIDTH ? (struct norm){1, heads * n}
                                                : (struct norm){heads, n};
}

/* y (rows, all) at column `to` = norm of x (rows, made) at column `from`; returns its statistics */
static float *norm_heads(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                         struct norm norm, const struct cs_shard *w, void *x, int64_t from, void *y,
                         int64_t to)
{
    const struct cs_head_dims d = cs_head_dims(l);
    float *stat = cs_scratch_floats(run->scratch, rows * norm.heads);
    run->ops->norm_heads(run->ctx, rows, norm.heads, norm.n, l->arch->norm_eps,
                         l->arch->norm_offset, cs_run_at(run, x, from), d.made,
                         w != NULL ? w->w : NULL, cs_run_at(run, y, to), d.all, stat);
    return stat;
}

struct cs_heads cs_heads_of(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                            void *qkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    const struct cs_attention *a = l->attention;
    struct cs_heads h = {.q = qkv};
    if (has_norms(l)) {
        h.q = cs_run_take(run, rows * d.all);
        h.q_stat = norm_heads(run, l, rows, norm_of(l, a->n_heads), cs_weight(l, CS_PARAM_Q_NORM_W),
                              qkv, 0, h.q, 0);
        h.k_stat = norm_heads(run, l, rows, norm_of(l, a->n_kv_heads),
                              cs_weight(l, CS_PARAM_K_NORM_W), qkv, d.q, h.q, d.q);
        rotate_both(run, l, rows, d.all, h.q, 0);
    }
    h.shape = shape_of(l, rows, d.all);
    h.k = cs_run_at(run, h.q, d.q);
    h.v = cs_run_at(run, qkv, d.q + d.kv);
    CS_ASSERT(l->arch->has_v_norm || !a->is_k_eq_v); /* values of their own are made by a norm */
    if (l->arch->has_v_norm) {
        h.v = cs_run_at(run, h.q, d.q + d.kv);
        h.v_stat = norm_heads(run, l, rows, (struct norm){a->n_kv_heads, a->head_dim}, NULL, qkv,
                              d.made - d.kv, h.q, d.q + d.kv);
    }
    return h;
}

struct cs_head_grads cs_head_grads(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                                   void *dqkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    void *dq = has_norms(l) ? cs_run_take(run, rows * d.all) : dqkv;
    return (struct cs_head_grads){dq, cs_run_at(run, dq, d.q),
                                  cs_run_at(run, l->arch->has_v_norm ? dq : dqkv, d.q + d.kv)};
}

/* dx (rows, made) at column `at` = (adds: +) gradient of dy, of the same column of x */
static void norm_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     struct norm norm, const struct cs_shard *w, const float *stat, const void *qkv,
                     int64_t at, const void *dy, bool adds, void *dqkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    struct cs_ctx ctx = cs_run_grad_ctx(run, w, NULL);
    run->ops->norm_heads_grad(&ctx, rows, norm.heads, norm.n, l->arch->norm_offset,
                              (const char *)qkv + (size_t)at * run->ops->act_bytes, d.made,
                              w != NULL ? w->w : NULL, stat, dy, d.all, cs_run_at(run, dqkv, at),
                              d.made, adds, w != NULL ? w->grad : NULL);
}

void cs_heads_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *qkv,
                  const struct cs_heads *heads, const struct cs_head_grads *grads, void *dqkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    const struct cs_attention *a = l->attention;
    rotate_both(run, l, rows, has_norms(l) ? d.all : d.made, grads->q, 1);
    if (!has_norms(l))
        return;
    norm_bwd(run, l, rows, norm_of(l, a->n_heads), cs_weight(l, CS_PARAM_Q_NORM_W), heads->q_stat,
             qkv, 0, grads->q, false, dqkv);
    norm_bwd(run, l, rows, norm_of(l, a->n_kv_heads), cs_weight(l, CS_PARAM_K_NORM_W),
             heads->k_stat, qkv, d.q, grads->k, false, dqkv);
    if (l->arch->has_v_norm) /* keys that are values too get the gradients of both */
        norm_bwd(run, l, rows, (struct norm){a->n_kv_heads, a->head_dim}, NULL, heads->v_stat, qkv,
                 d.made - d.kv, grads->v, a->is_k_eq_v, dqkv);
}
