/* The gated delta rule against its CPU twin: packed documents from one row to many chunks, heads that
 * share keys, sizes that are no multiple of a tile, gaps between rows; parts of documents. */
#include "core/base/buf.h"
#include "gpu/groups.h"

struct delta_case {
    struct cs_delta_shape s;
    int32_t rows, n_segments;
    int32_t longest;     /* document */
    float decay;         /* the strongest of a row, as a logarithm */
    bool enters, leaves; /* a state, a gradient of one */
};

/* Tensors 0 and 1 are doc and segment. */
static struct cs_mask_plan mask_of(int32_t rows, int32_t n_segments, void *const *p)
{
    return (struct cs_mask_plan){
        .n_tokens = rows, .doc = p[0], .n_segments = n_segments, .segment = p[1]};
}

static struct cs_ctx exact_ctx(const struct cs_ops *ops, const struct cs_ctx *ctx,
                               const struct delta_case *a, const struct cs_mask_plan *mask)
{
    struct cs_ctx exact = *ctx;
    exact.workspace_bytes = ops->delta_workspace(&a->s, mask);
    CS_ASSERT(exact.workspace_bytes <= ctx->workspace_bytes);
    return exact;
}

static void call_delta(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct delta_case *a = args;
    const struct cs_mask_plan mask = mask_of(a->rows, a->n_segments, p);
    const struct cs_delta_in in = {p[2], p[3], p[4], p[5], p[6]};
    struct cs_ctx exact = exact_ctx(ops, ctx, a, &mask);
    ops->delta(&exact, &a->s, &mask, &in, p[7]);
}

static void call_delta_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                            const void *args)
{
    const struct delta_case *a = args;
    const struct cs_mask_plan mask = mask_of(a->rows, a->n_segments, p);
    const struct cs_delta_in in = {p[2], p[3], p[4], p[5], p[6]};
    const struct cs_delta_out out = {p[8], p[9], p[10], p[11], p[12]};
    struct cs_ctx exact = exact_ctx(ops, ctx, a, &mask);
    ops->delta_grad(&exact, &a->s, &mask, &in, p[7], &out);
}

/* bf16: every product rounds its operands, and so do states and what lies between the passes; the
 * errors are shares of the largest values. */
static double loose(const struct lab *lab)
{
    return lab_is_bf16(lab) ? 1.5e-2 : 3e-5;
}

/* of outputs near 0, where roundings of sums do not shrink with them */
static double noise(const struct lab *lab)
{
    return lab_is_bf16(lab) ? 2e-3 : 1e-6;
}

static void add_inputs(struct lab *lab, struct lab_case *c, struct delta_case *a)
{
    a->n_segments = lab_documents(lab, c, a->rows, a->longest);
    lab_real(lab, c, LAB_ACT, a->rows * a->s.q_stride, -1, 1);
    lab_real(lab, c, LAB_ACT, a->rows * a->s.q_stride, -1, 1);
    lab_real(lab, c, LAB_ACT, a->rows * a->s.v_stride, -1, 1);
    lab_real(lab, c, LAB_F32, (int64_t)a->rows * a->s.heads, a->decay, 0);
    lab_real(lab, c, LAB_F32, (int64_t)a->rows * a->s.heads, 0, 1);
}

static void one_delta(struct lab *lab, struct delta_case a)
{
    struct lab_case c = {.what = "delta", .call = call_delta, .args = &a};
    add_inputs(lab, &c, &a);
    lab_output(lab, &c, LAB_ACT, a.rows * a.s.o_stride, loose(lab), loose(lab))->floor = noise(lab);
    lab_run(lab, &c);
}

static void add_gradients(struct lab *lab, struct lab_case *c, const struct delta_case *a)
{
    const double tol = 2 * loose(lab);
    lab_output(lab, c, LAB_ACT, a->rows * a->s.q_stride, tol, tol)->floor = noise(lab);
    lab_output(lab, c, LAB_ACT, a->rows * a->s.q_stride, tol, tol)->floor = noise(lab);
    lab_output(lab, c, LAB_ACT, a->rows * a->s.v_stride, tol, tol)->floor = noise(lab);
    lab_output(lab, c, LAB_F32, (int64_t)a->rows * a->s.heads, tol, tol)->floor = noise(lab);
    lab_output(lab, c, LAB_F32, (int64_t)a->rows * a->s.heads, tol, tol)->floor = noise(lab);
}

