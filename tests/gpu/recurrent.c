/* Operators of recurrent layers against their CPU twins: packed documents from one row to many
 * chunks, heads that share keys, sizes that are no multiple of a tile, gaps between rows. */
#include "core/base/buf.h"
#include "gpu/groups.h"

struct delta_case {
    struct cs_delta_shape s;
    int32_t rows, n_segments;
    int32_t longest; /* document */
    float decay;     /* the strongest of a row, as a logarithm */
};

/* Tensors 0 and 1 are doc and segment. */
static struct cs_mask_plan mask_of(int32_t rows, int32_t n_segments, void *const *p)
{
    return (struct cs_mask_plan){
        .n_tokens = rows, .doc = p[0], .n_segments = n_segments, .segment = p[1]};
}

static int32_t fill_documents(struct lab *lab, struct lab_case *c, int32_t rows, int32_t longest)
{
    int32_t *doc = lab_raw(lab, c, LAB_I32, rows)->host, left = 0, d = 5;
    int32_t *segment = lab_raw(lab, c, LAB_I32, rows + 1)->host;
    for (int32_t i = 0; i < rows; i++) {
        if (left-- == 0) {
            d++;
            left = lab_between(lab, 0, longest - 1);
        }
        doc[i] = d;
    }
    return cs_mask_segments(doc, rows, segment);
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
    a->n_segments = fill_documents(lab, c, a->rows, a->longest);
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

static void one_delta_grad(struct lab *lab, struct delta_case a)
{
    struct lab_case c = {.what = "delta_grad", .call = call_delta_grad, .args = &a};
    const double tol = 2 * loose(lab);
    add_inputs(lab, &c, &a);
    lab_real(lab, &c, LAB_ACT, a.rows * a.s.o_stride, -1, 1);
    lab_output(lab, &c, LAB_ACT, a.rows * a.s.q_stride, tol, tol)->floor = noise(lab);
    lab_output(lab, &c, LAB_ACT, a.rows * a.s.q_stride, tol, tol)->floor = noise(lab);
    lab_output(lab, &c, LAB_ACT, a.rows * a.s.v_stride, tol, tol)->floor = noise(lab);
    lab_output(lab, &c, LAB_F32, (int64_t)a.rows * a.s.heads, tol, tol)->floor = noise(lab);
    lab_output(lab, &c, LAB_F32, (int64_t)a.rows * a.s.heads, tol, tol)->floor = noise(lab);
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

/* A gradient of weights, to which the call adds. */
static void added(struct lab *lab, struct lab_case *c, int64_t n)
{
    struct lab_tensor *t = lab_real(lab, c, LAB_F32, n, -1, 1);
    t->rel = t->scale = 1e-4;
}

/* ---- gates ---- */

enum { GATE_LD = 70 };

struct gate_case {
    int64_t rows;
    int32_t heads;
};

static void call_gate(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct gate_case *g = args;
    ops->delta_gate(ctx, g->rows, g->heads, p[0], p[1], GATE_LD, p[2], p[3], p[4], p[5]);
}

static void call_gate_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct gate_case *g = args;
    ops->delta_gate_grad(ctx, g->rows, g->heads, p[0], p[1], GATE_LD, p[2], p[3], p[4], p[5], p[6],
                         p[7], GATE_LD, p[8], p[9]);
}

static void one_gate(struct lab *lab, struct gate_case g)
{
    const double rel = lab_is_bf16(lab) ? 4e-3 : 1e-5;
    for (int is_grad = 0; is_grad < 2; is_grad++) {
        struct lab_case c = {.what = is_grad ? "delta_gate_grad" : "delta_gate",
                             .call = is_grad ? call_gate_grad : call_gate,
                             .args = &g};
        lab_real(lab, &c, LAB_ACT, g.rows * GATE_LD, -4, 4);
        lab_real(lab, &c, LAB_ACT, g.rows * GATE_LD, -4, 4);
        lab_real(lab, &c, LAB_ACT, g.heads, -3, 2);
        lab_real(lab, &c, LAB_ACT, g.heads, -1, 1);
        if (!is_grad) {
            lab_output(lab, &c, LAB_F32, g.rows * g.heads, 1e-5, 1e-6);
            lab_output(lab, &c, LAB_F32, g.rows * g.heads, 1e-5, 1e-6);
        } else {
            lab_real(lab, &c, LAB_F32, g.rows * g.heads, -1, 1);
            lab_real(lab, &c, LAB_F32, g.rows * g.heads, -1, 1);
            lab_output(lab, &c, LAB_ACT, g.rows * GATE_LD, rel, 1e-5);
            lab_output(lab, &c, LAB_ACT, g.rows * GATE_LD, rel, 1e-5);
            added(lab, &c, g.heads);
            added(lab, &c, g.heads);
        }
        lab_run(lab, &c);
    }
}

/* ---- convolution ---- */

struct conv_case {
    int32_t rows, n_segments, taps;
    int64_t channels;
    bool is_aligned; /* rows begin at multiples of 16 bytes */
};

static int64_t stride_of_x(const struct conv_case *g)
{
    return g->channels + (g->is_aligned ? 8 : 5);
}

static int64_t stride_of_y(const struct conv_case *g)
{
    return g->channels + (g->is_aligned ? 16 : 1);
}

static void call_conv(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct conv_case *g = args;
    const struct cs_mask_plan mask = mask_of(g->rows, g->n_segments, p);
    ops->short_conv(ctx, &mask, g->channels, g->taps, p[2], stride_of_x(g), p[3], p[4],
                    stride_of_y(g));
}

static void call_conv_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct conv_case *g = args;
    const struct cs_mask_plan mask = mask_of(g->rows, g->n_segments, p);
    ops->short_conv_grad(ctx, &mask, g->channels, g->taps, p[2], stride_of_x(g), p[3], p[4],
                         stride_of_y(g), p[5], p[6]);
}

