/* The loss: of all words at once, and of those that several ranks have. */
#include "gpu/groups.h"

struct xent_args {
    int64_t rows, in, vocab;
    float softcap;
};

static void call_xent(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct xent_args *g = args;
    struct cs_ctx exact = *ctx;
    exact.workspace_bytes = ops->linear_xent_workspace(g->rows, g->in, g->vocab);
    CS_ASSERT(exact.workspace_bytes <= ctx->workspace_bytes);
    ops->linear_xent(&exact, g->rows, g->in, g->vocab, p[0], p[1], p[2], g->softcap, p[3], p[4],
                     p[5], p[6], p[7]);
}

/* A GPU makes do with 128 rows of logits at a time. */
static void call_xent_narrow(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                             const void *args)
{
    const struct xent_args *g = args;
    struct cs_ctx narrow = *ctx;
    if (ops->device != NULL)
        narrow.workspace_bytes =
            ops->linear_xent_workspace(128, g->in, g->vocab) + (size_t)g->rows * sizeof(double);
    ops->linear_xent(&narrow, g->rows, g->in, g->vocab, p[0], p[1], p[2], g->softcap, p[3], p[4],
                     p[5], p[6], p[7]);
}

enum { WANTS_CORRECT = 1, WANTS_DX = 2, WANTS_DW = 4, WANTS_ALL = 7 };

static void one_xent(struct lab *lab, lab_call *call, struct xent_args g, int wants)
{
    const float reach = 0.5f;
    struct lab_case c = {.what = "linear_xent", .call = call, .args = &g};
    const bool is_bf16 = lab_is_bf16(lab);
    const double rel = is_bf16 ? 2e-2 : 1e-4, scale = is_bf16 ? 1e-2 : 1e-5;
    lab_real(lab, &c, LAB_ACT, g.rows * g.in, -reach, reach);
    lab_real(lab, &c, LAB_ACT, g.vocab * g.in, -reach, reach);
    int32_t *labels = lab_raw(lab, &c, LAB_I32, g.rows)->host;
    for (int64_t i = 0; i < g.rows; i++)
        labels[i] = lab_between(lab, 0, (int)g.vocab - 1);
    struct lab_tensor *t = lab_output(lab, &c, LAB_F64, 1, is_bf16 ? 3e-3 : 1e-5, 0);
    *(double *)t->host = 0.25;
    if (wants & WANTS_CORRECT) { /* logits in bf16 tie where fp32 ones do not */
        lab_output(lab, &c, LAB_F64, g.rows, rel, is_bf16 ? 3e-2 : 1e-5);
        lab_output(lab, &c, LAB_U8, g.rows, is_bf16 ? 0.03 : 0.0, 0);
    } else {
        lab_null(&c);
        lab_null(&c);
    }
    if (wants & WANTS_DX)
        lab_output(lab, &c, LAB_ACT, g.rows * g.in, rel, scale);
    else
        lab_null(&c);
    if (wants & WANTS_DW) {
        t = lab_real(lab, &c, LAB_F32, g.vocab * g.in, -0.1f, 0.1f);
        t->rel = rel;
        t->scale = scale;
    } else {
        lab_null(&c);
    }
    lab_run(lab, &c);
}

/* Logits are 8 x exactly, with ties: the argmax must agree in every row, also in bf16. */
static void exact_argmax(struct lab *lab)
{
    struct xent_args g = {500, 64, 64, 0.0f};
    struct lab_case c = {.what = "linear_xent: argmax", .call = call_xent, .args = &g};
    float *x = lab_raw(lab, &c, LAB_ACT, g.rows * g.in)->host;
    float *w = lab_raw(lab, &c, LAB_ACT, g.vocab * g.in)->host;
    int32_t *labels = lab_raw(lab, &c, LAB_I32, g.rows)->host;
    for (int64_t i = 0; i < g.rows * g.in; i++)
        x[i] = (float)lab_between(lab, -6, 6) * 0.25f;
    for (int64_t i = 0; i < g.vocab; i++)
        w[i * g.in + i] = 8.0f;
    for (int64_t i = 0; i < g.rows; i++) {
        labels[i] = 0;
        for (int32_t j = 1; j < 64; j++) /* every second row: a place of the maximum */
            if (x[i * 64 + j] >= x[i * 64 + labels[i]] && lab_between(lab, 0, 1))
                labels[i] = j;
    }
    lab_output(lab, &c, LAB_F64, 1, 1e-5, 0);
    lab_null(&c);
    lab_output(lab, &c, LAB_U8, g.rows, 0, 0);
    lab_null(&c);
    lab_null(&c);
    lab_run(lab, &c);
}

