/* Roofline of the CUDA operators: bench_gpu_ops [PLUGIN [NAME...]]; NAME: only rows that begin so.
 * For every operator at real sizes: median milliseconds, GB/s or TFLOP/s, and the share of the copy
 * bandwidth or of the 8192^3 GEMM measured in the same run. Random data (zeros draw less power and
 * run faster); before every run other memory is read, so that nothing of the operands is in the L2.
 * Bytes are those that must move, with every operand once. bf16; attention counts allowed pairs
 * only.
 *
 * Products have three rates, measured in turns: with the library's first plan, with the plan chosen
 * among 8 candidates (what a tuned job runs, the rate of the table), and with the best of 64. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu_mixers.h"
#include "core/base/buf.h"

#define POOL_BYTES ((size_t)10 << 30)
#define WARMUP     3
#define ROUNDS     11

struct item {
    const char *name;
    void (*call)(struct bench *b, const int64_t *n);
    int64_t n[6];
    double bytes, flops; /* one of them 0 */
    bool is_product;
};

static void must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void do_copy(struct bench *b, const int64_t *n)
{
    struct cs_err err;
    must(b->device->copy(b->handle, b->stream, at(b, 8), at(b, 0), (size_t)n[0], &err), &err);
}

static void do_gemm(struct bench *b, const int64_t *n)
{
    const int ta = (int)n[3], tb = (int)n[4];
    b->ops->gemm(&b->ctx, ta, tb, n[0], n[1], n[2], 1.0f, at(b, 0), ta ? n[0] : n[2], at(b, 4),
                 tb ? n[2] : n[1], 0.0f, at(b, 8), n[1]);
}

static void do_wgrad(struct bench *b, const int64_t *n)
{
    b->ops->gemm_wgrad(&b->ctx, n[0], n[1], n[2], at(b, 0), n[1], at(b, 4), n[2], at_f32(b, 8));
}

/* n: rows, in, out, act, 1: bias, 2: residual, 4: pre */
static void do_linear(struct bench *b, const int64_t *n)
{
    b->ops->linear(&b->ctx, n[0], n[1], n[2], at(b, 0), n[1], at(b, 4), n[4] & 1 ? at(b, 5) : NULL,
                   n[4] & 2 ? at(b, 6) : NULL, (enum cs_act)n[3], n[4] & 4 ? at(b, 12) : NULL,
                   at(b, 8));
}

/* the same as the plain operators in their order */
static void do_linear_apart(struct bench *b, const int64_t *n)
{
    void *product = n[4] & 4 ? at(b, 12) : at(b, 8);
    b->ops->gemm(&b->ctx, 0, 1, n[0], n[2], n[1], 1.0f, at(b, 0), n[1], at(b, 4), n[1], 0.0f,
                 product, n[2]);
    if (n[4] & 1)
        b->ops->bias_add(&b->ctx, n[0], n[2], product, n[2], at(b, 5));
    if (n[3] != CS_ACT_NONE)
        b->ops->act(&b->ctx, (enum cs_act)n[3], n[0] * n[2], product, at(b, 8));
    if (n[4] & 2)
        b->ops->add(&b->ctx, n[0] * n[2], at(b, 6), at(b, 8), at(b, 8));
}

static void do_linear_dgrad(struct bench *b, const int64_t *n)
{
    b->ops->linear_dgrad(&b->ctx, n[0], n[1], n[2], at(b, 0), at(b, 4), (enum cs_act)n[3],
                         at(b, 12), at(b, 8));
}

static void do_linear_dgrad_apart(struct bench *b, const int64_t *n)
{
    b->ops->gemm(&b->ctx, 0, 0, n[0], n[1], n[2], 1.0f, at(b, 0), n[2], at(b, 4), n[1], 0.0f,
                 at(b, 8), n[1]);
    b->ops->act_grad(&b->ctx, (enum cs_act)n[3], n[0] * n[1], at(b, 12), at(b, 8), at(b, 8));
}

static void do_linear_wgrad(struct bench *b, const int64_t *n)
{
    b->ops->linear_wgrad(&b->ctx, n[0], n[1], n[2], at(b, 0), at(b, 4), at_f32(b, 8),
                         at_f32(b, 12));
}

static void do_linear_wgrad_apart(struct bench *b, const int64_t *n)
{
    b->ops->gemm_wgrad(&b->ctx, n[0], n[2], n[1], at(b, 0), n[2], at(b, 4), n[1], at_f32(b, 8));
    b->ops->bias_grad(&b->ctx, n[0], n[2], at(b, 0), n[2], at_f32(b, 12));
}

/* models give RMSNorm none */
static const void *norm_bias(const struct bench *b, const int64_t *n)
{
    return n[2] == CS_NORM_LAYER ? at(b, 5) : NULL;
}