static void one_conv(struct lab *lab, struct conv_case g)
{
    const double rel = lab_is_bf16(lab) ? 4e-3 : 1e-5;
    for (int is_grad = 0; is_grad < 2; is_grad++) {
        struct lab_case c = {.what = is_grad ? "short_conv_grad" : "short_conv",
                             .call = is_grad ? call_conv_grad : call_conv,
                             .args = &g};
        g.n_segments = fill_documents(lab, &c, g.rows, 40);
        lab_real(lab, &c, LAB_ACT, g.rows * stride_of_x(&g), -2, 2);
        lab_real(lab, &c, LAB_ACT, g.channels * g.taps, -1, 1);
        if (!is_grad) {
            lab_output(lab, &c, LAB_ACT, g.rows * stride_of_y(&g), rel, 1e-6);
        } else {
            lab_real(lab, &c, LAB_ACT, g.rows * stride_of_y(&g), -1, 1);
            lab_output(lab, &c, LAB_ACT, g.rows * stride_of_x(&g), rel, 1e-5);
            added(lab, &c, g.channels * g.taps);
        }
        lab_run(lab, &c);
    }
}

void group_recurrent(struct lab *lab)
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
    one_gate(lab, (struct gate_case){1, 1});
    one_gate(lab, (struct gate_case){1000, 32});
    one_gate(lab, (struct gate_case){77, 64});
    lab_group(lab, "delta_gate");
    one_conv(lab, (struct conv_case){.rows = 1, .taps = 4, .channels = 1});
    one_conv(lab, (struct conv_case){.rows = 333, .taps = 4, .channels = 100});
    one_conv(lab, (struct conv_case){.rows = 1200, .taps = 8, .channels = 64});
    one_conv(lab, (struct conv_case){.rows = 2000, .taps = 4, .channels = 600, .is_aligned = true});
    one_conv(lab, (struct conv_case){.rows = 129, .taps = 2, .channels = 8, .is_aligned = true});
    one_conv(lab, (struct conv_case){.rows = 700, .taps = 7, .channels = 256, .is_aligned = true});
    one_conv(lab, (struct conv_case){.rows = 260, .taps = 3, .channels = 30, .is_aligned = true});
    lab_group(lab, "short_conv");
}
