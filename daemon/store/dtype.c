/* Element types of safetensors and conversions between fp32 and the 16-bit floats. */
#include <string.h>

#include "store/safetensors.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [CS_F32] = {"F32",  4},
      [CS_F16] = {"F16",  2},
      [CS_BF16] = {"BF16", 2},
      [CS_F64] = {"F64",  8},
    [CS_I64] = {"I64",  8},
      [CS_I32] = {"I32",  4},
      [CS_I16] = {"I16",  2},
      [CS_I8] = {"I8",   1},
    [CS_U8] = {"U8",   1},
      [CS_BOOL] = {"BOOL", 1},
};

_Static_assert(CS_ARRAY_LEN(dtypes) == CS_DTYPES, "one row per dtype");

size_t cs_dtype_bytes(enum cs_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *cs_dtype_name(enum cs_dtype dtype)
{
    return dtypes[dtype].name;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

uint16_t cs_f16_from_f32(float value)
{
    uint32_t bits = bits_of(value), sign = (bits >> 16) & 0x8000u, mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((mag >> 13) & 0x1ffu));
    if (mag >= 0x477ff000u) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (mag < 0x33000000u) /* below half of the smallest subnormal */
        return (uint16_t)sign;
    uint32_t shift = 13, base = mag - 0x38000000u; /* rebias the exponent: 127 -> 15 */
    if (mag < 0x38800000u) {                       /* subnormal: the hidden bit becomes visible */
        shift = 126 - (mag >> 23);
        base = (mag & 0x7fffffu) | 0x800000u;
    }
    uint32_t half = 1u << (shift - 1), odd = (base >> shift) & 1u;
    return (uint16_t)(sign | ((base + half - 1u + odd) >> shift));
}

float cs_f32_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, mag = bits & 0x7fffu;
    if (mag >= 0x7c00u)
        return float_of(sign | 0x7f800000u | ((mag & 0x3ffu) << 13));
    if (mag < 0x400u) { /* subnormal: mag * 2^-24 is exact */
        float value = (float)mag * 0x1p-24f;
        return sign ? -value : value;
    }
    return float_of(sign | ((mag << 13) + 0x38000000u));
}