static void do_add_norm(struct bench *b, const int64_t *n)
{
    b->ops->add_norm(&b->ctx, (enum cs_norm)n[2], n[0], n[1], 1e-5f, 0.0f, at(b, 0), at(b, 2),
                     at(b, 4), norm_bias(b, n), at(b, 6), at(b, 8), at_f32(b, 12));
}

static void do_norm(struct bench *b, const int64_t *n)
{
    b->ops->norm(&b->ctx, (enum cs_norm)n[2], n[0], n[1], 1e-5f, 0.0f, at(b, 0), at(b, 4),
                 norm_bias(b, n), at(b, 8), at_f32(b, 12));
}

static void do_norm_grad(struct bench *b, const int64_t *n)
{
    float *dw = n[3] ? at_f32(b, 16) : NULL, *db = n[3] > 1 ? at_f32(b, 17) : NULL;
    b->ops->norm_grad(&b->ctx, (enum cs_norm)n[2], n[0], n[1], 0.0f, at(b, 0), at(b, 4),
                      at_f32(b, 12), at(b, 2), at(b, 6), at(b, 8), dw, db);
}

static void do_gated(struct bench *b, const int64_t *n)
{
    b->ops->gated(&b->ctx, CS_ACT_SILU, n[0], n[1], at(b, 0), at(b, 0) + 2 * n[1], 2 * n[1],
                  at(b, 8));
}

static void do_gated_grad(struct bench *b, const int64_t *n)
{
    b->ops->gated_grad(&b->ctx, CS_ACT_SILU, n[0], n[1], at(b, 0), at(b, 0) + 2 * n[1], 2 * n[1],
                       at(b, 4), at(b, 8), at(b, 8) + 2 * n[1], 2 * n[1]);
}

static void do_act(struct bench *b, const int64_t *n)
{
    b->ops->act(&b->ctx, CS_ACT_GELU_TANH, n[0] * n[1], at(b, 0), at(b, 8));
}

static void do_rope(struct bench *b, const int64_t *n)
{
    b->ops->rope(&b->ctx, n[0], (int32_t)n[1], (int32_t)n[2], (int32_t)n[2], n[1] * n[2], at(b, 0),
                 at_f32(b, 4), at_f32(b, 5), 0);
}

static void do_bias(struct bench *b, const int64_t *n)
{
    b->ops->bias_add(&b->ctx, n[0], n[1], at(b, 0), n[1], at(b, 4));
}

static void do_bias_grad(struct bench *b, const int64_t *n)
{
    b->ops->bias_grad(&b->ctx, n[0], n[1], at(b, 0), n[1], at_f32(b, 4));
}

static void do_embed_grad(struct bench *b, const int64_t *n)
{
    b->ops->embed_grad(&b->ctx, n[0], n[1], ids(b), at(b, 0), 1.0f, at_f32(b, 8));
}

static void do_adamw(struct bench *b, const int64_t *n)
{
    const struct cs_adamw hyper = {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.0f, 10};
    b->ops->adamw(&b->ctx, n[0], &hyper, at_f32(b, 0), at_f32(b, 4), at_f32(b, 8), at_f32(b, 12),
                  at(b, 16));
}

/* a list as an LLM of 1.2 billion parameters has it: n tensors of n[1] elements, each with a
 * norm */
#define LIST 256

static void do_adamw_many(struct bench *b, const int64_t *n)
{
    const struct cs_adamw hyper = {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.0f, 10};
    struct cs_adamw_tensor list[2 * LIST];
    int64_t begin = 0;
    for (int64_t i = 0; i < 2 * n[0]; i++) {
        const int64_t m = i % 2 == 0 ? n[1] : 2048;
        list[i] = (struct cs_adamw_tensor){m,
                                           0.1f,
                                           at_f32(b, 0) + begin,
                                           at_f32(b, 4) + begin,
                                           at_f32(b, 8) + begin,
                                           at_f32(b, 12) + begin,
                                           at(b, 16) + 2 * begin};
        begin += m;
    }
    b->ops->adamw_many(&b->ctx, (int32_t)(2 * n[0]), list, &hyper);
}

/* The same list with all in bf16. */
static void do_adamw_bf16(struct bench *b, const int64_t *n)
{
    /* beta2 0: second moments are squares, whatever lies there */
    const struct cs_adamw hyper = {1e-4f, 0.9f, 0.0f, 1e-8f, 0.0f, 1.0f, 10};
    struct cs_adamw_bf16_tensor list[2 * LIST];
    int64_t begin = 0;
    for (int64_t i = 0; i < 2 * n[0]; i++) {
        const int64_t m = i % 2 == 0 ? n[1] : 2048;
        list[i] = (struct cs_adamw_bf16_tensor){.n = m,
                                                .weight_decay = 0.1f,
                                                .key = (uint64_t)i,
                                                .grad = at(b, 0) + 2 * begin,
                                                .w = at(b, 4) + 2 * begin,
                                                .exp_avg = at(b, 8) + 2 * begin,
                                                .exp_avg_sq = at(b, 12) + 2 * begin};
        begin += m;
    }
    b->ops->adamw_bf16_many(&b->ctx, (int32_t)(2 * n[0]), list, &hyper);
}