static void one_delta_grad(struct lab *lab, struct delta_case a)
{
    struct lab_case c = {.what = "delta_grad", .call = call_delta_grad, .args = &a};
    add_inputs(lab, &c, &a);
    lab_real(lab, &c, LAB_ACT, a.rows * a.s.o_stride, -1, 1);
    add_gradients(lab, &c, &a);
    lab_run(lab, &c);
}

/* Rows of odd strides every other time, else of strides that are multiples of 16 bytes. */
static struct delta_case make(int32_t rows, int32_t longest, int32_t heads, int32_t key_heads,
                              int32_t key_dim, int32_t value_dim, float decay)
{
    const int64_t gap = rows % 4 == 0 ? 8 : 1;
    return (struct delta_case){
        .s = {.heads = heads,
              .key_heads = key_heads,
              .key_dim = key_dim,
              .value_dim = value_dim,
              .q_stride = key_heads * key_dim + 3 * gap,
              .v_stride = heads * value_dim + gap,
              .o_stride = heads * value_dim + 2 * gap,
              .eps = 1e-6f},
        .rows = rows,
        .longest = longest,
        .decay = decay
    };
}

/* ---- parts of documents: a state enters, and a gradient comes back ---- */

static int64_t states_of(const struct delta_case *a)
{
    return (int64_t)a->s.heads * a->s.key_dim * a->s.value_dim;
}

static void call_part(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct delta_case *a = args;
    const struct cs_mask_plan mask = mask_of(a->rows, a->n_segments, p);
    const struct cs_delta_in in = {p[2], p[3], p[4], p[5], p[6]};
    struct cs_ctx exact = exact_ctx(ops, ctx, a, &mask);
    ops->delta_part(&exact, &a->s, &mask, &in, p[7], p[8]);
}

static void call_part_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct delta_case *a = args;
    const struct cs_mask_plan mask = mask_of(a->rows, a->n_segments, p);
    const struct cs_delta_in in = {p[2], p[3], p[4], p[5], p[6]};
    const struct cs_delta_out out = {p[9], p[10], p[11], p[12], p[13]};
    const float *ends = p[7]; /* both in one tensor: a case has no more */
    struct cs_ctx exact = exact_ctx(ops, ctx, a, &mask);
    ops->delta_part_grad(&exact, &a->s, &mask, &in, a->enters ? ends : NULL,
                         a->leaves ? ends + states_of(a) : NULL, p[8], &out);
}

static void call_pass(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct delta_case *a = args;
    const struct cs_mask_plan mask = mask_of(a->rows, a->n_segments, p);
    const struct cs_delta_in in = {p[2], p[3], p[4], p[5], p[6]};
    const struct cs_delta_pass out = {a->n_segments == 1 ? p[8] : NULL, p[9], p[10]};
    struct cs_ctx exact = exact_ctx(ops, ctx, a, &mask);
    ops->delta_pass(&exact, &a->s, &mask, &in, p[7], &out);
}

static void one_part(struct lab *lab, struct delta_case a)
{
    struct lab_case c = {.what = "delta_part", .call = call_part, .args = &a};
    add_inputs(lab, &c, &a);
    lab_real(lab, &c, LAB_F32, states_of(&a), -1, 1);
    lab_output(lab, &c, LAB_ACT, a.rows * a.s.o_stride, loose(lab), loose(lab))->floor = noise(lab);
    lab_run(lab, &c);
}

static void one_part_grad(struct lab *lab, struct delta_case a)
{
    struct lab_case c = {.what = "delta_part_grad", .call = call_part_grad, .args = &a};
    add_inputs(lab, &c, &a);
    lab_real(lab, &c, LAB_F32, 2 * states_of(&a), -1, 1);
    lab_real(lab, &c, LAB_ACT, a.rows * a.s.o_stride, -1, 1);
    add_gradients(lab, &c, &a);
    lab_run(lab, &c);
}

