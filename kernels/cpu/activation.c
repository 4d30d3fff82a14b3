/* Activations, alone and gated. Each kind is a pair of inline functions (value, slope); a macro
 * makes the two vectorised row loops of the kind, and a table picks them. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vecmath.h"

#define SQRT_HALF       0.707106781f
#define INV_SQRT_2PI    0.398942280f
#define SQRT_2_OVER_PI  0.797884561f
#define GELU_CUBE       0.044715f
#define QUICK_STEEPNESS 1.702f

static inline float none_value(float x)
{
    return x;
}

static inline float none_slope(float x)
{
    (void)x;
    return 1.0f;
}

static inline float gelu_value(float x)
{
    return 0.5f * x * (1.0f + cs_erf(x * SQRT_HALF));
}

static inline float gelu_slope(float x)
{
    return 0.5f * (1.0f + cs_erf(x * SQRT_HALF)) + x * INV_SQRT_2PI * cs_exp(-0.5f * x * x);
}

static inline float gelu_tanh_value(float x)
{
    return 0.5f * x * (1.0f + cs_tanh(SQRT_2_OVER_PI * (x + GELU_CUBE * x * x * x)));
}

static inline float gelu_tanh_slope(float x)
{
    const float t = cs_tanh(SQRT_2_OVER_PI * (x + GELU_CUBE * x * x * x));
    const float inner = SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBE * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

static inline float quick_gelu_value(float x)
{
    return x * cs_sigmoid(QUICK_STEEPNESS * x);
}

static inline float quick_gelu_slope(float x)
{
    const float s = cs_sigmoid(QUICK_STEEPNESS * x);
    return s + QUICK_STEEPNESS * x * s * (1.0f - s);
}

static inline float silu_value(float x)
{
    return x * cs_sigmoid(x);
}

static inline float silu_slope(float x)
{
    const float s = cs_sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}

static inline float relu_value(float x)
{
    return x < 0.0f ? 0.0f : x; /* NaN stays */
}

static inline float relu_slope(float x)
{
    return x <= 0.0f ? 0.0f : 1.0f;
}

static inline float sigmoid_value(float x)
{
    return cs_sigmoid(x);
}

static inline float sigmoid_slope(float x)
{
    const float s = cs_sigmoid(x);
    return s * (1.0f - s);
}

/* NAME_values: y = act(x); NAME_slopes: y = act'(x) */
#define ROW_LOOPS(NAME)                                                                            \
    static CS_CLONES void NAME##_values(int64_t n, const float *x, float *y)                       \
    {                                                                                              \
        CS_ELEMENTWISE                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = NAME##_value(x[i]);                                                             \
    }                                                                                              \
    static CS_CLONES void NAME##_slopes(int64_t n, const float *x, float *y)                       \
    {                                                                                              \
        CS_ELEMENTWISE                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = NAME##_slope(x[i]);                                                             \
    }
ROW_LOOPS(none)
ROW_LOOPS(gelu)
ROW_LOOPS(gelu_tanh)
ROW_LOOPS(quick_gelu)
ROW_LOOPS(silu)
ROW_LOOPS(relu)
ROW_LOOPS(sigmoid)

struct row_loops {
    void (*values)(int64_t n, const float *x, float *y);
    void (*slopes)(int64_t n, const float *x, float *y);
};

static const struct row_loops kinds[] = {
    [CS_ACT_NONE] = {none_values,       none_slopes      },
    [CS_ACT_GELU] = {gelu_values,       gelu_slopes      },
    [CS_ACT_GELU_TANH] = {gelu_tanh_values,  gelu_tanh_slopes },
    [CS_ACT_QUICK_GELU] = {quick_gelu_values, quick_gelu_slopes},
    [CS_ACT_SILU] = {silu_values,       silu_slopes      },
    [CS_ACT_RELU] = {relu_values,       relu_slopes      },
    [CS_ACT_SIGMOID] = {sigmoid_values,    sigmoid_slopes   },
};
_Static_assert(CS_ARRAY_LEN(kinds) == CS_ACT_KINDS, "one pair of loops per activation");

/* Elements worked on at a time where an intermediate is needed: it stays in the first cache, and
 * inputs may be overwritten in place. */
#define TILE 512

static int64_t tile_at(int64_t n, int64_t i)
{
    return n - i < TILE ? n - i : TILE;
}

static CS_CLONES void multiply(int64_t n, const float *a, const float *b, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static CS_CLONES void add_rows(int64_t n, const float *a, const float *b, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

/* dgate = dy up slope, dup = dy value; every input element is read before its place is written */
static CS_CLONES void gated_back(int64_t n, const float *value, const float *slope, const float *up,
                                 const float *dy, float *dgate, float *dup)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const float u = up[i], d = dy[i];
        dgate[i] = d * u * slope[i];
        dup[i] = d * value[i];
    }
}

void cs_cpu_act(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, void *y)
{
    (void)ctx;
    kinds[kind].values(n, x, y);
}

void cs_cpu_act_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, const void *dy,
                     void *dx)
{
    (void)ctx;
    const float *in = x, *d = dy;
    float *out = dx, slope[TILE];
    for (int64_t i = 0; i < n; i += TILE) {
        const int64_t part = tile_at(n, i);
        kinds[kind].slopes(part, in + i, slope);
        multiply(part, d + i, slope, out + i);
    }
}

void cs_cpu_gated(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n, const void *gate,
                  const void *up, int64_t ld, void *y)
{
    (void)ctx;
    float value[TILE];
    for (int64_t r = 0; r < rows; r++) {
        const float *g = (const float *)gate + r * ld, *u = (const float *)up + r * ld;
        float *out = (float *)y + r * n;
        for (int64_t i = 0; i < n; i += TILE) {
            const int64_t part = tile_at(n, i);
            kinds[kind].values(part, g + i, value);
            multiply(part, value, u + i, out + i);
        }
    }
}

void cs_cpu_gated_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n,
                       const void *gate, const void *up, int64_t ld, const void *dy, void *dgate,
                       void *dup, int64_t ld_d)
{
    (void)ctx;
    float value[TILE], slope[TILE];
    for (int64_t r = 0; r < rows; r++) {
        const float *g = (const float *)gate + r * ld, *u = (const float *)up + r * ld;
        const float *d = (const float *)dy + r * n;
        float *dg = (float *)dgate + r * ld_d, *du = (float *)dup + r * ld_d;
        for (int64_t i = 0; i < n; i += TILE) {
            const int64_t part = tile_at(n, i);
            kinds[kind].values(part, g + i, value);
            kinds[kind].slopes(part, g + i, slope);
            gated_back(part, value, slope, u + i, d + i, dg + i, du + i);
        }
    }
}

void cs_cpu_add(struct cs_ctx *ctx, int64_t n, const void *a, const void *b, void *y)
{
    (void)ctx;
    add_rows(n, a, b, y);
}
