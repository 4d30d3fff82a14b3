/* Roofline of the CUDA operators: bench_gpu_ops [PLUGIN]. For every operator at real sizes: median
 * milliseconds, GB/s or TFLOP/s, and the share of the copy bandwidth or of the 8192^3 GEMM measured
 * in the same run. Random data (zeros draw less power and run faster), operands larger than the L2
 * where the operator's own are. bf16; attention counts allowed pairs only. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "kernels/device.h"
#include "kernels/ops.h"

#define POOL_BYTES ((size_t)10 << 30)
#define WARMUP     3
#define ROUNDS     11

struct bench {
    const struct cs_ops *ops;
    const struct cs_device_ops *device;
    void *handle, *stream, *begin, *end;
    char *pool, *ints; /* random bf16; int32 below 8192 */
    struct cs_ctx ctx;
    double copy_gbps, gemm_tflops;
};

struct item {
    const char *name;
    void (*call)(struct bench *b, const int64_t *n);
    int64_t n[6];
    double bytes, flops; /* one of them 0 */
};

static void must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static char *at(const struct bench *b, int64_t gib_quarters)
{
    return b->pool + ((size_t)gib_quarters << 28);
}

static float *at_f32(const struct bench *b, int64_t gib_quarters)
{
    return (float *)(void *)at(b, gib_quarters);
}

