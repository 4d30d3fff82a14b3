#include "core/base/philox.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

void cs_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c0 * UINT32_C(0xD2511F53);
        uint64_t b = (uint64_t)c2 * UINT32_C(0xCD9E8D57);
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += UINT32_C(0x9E3779B9); /* golden ratio */
        k1 += UINT32_C(0xBB67AE85); /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static void draw(uint64_t seed, uint64_t name_hash, uint64_t block, uint64_t bits[2])
{
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)name_hash,
                           (uint32_t)(name_hash >> 32)};
    uint32_t out[4];
    cs_philox(seed, counter, out);
    bits[0] = (uint64_t)out[1] << 32 | out[0];
    bits[1] = (uint64_t)out[3] << 32 | out[2];
}

static double unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* Both normals of one counter; 1 - u keeps the logarithm away from 0. */
static void draw_normals(uint64_t seed, uint64_t name_hash, uint64_t block, double normal[2])
{
    uint64_t bits[2];
    draw(seed, name_hash, block, bits);
    double radius = sqrt(-2.0 * log(1.0 - unit(bits[0])));
    double angle = two_pi * unit(bits[1]);
    normal[0] = radius * cos(angle);
    normal[1] = radius * sin(angle);
}

double cs_philox_uniform(uint64_t seed, uint64_t name_hash, uint64_t index)
{
    uint64_t bits[2];
    draw(seed, name_hash, index, bits);
    return unit(bits[0]);
}

float cs_philox_normal(uint64_t seed, uint64_t name_hash, uint64_t index)
{
    double normal[2];
    draw_normals(seed, name_hash, index / 2, normal);
    return (float)normal[index % 2];
}

void cs_philox_fill_normal(uint64_t seed, uint64_t name_hash, uint64_t first, int64_t n, double std,
                           float *out)
{
    double normal[2];
    for (int64_t i = 0; i < n; i++) {
        uint64_t index = first + (uint64_t)i;
        if (i == 0 || index % 2 == 0)
            draw_normals(seed, name_hash, index / 2, normal);
        out[i] = (float)(std * normal[index % 2]);
    }
}

void cs_philox_fill_decay(uint64_t seed, uint64_t name_hash, uint64_t first, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)log(0.01 + 15.99 * cs_philox_uniform(seed, name_hash, first + (uint64_t)i));
}
