/* The linear layer with its surroundings against the CPU twin, with the library's first plans and
 * with measured ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "gpu/groups.h"

struct linear_args {
    int64_t rows, in, out, ldx;
    enum cs_act act;
};

static void call_linear(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                        const void *args)
{
    const struct linear_args *g = args;
    ops->linear(ctx, g->rows, g->in, g->out, p[0], g->ldx, p[1], p[2], p[3], g->act, p[4], p[5]);
}

static void call_dgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct linear_args *g = args;
    ops->linear_dgrad(ctx, g->rows, g->in, g->out, p[0], p[1], g->act, p[2], p[3]);
}

static void call_wgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct linear_args *g = args;
    ops->linear_wgrad(ctx, g->rows, g->in, g->out, p[0], p[1], p[2], p[3]);
}

enum { HAS_BIAS = 1, HAS_RESIDUAL = 2, HAS_PRE = 4 };

/* w such that the pre-activations are about 1 */
static float reach_of(int64_t k)
{
    float reach = 1.0f;
    for (; k > 2; k /= 4)
        reach *= 0.5f;
    return reach;
}

static void one_linear(struct lab *lab, struct linear_args g, int has)
{
    const bool is_bf16 = lab_is_bf16(lab);
    struct lab_case c = {.what = "linear", .call = call_linear, .args = &g};
    g.ldx = g.in + (has & HAS_PRE ? 8 : 0);
    lab_real(lab, &c, LAB_ACT, g.rows * g.ldx, -1, 1);
    lab_real(lab, &c, LAB_ACT, g.out * g.in, -2 * reach_of(g.in), 2 * reach_of(g.in));
    if (has & HAS_BIAS)
        lab_real(lab, &c, LAB_ACT, g.out, -1, 1);
    else
        lab_null(&c);
    if (has & HAS_RESIDUAL)
        lab_real(lab, &c, LAB_ACT, g.rows * g.out, -1, 1);
    else
        lab_null(&c);
    if ((has & HAS_PRE) && g.act != CS_ACT_NONE)
        lab_output(lab, &c, LAB_ACT, g.rows * g.out, is_bf16 ? 8e-3 : 1e-5, is_bf16 ? 3e-3 : 5e-6);
    else
        lab_null(&c);
    /* bf16 at every step where the back end does not fuse (a product of about 1 before a bias of
     * the other sign); the library's GELU is a fast tanh */
    lab_output(lab, &c, LAB_ACT, g.rows * g.out, is_bf16 ? 1.2e-2 : 1e-5, is_bf16 ? 3e-3 : 5e-6);
    for (int i = 4; i < 6; i++)
        c.t[i].floor = is_bf16 ? 4e-3 : 0.0;
    lab_run(lab, &c);
}

static void one_dgrad(struct lab *lab, struct linear_args g)
{
    const bool is_bf16 = lab_is_bf16(lab);
    struct lab_case c = {.what = "linear_dgrad", .call = call_dgrad, .args = &g};
    lab_real(lab, &c, LAB_ACT, g.rows * g.out, -1, 1);
    lab_real(lab, &c, LAB_ACT, g.out * g.in, -2 * reach_of(g.out), 2 * reach_of(g.out));
    if (g.act == CS_ACT_NONE)
        lab_null(&c);
    else
        lab_real(lab, &c, LAB_ACT, g.rows * g.in, -4, 4);
    lab_output(lab, &c, LAB_ACT, g.rows * g.in, is_bf16 ? 1.2e-2 : 1e-5, is_bf16 ? 3e-3 : 5e-6);
    lab_run(lab, &c);
}

static void one_wgrad(struct lab *lab, struct linear_args g, int wants)
{
    struct lab_case c = {.what = "linear_wgrad", .call = call_wgrad, .args = &g};
    lab_real(lab, &c, LAB_ACT, g.rows * g.out, -1, 1);
    lab_real(lab, &c, LAB_ACT, g.rows * g.in, -1, 1);
    for (int i = 0; i < 2; i++) {
        if ((wants & (1 << i)) == 0) {
            lab_null(&c);
            continue;
        }
        struct lab_tensor *t = lab_real(lab, &c, LAB_F32, i == 0 ? g.out * g.in : g.out, -1, 1);
        t->rel = 1e-5;
        t->scale = 1e-5;
    }
    lab_run(lab, &c);
}

static const int64_t sizes[][3] = {
    {0,   8,   8  },
    {1,   1,   1  },
    {7,   3,   5  },
    {33,  64,  72 },
    {128, 128, 256},
    {129, 72,  127},
    {64,  0,   16 },
    {300, 256, 520},
};

static void all_sizes(struct lab *lab)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++)
        for (int act = 0; act < CS_ACT_KINDS; act++) {
            const struct linear_args g = {.rows = sizes[i][0],
                                          .in = sizes[i][1],
                                          .out = sizes[i][2],
                                          .act = (enum cs_act)act};
            for (int has = 0; has < 8; has++)
                one_linear(lab, g, has);
            one_dgrad(lab, g);
        }
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++)
        for (int wants = 0; wants < 4; wants++)
            one_wgrad(
                lab,
                (struct linear_args){.rows = sizes[i][0], .in = sizes[i][1], .out = sizes[i][2]},
                wants);
}