static void do_sumsq_bf16(struct bench *b, const int64_t *n)
{
    struct cs_ctx ctx = b->ctx;
    ctx.grad = CS_GRAD_BF16;
    b->ops->sumsq(&ctx, n[0], at(b, 0), (double *)(void *)at(b, 16));
}

static void do_sumsq_many(struct bench *b, const int64_t *n)
{
    struct cs_sumsq_tensor list[2 * LIST];
    int64_t begin = 0;
    for (int64_t i = 0; i < 2 * n[0]; i++) {
        list[i] = (struct cs_sumsq_tensor){i % 2 == 0 ? n[1] : 2048, at_f32(b, 0) + begin};
        begin += list[i].n;
    }
    b->ops->sumsq_many(&b->ctx, (int32_t)(2 * n[0]), list, (double *)(void *)at(b, 16));
}

static void do_cast(struct bench *b, const int64_t *n)
{
    b->ops->cast_to_act(&b->ctx, n[0], at_f32(b, 0), at(b, 8));
}

static void do_scale_add(struct bench *b, const int64_t *n)
{
    b->ops->scale_add(&b->ctx, n[0], 0.5f, at_f32(b, 0), 1.0f, at_f32(b, 8));
}

static void do_patches(struct bench *b, const int64_t *n)
{
    const struct cs_patch_shape shape = {3, 1, (int32_t)n[2], 0};
    b->ops->patches(&b->ctx, n[0] * (n[1] / n[2]) * (n[1] / n[2]), &shape, b->places,
                    (const uint8_t *)at(b, 0), 1.0f / 255.0f, at_f32(b, 4), at_f32(b, 5), at(b, 8));
}

static void do_sumsq(struct bench *b, const int64_t *n)
{
    b->ops->sumsq(&b->ctx, n[0], at_f32(b, 0), (double *)(void *)at(b, 16));
}

/* n: rows, in, vocab, MiB of workspace (0: as much as it likes) */
static void do_xent(struct bench *b, const int64_t *n)
{
    struct cs_ctx ctx = b->ctx;
    ctx.workspace_bytes = n[3] > 0 ? (size_t)n[3] << 20 : ctx.workspace_bytes;
    b->ops->linear_xent(&ctx, n[0], n[1], n[2], at(b, 0), at(b, 4), ids(b), 0.0f,
                        (double *)(void *)at(b, 16), NULL, NULL, at(b, 8), at_f32(b, 10));
}

/* n: rows, heads, width of a head */
static void do_norm_heads(struct bench *b, const int64_t *n)
{
    b->ops->norm_heads(&b->ctx, n[0], (int32_t)n[1], n[2], 1e-6f, 0.0f, at(b, 0), n[1] * n[2],
                       at(b, 4), NULL, at(b, 8), n[1] * n[2], at_f32(b, 12));
}

