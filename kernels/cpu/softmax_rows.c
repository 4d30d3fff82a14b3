/* Loops over one row of scores, in CS_LANES sums side by side so that compilers vectorise them. */
#include "kernels/cpu/softmax_rows.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vecmath.h"

static inline float add_lanes(float *lane)
{
    for (int width = CS_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

CS_CLONES void cs_rows_cap(int64_t n, float cap, float *x)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        x[i] = cap * cs_tanh(x[i] / cap);
}

CS_CLONES void cs_rows_select(int64_t n, const uint8_t *allow, float value, float *x)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        x[i] = allow[i] ? x[i] : value;
}

/* One vector of lanes, spelled out: from a loop over an array the compiler makes 16 scalar
 * maxima. */
typedef float lanes_float __attribute__((vector_size(CS_LANES * sizeof(float))));
typedef int32_t lanes_bits __attribute__((vector_size(CS_LANES * sizeof(float))));

CS_CLONES float cs_rows_max(int64_t n, const float *x)
{
    lanes_float best = (lanes_float){0} - INFINITY, next;
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES) {
        memcpy(&next, x + i, sizeof next);
        const lanes_bits is_larger = next > best;
        best = (lanes_float)(((lanes_bits)next & is_larger) | ((lanes_bits)best & ~is_larger));
    }
    float lane[CS_LANES];
    memcpy(lane, &best, sizeof lane);
    for (int l = 0; i < n; i++, l++)
        lane[l] = x[i] > lane[l] ? x[i] : lane[l];
    for (int width = CS_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] = lane[l + width] > lane[l] ? lane[l + width] : lane[l];
    return lane[0];
}

CS_CLONES float cs_rows_exp(int64_t n, float max, float *x)
{
    float lane[CS_LANES] = {0};
    CS_ELEMENTWISE
    for (int64_t j = 0; j < n; j++)
        x[j] = cs_exp(x[j] - max);
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++)
            lane[l] += x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i];
    return add_lanes(lane);
}

CS_CLONES float cs_rows_exp_sum(int64_t n, float max, const float *x)
{
    float lane[CS_LANES] = {0};
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++)
            lane[l] += cs_exp(x[i + l] - max);
    for (int l = 0; i < n; i++, l++)
        lane[l] += cs_exp(x[i] - max);
    return add_lanes(lane);
}

CS_CLONES void cs_rows_loss_grad(int64_t n, float max, float inv_sum, float inv_cap, float *z)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const float t = z[i] * inv_cap;
        z[i] = cs_exp(z[i] - max) * inv_sum * (1.0f - t * t);
    }
}

bool cs_rows_is_best(int64_t n, const float *z, int64_t which)
{
    int64_t beaten = 0;
    for (int64_t i = 0; i < which; i++)
        beaten += z[i] < z[which];
    for (int64_t i = which; i < n; i++)
        beaten += z[i] <= z[which];
    return beaten == n;
}

CS_CLONES void cs_rows_scale(int64_t n, float factor, float *x)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

CS_CLONES void cs_rows_prob(int64_t n, float lse, const float *z, float *p)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        p[i] = cs_exp(z[i] - lse);
}

CS_CLONES void cs_rows_score_grad(int64_t n, float dot, float inv_cap, const float *z,
                                  const float *p, float *ds)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const float t = z[i] * inv_cap;
        ds[i] = p[i] * (ds[i] - dot) * (1.0f - t * t);
    }
}

CS_CLONES float cs_rows_dot(int64_t n, const float *a, const float *b)
{
    float lane[CS_LANES] = {0};
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += a[i] * b[i];
    return add_lanes(lane);
}