static int64_t lines_of(const char *path)
{
    FILE *file = fopen(path, "r");
    int64_t n = 0;
    for (int ch = 0; file != NULL && (ch = fgetc(file)) != EOF;)
        n += ch == '\n';
    if (file != NULL)
        fclose(file);
    return n;
}

/* Measured plans on handles of their own: the first writes the file, the second only reads it. */
static void measured_plans(struct lab *lab)
{
    char path[] = "gemm-plans-XXXXXX";
    const int fd = mkstemp(path);
    struct cs_err err = {.status = CS_OK};
    const struct cs_ctx before = lab->dev_ctx;
    void *const handle = lab->handle;
    int64_t lines[2] = {0, 0};
    lab_verdict(lab, "a_file_for_plans", fd >= 0);
    lab_verdict(lab, "too_many_candidates",
                lab->device->tune(handle, 65, NULL, &err) == CS_INVALID);
    lab_verdict(lab, "no_such_folder",
                lab->device->tune(handle, 8, "no/such/folder/plans", &err) == CS_IO &&
                    strstr(err.text, "no/such/folder/plans") != NULL);
    lab_verdict(lab, "no_measuring_again", lab->device->tune(handle, 0, NULL, &err) == CS_OK);
    for (int i = 0; i < 2 && fd >= 0; i++) {
        if (lab->device->open(0, &lab->handle, &err) != CS_OK)
            break;
        lab->dev_ctx.handle = lab->handle;
        lab_verdict(lab, "tune", lab->device->tune(lab->handle, 4, path, &err) == CS_OK);
        for (int act = 0; act < CS_ACT_KINDS; act += CS_ACT_GELU_TANH)
            for (int has = 0; has < 8; has++) {
                const struct linear_args g = {
                    .rows = 130, .in = 64, .out = 256, .act = (enum cs_act)act};
                one_linear(lab, g, has);
                one_dgrad(lab, g);
                one_wgrad(lab, g, 3);
            }
        lines[i] = lines_of(path);
        lab->device->close(lab->handle);
    }
    lab->handle = handle;
    lab->dev_ctx = before;
    lab_verdict(lab, "plans_are_filed_once",
                (lines[0] > 0 || lab->most > 0) && lines[0] == lines[1]);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
}

/* Plans measured behind the back of those who use them: only those used often enough, once; on the
 * next handle what was filed is there without measuring. */
static void plans_measured_later(struct lab *lab)
{
    char path[] = "gemm-plans-XXXXXX";
    const int fd = mkstemp(path);
    const struct linear_args often = {.rows = 130, .in = 64, .out = 256},
                             seldom = {.rows = 131, .in = 64, .out = 256};
    struct cs_err err = {.status = CS_OK};
    const struct cs_ctx before = lab->dev_ctx;
    void *const handle = lab->handle;
    int32_t measured[3] = {-1, -1, -1}, again = -1;
    lab_verdict(lab, "too_many_candidates_later",
                lab->device->tune_used(handle, before.stream, 65, 1, 1, NULL, &err) == CS_INVALID);
    for (int i = 0; i < 2 && fd >= 0; i++) {
        if (lab->device->open(0, &lab->handle, &err) != CS_OK)
            break;
        lab->dev_ctx.handle = lab->handle;
        lab_verdict(lab, "plans_of_a_file", lab->device->tune(lab->handle, 0, path, &err) == CS_OK);
        for (int k = 0; k < 3; k++)
            one_dgrad(lab, often);
        one_dgrad(lab, seldom);
        for (int k = 0; k < 3 && i == 0; k++) { /* every comparison uses a product thrice */
            if (lab->device->tune_used(lab->handle, before.stream, 4, k == 0 ? 20 : 8, 8,
                                       &measured[k], &err) != CS_OK)
                break;
            one_dgrad(lab, often);
        }
        if (i == 1 &&
            lab->device->tune_used(lab->handle, before.stream, 4, 1, 8, &again, &err) != CS_OK)
            again = -1;
        lab->device->close(lab->handle);
    }
    lab->handle = handle;
    lab->dev_ctx = before;
    const bool has_run = lab->most == 0; /* else the products were too large for this run */
    lab_verdict(lab, "seldom_used_is_not_measured", !has_run || measured[0] == 0);
    lab_verdict(lab, "often_used_is_measured_once",
                !has_run || (measured[1] == 1 && measured[2] == 0));
    lab_verdict(lab, "filed_is_not_measured", !has_run || again == 1);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
}

void group_linear(struct lab *lab)
{
    all_sizes(lab);
    lab_group(lab, "linear");
    measured_plans(lab);
    plans_measured_later(lab);
    lab_group(lab, "tuned plans");
}