static void one_pass(struct lab *lab, struct delta_case a)
{
    struct lab_case c = {.what = "delta_pass", .call = call_pass, .args = &a};
    const double tol = 2 * loose(lab);
    const int64_t map = (int64_t)a.s.heads * a.s.key_dim * a.s.key_dim;
    add_inputs(lab, &c, &a);
    lab_real(lab, &c, LAB_ACT, a.rows * a.s.o_stride, -1, 1);
    lab_output(lab, &c, LAB_F32, map, tol, tol)->floor = noise(lab);
    lab_output(lab, &c, LAB_F32, states_of(&a), tol, tol)->floor = noise(lab);
    lab_output(lab, &c, LAB_F32, states_of(&a), tol, tol)->floor = noise(lab);
    lab_run(lab, &c);
}

static void call_join(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct delta_case *a = args;
    ops->delta_join(ctx, &a->s, p[0], a->leaves, p[1], p[2]);
}

/* leaves: by the transposed map */
static void one_join(struct lab *lab, struct delta_case a)
{
    struct lab_case c = {.what = "delta_join", .call = call_join, .args = &a};
    lab_real(lab, &c, LAB_F32, (int64_t)a.s.heads * a.s.key_dim * a.s.key_dim, -1, 1);
    lab_real(lab, &c, LAB_F32, states_of(&a), -1, 1);
    struct lab_tensor *state = lab_real(lab, &c, LAB_F32, states_of(&a), -1, 1);
    state->rel = state->scale = 1e-5;
    lab_run(lab, &c);
}

static void parts(struct lab *lab)
{
    static const int32_t sizes[][6] = {
        {1,    0,   2, 1, 16,  16 },
        {63,   0,   2, 1, 24,  20 },
        {64,   0,   3, 3, 40,  72 },
        {321,  0,   4, 2, 128, 128},
        {1500, 0,   4, 1, 128, 64 },
        {2500, 90,  2, 2, 64,  128},
        {700,  300, 2, 1, 144, 32 },
        {200,  0,   2, 2, 32,  136},
    };
    static const float decays[] = {-0.02f, -0.5f, -30.0f};
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        const int32_t *n = sizes[i];
        one_part(lab, make(n[0], n[1], n[2], n[3], n[4], n[5], decays[i % 3]));
    }
    lab_group(lab, "delta_part");
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        const int32_t *n = sizes[i];
        struct delta_case a = make(n[0], n[1], n[2], n[3], n[4], n[5], decays[(i + 1) % 3]);
        a.enters = i % 3 != 0;
        a.leaves = i % 3 != 1;
        one_part_grad(lab, a);
    }
    lab_group(lab, "delta_part_grad");
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        const int32_t *n = sizes[i];
        one_pass(lab, make(n[0], n[1], n[2], n[3], n[4], n[5], decays[i % 3]));
    }
    lab_group(lab, "delta_pass");
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        const int32_t *n = sizes[i];
        struct delta_case a = make(n[0], n[1], n[2], n[3], n[4], n[5], 0);
        a.leaves = i % 2 == 0;
        one_join(lab, a);
    }
    lab_group(lab, "delta_join");
}

void group_delta(struct lab *lab)
{
    static const int32_t sizes[][6] = {
        {0,    1,    1, 1, 16,  16 }, /* rows, longest, heads, key heads, key and value size */
        {1,    1,    2, 1, 16,  16 },
        {63,   200,  2, 2, 32,  32 },
        {64,   200,  2, 1, 24,  20 },
        {65,   200,  4, 2, 64,  64 },
        {300,  3,    3, 1, 40,  72 },
        {700,  300,  4, 2, 128, 128},
        {1500, 2000, 4, 1, 128, 128},
        {2500, 90,   2, 2, 64,  128},
    };
    static const float decays[] = {-0.1f, -2.0f, -30.0f};
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        const int32_t *n = sizes[i];
        one_delta(lab, make(n[0], n[1], n[2], n[3], n[4], n[5], decays[i % 3]));
    }
    lab_group(lab, "delta");
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        const int32_t *n = sizes[i];
        one_delta_grad(lab, make(n[0], n[1], n[2], n[3], n[4], n[5], decays[(i + 1) % 3]));
    }
    lab_group(lab, "delta_grad");
    parts(lab);
}
