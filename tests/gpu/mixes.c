/* Weighted rows of tables and rows of neighbours: GPU against CPU. */
#include "gpu/groups.h"

#include "core/base/buf.h"

struct mix_args {
    int64_t rows, n, x_rows;
    int32_t most; /* entries of a row; taps */
    int add;
};

static double act_rel(const struct lab *lab)
{
    return lab_is_bf16(lab) ? 8e-3 : 1e-5;
}

static int32_t *integers(struct lab *lab, struct lab_case *c, int64_t n)
{
    return lab_raw(lab, c, LAB_I32, n)->host;
}

/* Where the list of every row starts: 0 to most entries a row. Returns how many in all. */
static int32_t random_starts(struct lab *lab, struct lab_case *c, int64_t rows, int32_t most)
{
    int32_t *start = integers(lab, c, rows + 1);
    start[0] = 0;
    for (int64_t i = 0; i < rows; i++)
        start[i + 1] = start[i] + lab_between(lab, 0, most);
    return start[rows];
}

static void random_lists(struct lab *lab, struct lab_case *c, const struct mix_args *g)
{
    const int32_t n = random_starts(lab, c, g->rows, g->most);
    int32_t *index = integers(lab, c, n);
    for (int32_t e = 0; e < n; e++)
        index[e] = lab_between(lab, 0, (int)g->x_rows - 1);
    lab_real(lab, c, LAB_F32, n, -1, 1);
    lab_real(lab, c, LAB_ACT, g->x_rows * g->n, -1, 1);
}

static void call_mix(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p, const void *args)
{
    const struct mix_args *g = args;
    ops->mix_rows(ctx, g->rows, g->n, p[0], p[1], p[2], p[3], g->add, p[4]);
}

static void call_mix_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                          const void *args)
{
    const struct mix_args *g = args;
    ops->mix_rows_grad(ctx, g->rows, g->n, p[0], p[1], p[2], p[3], p[4]);
}

static void call_unfold(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                        const void *args)
{
    const struct mix_args *g = args;
    ops->unfold(ctx, g->rows, g->most, g->n, p[0], p[1], p[2]);
}

static void call_fold(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct mix_args *g = args;
    ops->fold(ctx, g->rows, g->most, g->n, p[0], p[1], p[2], p[3]);
}

static void one_mix(struct lab *lab, struct mix_args g)
{
    for (g.add = 0; g.add < 2; g.add++) {
        struct lab_case c = {.what = "mix_rows", .call = call_mix, .args = &g};
        random_lists(lab, &c, &g);
        lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1)->rel = act_rel(lab);
        c.t[c.n - 1].scale = 1e-6;
        c.t[c.n - 1].floor = 1e-5; /* of sums that cancel */
        lab_run(lab, &c);
    }
    struct lab_case c = {.what = "mix_rows_grad", .call = call_mix_grad, .args = &g};
    random_lists(lab, &c, &g);
    lab_real(lab, &c, LAB_F32, g.rows * g.n, -1, 1)->rel = 1e-5;
    c.t[c.n - 1].scale = 1e-6;
    c.t[c.n - 1].floor = 1e-5;
    lab_run(lab, &c);
}

/* most: taps */
static void one_fold(struct lab *lab, struct mix_args g, bool is_listed)
{
    struct lab_case c = {.what = "unfold", .call = call_unfold, .args = &g};
    if (is_listed) {
        int32_t *index = integers(lab, &c, g.rows * g.most);
        for (int64_t i = 0; i < g.rows * g.most; i++)
            index[i] = lab_between(lab, -1, (int)g.x_rows - 1);
    } else {
        lab_null(&c);
        g.x_rows = g.rows * g.most;
    }
    lab_real(lab, &c, LAB_ACT, g.x_rows * g.n, -1, 1);
    lab_output(lab, &c, LAB_ACT, g.rows * g.most * g.n, 0, 0);
    lab_run(lab, &c);

    struct lab_case back = {.what = "fold", .call = call_fold, .args = &g};
    const int64_t folded = is_listed ? g.rows : g.rows * g.most, rows = g.rows;
    if (is_listed) {
        const int32_t n = random_starts(lab, &back, g.rows, 5);
        int32_t *entry = integers(lab, &back, n);
        for (int32_t e = 0; e < n; e++)
            entry[e] = lab_between(lab, 0, (int)(g.rows * g.most) - 1);
    } else {
        lab_null(&back);
        lab_null(&back);
    }
    lab_real(lab, &back, LAB_ACT, rows * g.most * g.n, -1, 1);
    lab_output(lab, &back, LAB_ACT, folded * g.n, act_rel(lab), 1e-6)->floor = 1e-5;
    g.rows = folded;
    lab_run(lab, &back);
}

void group_mixes(struct lab *lab)
{
    static const struct mix_args size[] = {
        {1,    1,    1,    1,  0},
        {7,    5,    3,    4,  0},
        {64,   1152, 64,   16, 0},
        {300,  768,  49,   4,  0},
        {1500, 384,  3000, 3,  0},
        {33,   1031, 90,   2,  0},
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++)
        one_mix(lab, size[i]);
    lab_group(lab, "mix_rows");
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        one_fold(lab, size[i], true);
        one_fold(lab, size[i], false);
    }
    lab_group(lab, "unfold");
}