static const int32_t *ids(const struct bench *b)
{
    return (const int32_t *)(const void *)b->ints;
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

static void do_norm(struct bench *b, const int64_t *n)
{
    b->ops->norm(&b->ctx, (enum cs_norm)n[2], n[0], n[1], 1e-5f, 0.0f, at(b, 0), at(b, 4), at(b, 5),
                 at(b, 8), at_f32(b, 12));
}

static void do_norm_grad(struct bench *b, const int64_t *n)
{
    float *dw = n[3] ? at_f32(b, 16) : NULL;
    b->ops->norm_grad(&b->ctx, (enum cs_norm)n[2], n[0], n[1], 0.0f, at(b, 0), at(b, 4),
                      at_f32(b, 12), at(b, 2), at(b, 6), at(b, 8), dw, NULL);
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

static void do_sumsq(struct bench *b, const int64_t *n)
{
    b->ops->sumsq(&b->ctx, n[0], at_f32(b, 0), (double *)(void *)at(b, 16));
}

static void do_xent(struct bench *b, const int64_t *n)
{
    b->ops->linear_xent(&b->ctx, n[0], n[1], n[2], at(b, 0), at(b, 4), ids(b), 0.0f,
                        (double *)(void *)at(b, 16), NULL, at(b, 8), at_f32(b, 10));
}

/* One causal document: the plan's arrays are pos = row, doc = 0 in the last quarter of ints. */
static void attention(struct bench *b, const int64_t *n, bool is_grad)
{
    const int32_t *pos = ids(b) + (1 << 20), *doc = pos + (1 << 18), *segment = doc + (1 << 18);
    const int32_t heads = (int32_t)n[1], kv = (int32_t)n[2], d = (int32_t)n[3];
    const struct cs_attention_shape s = {.tokens = (int32_t)n[0],
                                         .heads = heads,
                                         .kv_heads = kv,
                                         .head_dim = d,
                                         .q_stride = heads * d,
                                         .kv_stride = kv * d,
                                         .o_stride = heads * d,
                                         .scale = 1.0f / sqrtf((float)d)};
    const struct cs_mask_plan plan = {.rule = {.kind = CS_MASK_CAUSAL},
                                      .n_tokens = s.tokens,
                                      .doc = doc,
                                      .pos = pos,
                                      .n_segments = 1,
                                      .segment = segment};
    if (is_grad)
        b->ops->attention_grad(&b->ctx, &s, &plan, at(b, 0), at(b, 1), at(b, 2), at(b, 8),
                               at_f32(b, 9), at(b, 3), at(b, 10), at(b, 11), at(b, 12));
    else
        b->ops->attention(&b->ctx, &s, &plan, at(b, 0), at(b, 1), at(b, 2), at(b, 8), at_f32(b, 9));
}

static void do_attention(struct bench *b, const int64_t *n)
{
    attention(b, n, false);
}

static void do_attention_grad(struct bench *b, const int64_t *n)
{
    attention(b, n, true);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_ms(struct bench *b, const struct item *item)
{
    struct cs_err err;
    double ms[ROUNDS];
    for (int i = 0; i < WARMUP; i++)
        item->call(b, item->n);
    for (int i = 0; i < ROUNDS; i++) {
        must(b->device->event_record(b->handle, b->begin, b->stream, &err), &err);
        item->call(b, item->n);
        must(b->device->event_record(b->handle, b->end, b->stream, &err), &err);
        must(b->device->stream_sync(b->handle, b->stream, &err), &err);
        must(b->device->event_elapsed(b->handle, b->begin, b->end, &ms[i], &err), &err);
    }
    must(b->device->status(b->handle, &err), &err);
    qsort(ms, ROUNDS, sizeof ms[0], by_value);
    return ms[ROUNDS / 2];
}

static void run(struct bench *b, const struct item *item)
{
    char shape[80] = "";
    for (int i = 0; i < 4 && item->n[i] > 0; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", i ? "x" : "",
                 (long long)item->n[i]);
    const double ms = median_ms(b, item);
    if (item->bytes > 0) {
        const double gbps = item->bytes / ms / 1e6;
        if (b->copy_gbps == 0.0)
            b->copy_gbps = gbps;
        printf("%-16s %-24s %9.4f ms %8.1f GB/s    %5.1f %% of copy\n", item->name, shape, ms, gbps,
               100.0 * gbps / b->copy_gbps);
    } else {
        const double tflops = item->flops / ms / 1e9;
        if (b->gemm_tflops == 0.0)
            b->gemm_tflops = tflops;
        printf("%-16s %-24s %9.4f ms %8.1f TFLOP/s %5.1f %% of gemm\n", item->name, shape, ms,
               tflops, 100.0 * tflops / b->gemm_tflops);
    }
    fflush(stdout);
}

#define MI ((int64_t)1 << 20)
/* forward y = x w^T, input gradient, weight gradient of a linear layer */
#define FORWARD(M, IN, OUT)                                                                        \
    {                                                                                              \
        "gemm forward", do_gemm, {M, OUT, IN, 0, 1}, 0, 2.0 * (M) * (IN) * (OUT)                   \
    }
#define DGRAD(M, IN, OUT)                                                                          \
    {                                                                                              \
        "gemm dgrad", do_gemm, {M, IN, OUT, 0, 0}, 0, 2.0 * (M) * (IN) * (OUT)                     \
    }
#define WGRAD(M, IN, OUT)                                                                          \
    {                                                                                              \
        "gemm wgrad", do_wgrad, {M, OUT, IN}, 0, 2.0 * (M) * (IN) * (OUT)                          \
    }
#define PAIRS(S) ((double)(S) * ((S) + 1) / 2)

static const struct item items[] = {
    {"copy",            do_copy,           {1024 * MI},                     2.0 * 1024 * 1048576,                  0                            },
    {"gemm",            do_gemm,           {8192, 8192, 8192, 0, 1},        0,                                     2.0 * 8192 * 8192 * 8192     },
    FORWARD(8192, 2048, 3072),
    DGRAD(8192, 2048, 3072),
    WGRAD(8192, 2048, 3072),
    FORWARD(8192, 2048, 2048),
    DGRAD(8192, 2048, 2048),
    WGRAD(8192, 2048, 2048),
    FORWARD(8192, 2048, 16384),
    DGRAD(8192, 2048, 16384),
    WGRAD(8192, 2048, 16384),
    FORWARD(8192, 8192, 2048),
    DGRAD(8192, 8192, 2048),
    WGRAD(8192, 8192, 2048),
    FORWARD(11664, 1152, 3456),
    DGRAD(11664, 1152, 3456),
    WGRAD(11664, 1152, 3456),
    FORWARD(11664, 1152, 4304),
    DGRAD(11664, 1152, 4304),
    WGRAD(11664, 1152, 4304),
    FORWARD(11664, 4304, 1152),
    DGRAD(11664, 4304, 1152),
    WGRAD(11664, 4304, 1152),
    {"rmsnorm",         do_norm,           {8192, 4096, CS_NORM_RMS},       4.0 * 8192 * 4096,                     0                            },
    {"rmsnorm",         do_norm,           {8192, 2048, CS_NORM_RMS},       4.0 * 8192 * 2048,                     0                            },
    {"layernorm",       do_norm,           {65536, 1152, CS_NORM_LAYER},    4.0 * 65536 * 1152,                    0                            },
    {"rmsnorm dx",      do_norm_grad,      {65536, 2048, CS_NORM_RMS, 0},   8.0 * 65536 * 2048,                    0                            },
    {"rmsnorm dx dw",   do_norm_grad,      {65536, 2048, CS_NORM_RMS, 1},   8.0 * 65536 * 2048,                    0                            },
    {"layernorm dx dw", do_norm_grad,      {65536, 1152, CS_NORM_LAYER, 1}, 8.0 * 65536 * 1152,                    0                            },
    {"silu gated",      do_gated,          {8192, 8192},                    6.0 * 8192 * 8192,                     0                            },
    {"silu gated grad", do_gated_grad,     {8192, 8192},                    10.0 * 8192 * 8192,                    0                            },
    {"gelu tanh",       do_act,            {16384, 4304},                   4.0 * 16384 * 4304,                    0                            },
    {"rope",            do_rope,           {32768, 32, 64},                 4.0 * 32768 * 2048 + 8.0 * 32768 * 32, 0                            },
    {"bias add",        do_bias,           {32768, 3456},                   4.0 * 32768 * 3456,                    0                            },
    {"bias grad",       do_bias_grad,      {32768, 3456},                   2.0 * 32768 * 3456,                    0                            },
    {"embed grad",      do_embed_grad,     {8192, 2048},                    10.0 * 8192 * 2048,                    0                            },
    {"adamw",           do_adamw,          {256 * MI},                      30.0 * 256 * 1048576,                  0                            },
    {"sumsq",           do_sumsq,          {256 * MI},                      4.0 * 256 * 1048576,                   0                            },
    {"linear xent",     do_xent,           {4096, 2048, 128256},            0,                                     6.0 * 4096 * 2048 * 128256   },
    {"attention",       do_attention,      {4096, 32, 8, 64},               0,                                     4.0 * 64 * 32 * PAIRS(4096)  },
    {"attention grad",  do_attention_grad, {4096, 32, 8, 64},               0,                                     10.0 * 64 * 32 * PAIRS(4096) },
    {"attention",       do_attention,      {4096, 32, 8, 128},              0,                                     4.0 * 128 * 32 * PAIRS(4096) },
    {"attention grad",  do_attention_grad, {4096, 32, 8, 128},              0,                                     10.0 * 128 * 32 * PAIRS(4096)},
};

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
    b->ctx = (struct cs_ctx){b->stream, workspace, workspace_bytes, b->handle};
    printf("%s, %d processors, bf16, median of %d\n", props.name, props.processors, ROUNDS);
    fill(b);
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
    struct bench b = {.ops = get(CS_OPS_VERSION), .device = get(CS_OPS_VERSION)->device};
    set_up(&b);
    for (size_t i = 0; i < CS_ARRAY_LEN(items); i++)
        run(&b, &items[i]);
    b.device->close(b.handle);
    return 0;
}