static void do_norm_heads_grad(struct bench *b, const int64_t *n)
{
    b->ops->norm_heads_grad(&b->ctx, n[0], (int32_t)n[1], n[2], 0.0f, at(b, 0), n[1] * n[2],
                            at(b, 4), at_f32(b, 12), NULL, at(b, 2), n[1] * n[2], at(b, 8),
                            n[1] * n[2], 0, at_f32(b, 16));
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Fill the L2 with clean lines of memory that no operator uses. */
static void empty_l2(struct bench *b)
{
    b->ops->sumsq(&b->ctx, (int64_t)1 << 25, at_f32(b, 38), (double *)(void *)at(b, 39));
}

static double one_ms(struct bench *b, const struct item *item)
{
    struct cs_err err;
    double ms = 0.0;
    empty_l2(b);
    must(b->device->event_record(b->handle, b->begin, b->stream, &err), &err);
    item->call(b, item->n);
    must(b->device->event_record(b->handle, b->end, b->stream, &err), &err);
    must(b->device->stream_sync(b->handle, b->stream, &err), &err);
    must(b->device->event_elapsed(b->handle, b->begin, b->end, &ms, &err), &err);
    return ms;
}

/* Medians of the variants from to to, measured in turns */
static void medians(struct bench *b, const struct item *item, int from, int to, double *median)
{
    struct cs_err err;
    double ms[VARIANTS][ROUNDS];
    for (int round = -WARMUP; round < ROUNDS; round++)
        for (int v = from; v <= to; v++) {
            b->ctx = b->variant[v];
            const double one = one_ms(b, item);
            if (round >= 0)
                ms[v][round] = one;
        }
    for (int v = from; v <= to; v++) {
        must(b->device->status(b->variant[v].handle, &err), &err);
        qsort(ms[v], ROUNDS, sizeof ms[v][0], by_value);
        median[v] = ms[v][ROUNDS / 2];
    }
}

static bool is_chosen(const struct bench *b, const struct item *item)
{
    if (b->only[0] == NULL || strcmp(item->name, "copy") == 0 || strcmp(item->name, "gemm") == 0)
        return true;
    for (int i = 0; b->only[i] != NULL; i++)
        if (strncmp(item->name, b->only[i], strlen(b->only[i])) == 0)
            return true;
    return false;
}

/* GB/s of a copy that moves as many bytes, up to the big copy's: launching and the first and last
 * wave weigh on small ones */
static double copy_of_size(struct bench *b, double bytes)
{
    struct item copy = {.name = "", .call = do_copy, .n = {(int64_t)(bytes / 2.0)}};
    double ms[VARIANTS] = {0};
    if (copy.n[0] > (int64_t)1 << 30)
        return b->copy_gbps;
    medians(b, &copy, TUNED, TUNED, ms);
    return bytes / ms[TUNED] / 1e6;
}

static void run(struct bench *b, const struct item *item)
{
    char shape[80] = "";
    double ms[VARIANTS] = {0};
    for (int i = 0; i < 4 && item->n[i] > 0; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", i ? "x" : "",
                 (long long)item->n[i]);
    medians(b, item, item->is_product ? FIRST : TUNED, item->is_product ? BEST : TUNED, ms);
    if (item->bytes > 0) {
        const double gbps = item->bytes / ms[TUNED] / 1e6;
        if (b->copy_gbps == 0.0)
            b->copy_gbps = gbps;
        printf("%-16s %-20s %9.4f ms %8.1f GB/s    %5.1f %% of copy, %5.1f %% of one that small\n",
               item->name, shape, ms[TUNED], gbps, 100.0 * gbps / b->copy_gbps,
               100.0 * gbps / copy_of_size(b, item->bytes));
    } else {
        const double tflops = item->flops / ms[TUNED] / 1e9;
        if (b->gemm_tflops == 0.0)
            b->gemm_tflops = tflops;
        printf("%-16s %-20s %9.4f ms %8.1f TFLOP/s %5.1f %% of gemm", item->name, shape, ms[TUNED],
               tflops, 100.0 * tflops / b->gemm_tflops);
        if (item->is_product)
            printf(", first plan %7.4f ms, best of 64 %7.4f ms: %5.1f %%", ms[FIRST], ms[BEST],
                   100.0 * ms[BEST] / ms[TUNED]);
        printf("\n");
    }
    fflush(stdout);
}

#define MI ((int64_t)1 << 20)
/* forward y = x w^T, input gradient, weight gradient of a linear layer */
#define FORWARD(M, IN, OUT)                                                                        \
    {                                                                                              \
        "gemm forward", do_gemm, {M, OUT, IN, 0, 1}, 0, 2.0 * (M) * (IN) * (OUT), true             \
    }
#define DGRAD(M, IN, OUT)                                                                          \
    {                                                                                              \
        "gemm dgrad", do_gemm, {M, IN, OUT, 0, 0}, 0, 2.0 * (M) * (IN) * (OUT), true               \
    }
#define WGRAD(M, IN, OUT)                                                                          \
    {                                                                                              \
        "gemm wgrad", do_wgrad, {M, OUT, IN}, 0, 2.0 * (M) * (IN) * (OUT), true                    \
    }
#define ALL(M, IN, OUT) FORWARD(M, IN, OUT), DGRAD(M, IN, OUT), WGRAD(M, IN, OUT)
/* a layer with epilogue HAS (1: bias, 2: residual, 4: pre-activation), fused and apart */
#define FUSED(M, IN, OUT, ACT, HAS)                                                                \
    {                                                                                              \
        "linear", do_linear, {M, IN, OUT, ACT, HAS}, 0, 2.0 * (M) * (IN) * (OUT), true             \
    }
#define APART(M, IN, OUT, ACT, HAS)                                                                \
    {                                                                                              \
        "linear apart", do_linear_apart, {M, IN, OUT, ACT, HAS}, 0, 2.0 * (M) * (IN) * (OUT), true \
    }
#define LINEAR(M, IN, OUT, ACT, HAS) FUSED(M, IN, OUT, ACT, HAS), APART(M, IN, OUT, ACT, HAS)
#define PAIRS(S)                     ((double)(S) * ((S) + 1) / 2)
/* products of the delta rule in chunks of 64 rows, forward, and of its gradients without what is
 * computed again (k k^T, the inverse, W, U and states) */
#define DELTA(S, H, D)                                                                             \
    ((double)(S) / 64 * (H) * (64.0 * 64 * 10 * (D) + 6.0 * 64 * (D) * (D) + 64.0 * 64 * 64 / 3))
#define DELTA_GRAD(S, H, D)                                                                        \
    ((double)(S) / 64 * (H) * (64.0 * 64 * 20 * (D) + 12.0 * 64 * (D) * (D)))
#define ITEM(NAME, DO, BYTES, FLOP, ...)                                                           \
    {                                                                                              \
        NAME, DO, {__VA_ARGS__}, BYTES, FLOP, false                                                \
    }
#define DELTAS(S, H, K, D)                                                                         \
    ITEM("delta", do_delta, 0, DELTA(S, H, D), S, H, K, D),                                        \
        ITEM("delta grad", do_delta_grad, 0, DELTA_GRAD(S, H, D), S, H, K, D)
#define GATES(S, H)                                                                                \
    ITEM("delta gate", do_gate, 12.0 * (S) * (H), 0, S, H),                                        \
        ITEM("delta gate grad", do_gate_grad, 16.0 * (S) * (H), 0, S, H)
#define CONVS(S, N, TAPS)                                                                          \
    ITEM("short conv", do_conv, 4.0 * (S) * (N), 0, S, N, TAPS),                                   \
        ITEM("short conv grad", do_conv_grad, 6.0 * (S) * (N), 0, S, N, TAPS)
#define EXPERTS(P, IN, OUT, E)                                                                     \
    ITEM("experts forward", do_experts, 0, 2.0 * (P) * (IN) * (OUT), P, IN, OUT, E),               \
        ITEM("experts dgrad", do_experts_dgrad, 0, 2.0 * (P) * (IN) * (OUT), P, IN, OUT, E),       \
        ITEM("experts wgrad", do_experts_wgrad, 0, 2.0 * (P) * (IN) * (OUT), P, IN, OUT, E),       \
        ITEM("experts wgrad new", do_experts_wgrad, 0, 2.0 * (P) * (IN) * (OUT), P, IN, OUT, E, 1)
#define HEADS(S, H, D)                                                                             \
    ITEM("norm heads", do_norm_heads, 4.0 * (S) * (H) * (D), 0, S, H, D),                          \
        ITEM("norm heads grad", do_norm_heads_grad, 6.0 * (S) * (H) * (D), 0, S, H, D)

static const struct item items[] = {
    {"copy",               do_copy,         {1024 * MI},                           2.0 * 1024 * 1048576,                  0,                             false},
    {"gemm",               do_gemm,         {8192, 8192, 8192, 0, 1},              0,                                     2.0 * 8192 * 8192 * 8192,      true },
 /* experts of Qwen3-30B-A3B at 4096, 16384 and 32768 rows, of Mixtral-8x7B at 4096 and 16384 */
    EXPERTS(32768, 2048, 1536, 128),
    EXPERTS(32768, 768, 2048, 128),
    EXPERTS(32768 + SKEWED, 2048, 1536, 128),
    EXPERTS(131072, 2048, 1536, 128),
    EXPERTS(262144, 2048, 1536, 128),
    EXPERTS(262144, 768, 2048, 128),
    EXPERTS(8192, 4096, 28672, 8),
    EXPERTS(8192, 14336, 4096, 8),
    EXPERTS(32768, 4096, 28672, 8),
 /* Llama-3.2-1B at 4096 and 8192 rows, SigLIP-so400m at 4 and 16 images */
    ALL(4096, 2048, 3072),
    ALL(4096, 2048, 2048),
    ALL(4096, 2048, 16384),
    ALL(4096, 8192, 2048),
    ALL(8192, 2048, 3072),
    ALL(8192, 2048, 2048),
    ALL(8192, 2048, 16384),
    ALL(8192, 8192, 2048),
    ALL(2916, 1152, 3456),
    ALL(2916, 1152, 1152),
    ALL(2916, 1152, 4304),
    ALL(2916, 4304, 1152),
    ALL(11664, 1152, 3456),
    ALL(11664, 1152, 4304),
    ALL(11664, 4304, 1152),
    LINEAR(2916, 1152, 3456, CS_ACT_NONE, 1),
    LINEAR(2916, 4304, 1152, CS_ACT_NONE, 3),
    LINEAR(2916, 1152, 4304, CS_ACT_GELU_TANH, 5),
    LINEAR(2916, 1152, 4304, CS_ACT_GELU_TANH, 1),
    LINEAR(11664, 1152, 4304, CS_ACT_GELU_TANH, 5),
    LINEAR(11664, 4304, 1152, CS_ACT_NONE, 3),
    LINEAR(4096, 8192, 2048, CS_ACT_NONE, 2),
    LINEAR(4096, 2048, 2048, CS_ACT_NONE, 2),
    LINEAR(4096, 1152, 2048, CS_ACT_GELU, 5),
    {"linear dgrad",
     do_linear_dgrad,                       {2916, 4304, 1152, CS_ACT_GELU_TANH},
     0,                                                                                                                   2.0 * 2916 * 1152 * 4304,
     true                                                                                                                                                     },
    {"linear dgrad apart",
     do_linear_dgrad_apart,                 {2916, 4304, 1152, CS_ACT_GELU_TANH},
     0,                                                                                                                   2.0 * 2916 * 1152 * 4304,
     true                                                                                                                                                     },
    {"linear dgrad",
     do_linear_dgrad,                       {11664, 4304, 1152, CS_ACT_GELU_TANH},
     0,                                                                                                                   2.0 * 11664 * 1152 * 4304,
     true                                                                                                                                                     },
    {"linear dgrad apart",
     do_linear_dgrad_apart,                 {11664, 4304, 1152, CS_ACT_GELU_TANH},
     0,                                                                                                                   2.0 * 11664 * 1152 * 4304,
     true                                                                                                                                                     },
    {"linear wgrad",       do_linear_wgrad, {2916, 1152, 4304},                    0,                                     2.0 * 2916 * 1152 * 4304,      true },
    {"linear wgrad apart",
     do_linear_wgrad_apart,                 {2916, 1152, 4304},
     0,                                                                                                                   2.0 * 2916 * 1152 * 4304,
     true                                                                                                                                                     },
    {"linear wgrad",       do_linear_wgrad, {11664, 1152, 4304},                   0,                                     2.0 * 11664 * 1152 * 4304,     true },
    {"linear wgrad apart",
     do_linear_wgrad_apart,                 {11664, 1152, 4304},
     0,                                                                                                                   2.0 * 11664 * 1152 * 4304,
     true                                                                                                                                                     },
    {"rmsnorm",            do_norm,         {4096, 2048, CS_NORM_RMS},             4.0 * 4096 * 2048,                     0,                             false},
    {"rmsnorm",            do_norm,         {8192, 2048, CS_NORM_RMS},             4.0 * 8192 * 2048,                     0,                             false},
    {"rmsnorm",            do_norm,         {8192, 4096, CS_NORM_RMS},             4.0 * 8192 * 4096,                     0,                             false},
    {"rmsnorm",            do_norm,         {65536, 2048, CS_NORM_RMS},            4.0 * 65536 * 2048,                    0,                             false},
    {"layernorm",          do_norm,         {11664, 1152, CS_NORM_LAYER},          4.0 * 11664 * 1152,                    0,                             false},
    {"layernorm",          do_norm,         {65536, 1152, CS_NORM_LAYER},          4.0 * 65536 * 1152,                    0,                             false},
    {"add rmsnorm",        do_add_norm,     {8192, 2048, CS_NORM_RMS},             8.0 * 8192 * 2048,                     0,                             false},
    {"add rmsnorm",        do_add_norm,     {65536, 2048, CS_NORM_RMS},            8.0 * 65536 * 2048,                    0,                             false},
    {"add layernorm",      do_add_norm,     {65536, 1152, CS_NORM_LAYER},          8.0 * 65536 * 1152,                    0,                             false},
    {"rmsnorm dx",         do_norm_grad,    {65536, 2048, CS_NORM_RMS, 0},         8.0 * 65536 * 2048,                    0,                             false},
    {"rmsnorm dx dw",      do_norm_grad,    {8192, 2048, CS_NORM_RMS, 1},          8.0 * 8192 * 2048,                     0,                             false},
    {"rmsnorm dx dw",      do_norm_grad,    {65536, 2048, CS_NORM_RMS, 1},         8.0 * 65536 * 2048,                    0,                             false},
    {"layernorm dx dw",
     do_norm_grad,                          {11664, 1152, CS_NORM_LAYER, 2},
     8.0 * 11664 * 1152,
     0,                                                                                                                                                  false},
    {"layernorm dx dw",
     do_norm_grad,                          {65536, 1152, CS_NORM_LAYER, 2},
     8.0 * 65536 * 1152,
     0,                                                                                                                                                  false},
    {"silu gated",         do_gated,        {8192, 8192},                          6.0 * 8192 * 8192,                     0,                             false},
    {"silu gated grad",    do_gated_grad,   {8192, 8192},                          10.0 * 8192 * 8192,                    0,                             false},
    {"gelu tanh",          do_act,          {16384, 4304},                         4.0 * 16384 * 4304,                    0,                             false},
    {"rope",               do_rope,         {8192, 40, 64},                        4.0 * 8192 * 2560 + 8.0 * 8192 * 32,   0,                             false},
    {"rope",               do_rope,         {32768, 32, 64},                       4.0 * 32768 * 2048 + 8.0 * 32768 * 32, 0,                             false},
    {"bias add",           do_bias,         {32768, 3456},                         4.0 * 32768 * 3456,                    0,                             false},
    {"bias grad",          do_bias_grad,    {11664, 4304},                         2.0 * 11664 * 4304,                    0,                             false},
    {"bias grad",          do_bias_grad,    {32768, 3456},                         2.0 * 32768 * 3456,                    0,                             false},
    {"embed grad",         do_embed_grad,   {8192, 2048},                          10.0 * 8192 * 2048,                    0,                             false},
    {"patches",            do_patches,      {64, 384, 14},                         3.0 * 64 * 378 * 378 * 3,              0,                             false},
    {"adamw",              do_adamw,        {256 * MI},                            30.0 * 256 * 1048576,                  0,                             false},
    {"adamw many",         do_adamw_many,   {112, 2 * MI},                         30.0 * 112 * (2 * 1048576 + 2048),     0,                             false},
    {"adamw bf16 many",    do_adamw_bf16,   {112, 2 * MI},                         14.0 * 112 * (2 * 1048576 + 2048),     0,                             false},
    {"sumsq bf16",         do_sumsq_bf16,   {256 * MI},                            2.0 * 256 * 1048576,                   0,                             false},
    {"sumsq",              do_sumsq,        {256 * MI},                            4.0 * 256 * 1048576,                   0,                             false},
    {"sumsq many",         do_sumsq_many,   {112, 2 * MI},                         4.0 * 112 * (2 * 1048576 + 2048),      0,                             false},
    {"cast to bf16",       do_cast,         {256 * MI},                            6.0 * 256 * 1048576,                   0,                             false},
    {"scale add",          do_scale_add,    {256 * MI},                            12.0 * 256 * 1048576,                  0,                             false},
    {"linear xent",        do_xent,         {4096, 2048, 128256},                  0,                                     6.0 * 4096 * 2048 * 128256,    false},
    {"linear xent",        do_xent,         {1024, 2048, 128256},                  0,                                     6.0 * 1024 * 2048 * 128256,    false},
    {"linear xent",        do_xent,         {1180, 2048, 128256},                  0,                                     6.0 * 1180 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {4096, 2048, 128256, 128},             0,                                     6.0 * 4096 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {4096, 2048, 128256, 256},             0,                                     6.0 * 4096 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {4096, 2048, 128256, 512},             0,                                     6.0 * 4096 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {4096, 2048, 128256, 768},             0,                                     6.0 * 4096 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {3072, 2048, 128256, 512},             0,                                     6.0 * 3072 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {3072, 2048, 128256, 1024},            0,                                     6.0 * 3072 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {2560, 2048, 128256, 512},             0,                                     6.0 * 2560 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {2048, 2048, 128256, 256},             0,                                     6.0 * 2048 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {2048, 2048, 128256, 512},             0,                                     6.0 * 2048 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {1180, 2048, 128256, 128},             0,                                     6.0 * 1180 * 2048 * 128256,    false},
    {"linear xent MiB",    do_xent,         {1180, 2048, 128256, 256},             0,                                     6.0 * 1180 * 2048 * 128256,    false},
    GATES(8192, 32),
    DELTAS(4096, 16, 16, 128),
    DELTAS(8192, 32, 16, 128),
    CONVS(4096, 6144, 4),
    CONVS(16384, 8192, 4),
    HEADS(8192, 32, 128),
    {"attention",          do_attention,    {4096, 32, 8, 64},                     0,                                     4.0 * 64 * 32 * PAIRS(4096),   false},
    {"attention grad",
     do_attention_grad,                     {4096, 32, 8, 64},
     0,                                                                                                                   10.0 * 64 * 32 * PAIRS(4096),
     false                                                                                                                                                    },
    {"attention",          do_attention,    {4096, 32, 8, 128},                    0,                                     4.0 * 128 * 32 * PAIRS(4096),  false},
    {"attention grad",
     do_attention_grad,                     {4096, 32, 8, 128},
     0,                                                                                                                   10.0 * 128 * 32 * PAIRS(4096),
     false                                                                                                                                                    },
};

enum { PICTURES = 64, PICTURE = 384, PATCH = 14 };

/* patch by patch, line by line, of pictures one behind the other */
static void fill_places(struct bench *b)
{
    struct cs_err err;
    const int side = PICTURE / PATCH, line = PICTURE * 3;
    const size_t bytes = (size_t)PICTURES * (size_t)(side * side) * sizeof *b->places;
    struct cs_patch_place *place = malloc(bytes);
    void *there = NULL;
    if (place == NULL)
        abort();
    for (int i = 0; i < PICTURES * side * side; i++) {
        const int64_t y = i / side % side, x = i % side, picture = i / side / side;
        place[i] = (struct cs_patch_place){(picture * PICTURE + y * PATCH) * line + x * PATCH * 3,
                                           line, 0};
    }
    must(b->device->alloc(b->handle, bytes, &there, &err), &err);
    must(b->device->copy(b->handle, b->stream, there, place, bytes, &err), &err);
    must(b->device->stream_sync(b->handle, b->stream, &err), &err);
    b->places = there;
    free(place);
}

static void fill(struct bench *b)
{
    struct cs_err err;
    const size_t half = (size_t)1 << 24, n_ints = (size_t)1 << 22;
    uint16_t *x = malloc(half * sizeof *x);
    int32_t *ints = calloc(n_ints, sizeof *ints);
    if (x == NULL || ints == NULL)
        abort();
    uint64_t seed = 1;
    for (size_t i = 0; i < half; i++) { /* bf16 of magnitude 1/16 .. 1, either sign */
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint32_t r = (uint32_t)(seed >> 33);
        x[i] = (uint16_t)(((r & 1) << 15) | ((123 + (r >> 1) % 4) << 7) | ((r >> 8) & 127));
    }
    for (size_t done = 0; done < POOL_BYTES; done += half * sizeof *x)
        must(b->device->copy(b->handle, b->stream, b->pool + done, x, half * sizeof *x, &err),
             &err);
    for (int32_t i = 0; i < 1 << 20; i++)
        ints[i] = (int32_t)(((uint32_t)i * 2654435761u) >> 19);
    for (int32_t i = 0; i < 1 << 18; i++)
        ints[(1 << 20) + i] = i;
    ints[(1 << 20) + (1 << 19) + 1] = 4096; /* the only segment */
    fill_experts(ints);
    must(b->device->copy(b->handle, b->stream, b->ints, ints, n_ints * sizeof *ints, &err), &err);
    must(b->device->stream_sync(b->handle, b->stream, &err), &err);
    free(x);
    free(ints);
}

static void set_up(struct bench *b)
{
    struct cs_err err;
    struct cs_device_properties props;
    void *pool, *ints, *workspace;
    const size_t workspace_bytes = (size_t)2 << 30;
    must(b->device->properties(0, &props, &err), &err);
    must(b->device->open(0, &b->handle, &err), &err);
    must(b->device->stream_create(b->handle, &b->stream, &err), &err);
    must(b->device->event_create(b->handle, &b->begin, &err), &err);
    must(b->device->event_create(b->handle, &b->end, &err), &err);
    must(b->device->alloc(b->handle, POOL_BYTES, &pool, &err), &err);
    must(b->device->alloc(b->handle, (size_t)1 << 24, &ints, &err), &err);
    must(b->device->alloc(b->handle, workspace_bytes, &workspace, &err), &err);
    b->pool = pool;
    b->ints = ints;
    static const int candidates[VARIANTS] = {0, 8, 64};
    for (int v = 0; v < VARIANTS; v++) {
        void *handle = b->handle;
        if (v > 0)
            must(b->device->open(0, &handle, &err), &err);
        must(b->device->tune(handle, candidates[v], NULL, &err), &err);
        b->variant[v] = (struct cs_ctx){.stream = b->stream,
                                        .workspace = workspace,
                                        .workspace_bytes = workspace_bytes,
                                        .handle = handle};
    }
    b->ctx = b->variant[FIRST];
    printf("%s, %d processors, bf16, median of %d\n", props.name, props.processors, ROUNDS);
    fill(b);
    fill_places(b);
}

int main(int argc, char **argv)
{
    void *plugin = dlopen(argc > 1 ? argv[1] : "lib/libcornstarch-cuda.so", RTLD_NOW | RTLD_LOCAL);
    cs_cuda_ops_fn *get = NULL;
    if (plugin != NULL)
        *(void **)&get = dlsym(plugin, "cs_cuda_ops");
    if (get == NULL || get(CS_OPS_VERSION) == NULL) {
        fprintf(stderr, "%s\n", plugin == NULL ? dlerror() : "not a plugin of this version");
        return 77;
    }
    struct bench b = {.ops = get(CS_OPS_VERSION),
                      .device = get(CS_OPS_VERSION)->device,
                      .only = argv + (argc > 2 ? 2 : argc)};
    set_up(&b);
    for (size_t i = 0; i < CS_ARRAY_LEN(items); i++)
        if (is_chosen(&b, &items[i]))
            run(&b, &items[i]);
    for (int v = 0; v < VARIANTS; v++)
        b.device->close(b.variant[v].handle);
    return 0;
}