static void test_xent(struct lab *lab)
{
    static const struct xent_args size[] = {
        {0,    64,  100,   0.0f },
        {1,    8,   2,     0.0f },
        {7,    33,  127,   0.0f },
        {129,  64,  1000,  0.0f },
        {128,  128, 1001,  30.0f},
        {1000, 96,  515,   0.0f },
        {300,  64,  32003, 0.0f },
        {5000, 16,  72,    0.0f },
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++)
        for (int wants = 0; wants <= WANTS_ALL; wants += i < 4 ? 1 : WANTS_ALL)
            one_xent(lab, call_xent, size[i], wants);
    one_xent(lab, call_xent_narrow, (struct xent_args){700, 40, 1003, 0.0f}, WANTS_ALL);
    exact_argmax(lab);
    lab_group(lab, "linear_xent");
}

/* ---- a loss over words of several ranks ---- */

struct part_args {
    int64_t rows, words;
    int32_t parts;
    float softcap;
};

/* the first and the third step, for between them the logits are as a back end likes */
static void call_part(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct part_args *g = args;
    ops->xent_part(ctx, g->rows, g->words, p[0], g->softcap, p[2], p[3]);
    ops->xent_part_grad(ctx, g->rows, g->words, p[0], g->softcap, p[1], p[2]);
}

static void call_join(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct part_args *g = args;
    ops->xent_join(ctx, g->rows, g->parts, p[0], p[1], p[2], p[3], p[4]);
}

/* every third label is a word of another part */
static void add_labels(struct lab *lab, struct lab_case *c, const struct part_args *g)
{
    int32_t *labels = lab_raw(lab, c, LAB_I32, g->rows)->host;
    for (int64_t i = 0; i < g->rows; i++)
        labels[i] = i % 3 == 2 ? -1 : lab_between(lab, 0, (int)g->words - 1);
}

static void add_logits(struct lab *lab, struct lab_case *c, const struct part_args *g)
{
    struct lab_tensor *z = lab_real(lab, c, LAB_ACT, g->rows * g->words, -4.0f, 4.0f);
    z->rel = lab_is_bf16(lab) ? 1e-2 : 1e-5;
    z->scale = lab_is_bf16(lab) ? 4e-3 : 1e-6;
}

static void one_part(struct lab *lab, struct part_args g)
{
    struct lab_case c = {.what = "xent_part and its gradient", .call = call_part, .args = &g};
    add_labels(lab, &c, &g);
    float *whole = lab_raw(lab, &c, LAB_F32, 2 * g.rows)->host;
    for (int64_t i = 0; i < g.rows; i++) {
        whole[2 * i] = 4.0f;
        whole[2 * i + 1] = 1.0f / (float)(g.words + i);
    }
    add_logits(lab, &c, &g);
    lab_output(lab, &c, LAB_F32, g.rows * CS_XENT_STATS, lab_is_bf16(lab) ? 1e-2 : 1e-5, 0);
    lab_run(lab, &c);
}

/* what part p says of row i: one of them has the label, which is right where it is the largest */
static void one_join(struct lab *lab, struct part_args g)
{
    struct lab_case c = {.what = "xent_join", .call = call_join, .args = &g};
    float *stat = lab_raw(lab, &c, LAB_F32, g.parts * g.rows * CS_XENT_STATS)->host;
    for (int32_t p = 0; p < g.parts; p++)
        for (int64_t i = 0; i < g.rows; i++) {
            float *of = stat + (p * g.rows + i) * CS_XENT_STATS;
            const bool is_own = p == i % g.parts, is_best = lab_between(lab, 0, 1) == 1;
            of[CS_XENT_MAX] = (float)lab_between(lab, -6, 6) * 0.5f;
            of[CS_XENT_SUM] = (float)lab_between(lab, 8, 64) * 0.25f;
            of[CS_XENT_LABEL] = is_own ? of[CS_XENT_MAX] - (is_best ? 0.0f : 1.0f) : 0.0f;
            of[CS_XENT_IS_BEST] = is_own ? (float)is_best : -1.0f;
        }
    *(double *)lab_output(lab, &c, LAB_F64, 1, 1e-6, 0)->host = 0.25;
    lab_output(lab, &c, LAB_F64, g.rows, 1e-6, 1e-6);
    lab_output(lab, &c, LAB_U8, g.rows, 0, 0);
    lab_output(lab, &c, LAB_F32, 2 * g.rows, 1e-6, 0);
    lab_run(lab, &c);
}

static void test_xent_parts(struct lab *lab)
{
    static const struct part_args size[] = {
        {1,   1,     1, 0.0f },
        {7,   127,   2, 0.0f },
        {130, 1000,  3, 30.0f},
        {300, 32003, 4, 0.0f },
        {513, 8192,  2, 5.0f },
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        one_part(lab, size[i]);
        one_join(lab, size[i]);
    }
    lab_group(lab, "xent in parts");
}

void group_loss(struct lab *lab)
{
    test_xent(lab);
    test_xent_parts(lab);
}
