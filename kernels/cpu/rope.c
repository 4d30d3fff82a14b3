/* Rotary position embedding, rotate-half form: (a, b) of a head's first and second rotated half
 * turn to (a cos - b sin, b cos + a sin); the adjoint turns back. */
#include "kernels/cpu/cpu.h"

static CS_CLONES void turn(int32_t half, const float *cos, const float *sin, float sign, float *a,
                           float *b)
{
    CS_ELEMENTWISE
    for (int32_t i = 0; i < half; i++) {
        const float s = sign * sin[i], first = a[i], second = b[i];
        a[i] = first * cos[i] - second * s;
        b[i] = second * cos[i] + first * s;
    }
}

void cs_cpu_rope(struct cs_ctx *ctx, int64_t rows, int32_t heads, int32_t head_dim, int32_t rot_dim,
                 int64_t ldx, void *x, const float *cos, const float *sin, int inverse)
{
    (void)ctx;
    const int32_t half = rot_dim / 2;
    const float sign = inverse ? -1.0f : 1.0f;
    for (int64_t i = 0; i < rows; i++)
        for (int32_t h = 0; h < heads; h++) {
            float *head = (float *)x + i * ldx + (int64_t)h * head_dim;
            turn(half, cos + i * half, sin + i * half, sign, head, head + half);
        }
}
