/* Norms and rotation of heads, forward and backward. */
#include "worker/model/halves/heads.h"

#include "worker/layer/tensors.h"

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
    int64_t at; /* first column of what is normed */
    const struct cs_shard *w;
    float *stat; /* (rows, heads) */
};

static bool is_wide(const struct cs_layer_model *l)
{
    return l->arch->qk_norm == CS_QK_NORM_WIDTH;
}

static struct norm norm_of(const struct cs_layer_model *l, enum cs_param_role role, int32_t heads,
                           int64_t at, float *stat)
{
    const int64_t n = l->attention->head_dim;
    const struct cs_shard *w = cs_weight(l, role);
    return is_wide(l) ? (struct norm){1, heads * n, at, w, stat}
                      : (struct norm){heads, n, at, w, stat};
}

enum { BOTH = 2 }; /* queries and keys */

struct both {
    struct norm of[BOTH];
};

static struct both both_of(const struct cs_layer_model *l, float *q_stat, float *k_stat)
{
    const struct cs_attention *a = l->attention;
    return (struct both){
        {norm_of(l, CS_PARAM_Q_NORM_W, a->n_heads, 0, q_stat),
         norm_of(l, CS_PARAM_K_NORM_W, a->n_kv_heads, cs_head_dims(l).q, k_stat)}
    };
}

/* Where ranks share the heads of one norm, their sums of a row are added up, of queries and keys together:
 * of squares, or with dy of what the gradient takes. Of a head that several ranks have each brings a sum,
 * and as many columns. false: all are here. */
static bool sum_all(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                    const struct both *both, const void *made, const void *dy,
                    struct cs_norm_all all[BOTH])
{
    const struct cs_head_dims d = cs_head_dims(l);
    if (!is_wide(l) || run->tensors == NULL)
        return false;
    float *sum = cs_scratch_floats(run->scratch, BOTH * rows);
    for (int i = 0; i < BOTH; i++) {
        const struct norm *m = &both->of[i];
        const size_t at = (size_t)m->at * run->ops->act_bytes;
        run->ops->norm_heads_sums(run->ctx, rows, 1, m->n, l->arch->norm_offset,
                                  (const char *)made + at, d.made, m->w->w, m->stat,
                                  dy != NULL ? (const char *)dy + at : NULL, d.all, sum + i * rows);
        all[i] = (struct cs_norm_all){m->w->whole->count * m->w->part->holders, sum + i * rows};
    }
    cs_tensors_sum_floats(run, BOTH * rows, sum);
    return true;
}

/* y (rows, all) at column `to` = norm of its columns of x (rows, made) */
static void norm_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const struct norm *m, const struct cs_norm_all *all, void *x, void *y,
                     int64_t to)
{
    const struct cs_head_dims d = cs_head_dims(l);
    run->ops->norm_heads(run->ctx, rows, m->heads, m->n, l->arch->norm_eps, l->arch->norm_offset,
                         cs_run_at(run, x, m->at), d.made, m->w != NULL ? m->w->w : NULL, all,
                         cs_run_at(run, y, to), d.all, m->stat);
}

/* values of every head by itself, which lie behind in `made` and have no weight */
static struct norm norm_of_values(const struct cs_layer_model *l, float *stat)
{
    const struct cs_head_dims d = cs_head_dims(l);
    const struct cs_attention *a = l->attention;
    return (struct norm){a->n_kv_heads, a->head_dim, d.made - d.kv, NULL, stat};
}

/* queries and keys */
static void norm_both(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, void *qkv,
                      struct cs_heads *h)
{
    const struct cs_attention *a = l->attention;
    h->q_stat = cs_scratch_floats(run->scratch, rows * a->n_heads);
    h->k_stat = cs_scratch_floats(run->scratch, rows * a->n_kv_heads);
    const struct both both = both_of(l, h->q_stat, h->k_stat);
    struct cs_norm_all all[BOTH];
    const bool is_shared = sum_all(run, l, rows, &both, qkv, NULL, all);
    for (int i = 0; i < BOTH; i++)
        norm_fwd(run, l, rows, &both.of[i], is_shared ? &all[i] : NULL, qkv, h->q, both.of[i].at);
}

struct cs_heads cs_heads_at(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                            void *q, void *v)
{
    const struct cs_head_dims d = cs_head_dims(l);
    return (struct cs_heads){.shape = shape_of(l, rows, d.all),
                             .q = q,
                             .k = cs_run_at(run, q, d.q),
                             .v = cs_run_at(run, v, d.q + d.kv)};
}

struct cs_heads cs_heads_of(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                            void *qkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    const struct cs_attention *a = l->attention;
    struct cs_heads h = {.q = qkv};
    if (has_norms(l)) {
        h.q = cs_run_take(run, rows * d.all);
        norm_both(run, l, rows, qkv, &h);
        rotate_both(run, l, rows, d.all, h.q, 0);
    }
    h.shape = shape_of(l, rows, d.all);
    h.k = cs_run_at(run, h.q, d.q);
    h.v = cs_run_at(run, qkv, d.q + d.kv);
    CS_ASSERT(l->arch->has_v_norm || !a->is_k_eq_v); /* values of their own are made by a norm */
    if (l->arch->has_v_norm) {
        h.v = cs_run_at(run, h.q, d.q + d.kv);
        h.v_stat = cs_scratch_floats(run->scratch, rows * a->n_kv_heads);
        const struct norm of_values = norm_of_values(l, h.v_stat);
        norm_fwd(run, l, rows, &of_values, NULL, qkv, h.q, d.q + d.kv);
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

/* dqkv (rows, made) at the norm's columns = (adds: +) gradient of dy */
static void norm_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const struct norm *m, const struct cs_norm_all *all, const void *qkv,
                     const void *dy, bool adds, void *dqkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    struct cs_ctx ctx = cs_run_grad_ctx(run, m->w, NULL);
    run->ops->norm_heads_grad(&ctx, rows, m->heads, m->n, l->arch->norm_offset,
                              (const char *)qkv + (size_t)m->at * run->ops->act_bytes, d.made,
                              m->w != NULL ? m->w->w : NULL, m->stat, all, dy, d.all,
                              cs_run_at(run, dqkv, m->at), d.made, adds,
                              m->w != NULL ? m->w->grad : NULL);
}

void cs_heads_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *qkv,
                  const struct cs_heads *heads, const struct cs_head_grads *grads, void *dqkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    struct cs_norm_all all[BOTH];
    rotate_both(run, l, rows, has_norms(l) ? d.all : d.made, grads->q, 1);
    if (!has_norms(l))
        return;
    const struct both both = both_of(l, heads->q_stat, heads->k_stat);
    const bool is_shared = sum_all(run, l, rows, &both, qkv, grads->q, all);
    for (int i = 0; i < BOTH; i++)
        norm_bwd(run, l, rows, &both.of[i], is_shared ? &all[i] : NULL, qkv,
                 i == 0 ? grads->q : grads->k, false, dqkv);
    if (l->arch->has_v_norm) { /* keys that are values too get the gradients of both */
        const struct norm of_values = norm_of_values(l, heads->v_stat);
        norm_bwd(run, l, rows, &of_values, NULL, qkv, grads->v, l->attention->is_k_eq_v, dqkv);
    }
}
