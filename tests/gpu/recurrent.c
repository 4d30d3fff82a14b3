/* What recurrent layers do around the delta rule (delta.c) against its CPU twins: gates and
 * convolutions, packed documents, sizes that are no multiple of a tile, gaps between rows. */
#include "core/base/buf.h"
#include "gpu/groups.h"

/* Tensors 0 and 1 are doc and segment. */
static struct cs_mask_plan mask_of(int32_t rows, int32_t n_segments, void *const *p)
{
    return (struct cs_mask_plan){
        .n_tokens = rows, .doc = p[0], .n_segments = n_segments, .segment = p[1]};
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
        g.n_segments = lab_documents(lab, &c, g.rows, 40);
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
