/* Rotary embeddings: the two spellings of the config, and the inverse frequencies.
 *
 * transformers 5 writes rope_parameters {rope_type, rope_theta, ...}; 4 wrote rope_theta beside
 * rope_scaling {type or rope_type, factor, ...} or null. Llama 3.1's rule: frequencies whose
 * wavelength is beyond original / low are divided by the factor, those below original / high stay,
 * between them the two are mixed linearly in original / wavelength. */
#include <math.h>
#include <string.h>

#include "core/model/families.h"

static const struct {
    const char *name;
    enum cs_rope_kind kind;
} rope_kinds[] = {
    {"default", CS_ROPE_DEFAULT},
    {"linear",  CS_ROPE_LINEAR },
    {"llama3",  CS_ROPE_LLAMA3 },
};

static enum cs_status read_type(const json_t *rope, const char *where, enum cs_rope_kind *kind,
                                struct cs_err *err)
{
    const json_t *type = json_object_get(rope, "rope_type");
    if (type == NULL || json_is_null(type))
        type = json_object_get(rope, "type");
    *kind = CS_ROPE_DEFAULT;
    if (type == NULL || json_is_null(type))
        return CS_OK;
    if (!json_is_string(type))
        return cs_fail(err, CS_INVALID, "%s.rope_type is not a string", where);
    for (size_t i = 0; i < CS_ARRAY_LEN(rope_kinds); i++) {
        if (strcmp(rope_kinds[i].name, json_string_value(type)) == 0) {
            *kind = rope_kinds[i].kind;
            return CS_OK;
        }
    }
    return cs_fail(err, CS_UNSUPPORTED,
                   "%s.rope_type \"%.64s\" is not supported; default, linear and llama3 are", where,
                   json_string_value(type));
}

/* A positive number; absent: fallback when that is positive, else an error. */
static enum cs_status read_number(const json_t *rope, const char *where, const char *key,
                                  double fallback, double *out, struct cs_err *err)
{
    const json_t *value = json_object_get(rope, key);
    if (value == NULL || json_is_null(value)) {
        if (!(fallback > 0))
            return cs_fail(err, CS_INVALID, "%s.%s is missing", where, key);
        *out = fallback;
        return CS_OK;
    }
    *out = json_number_value(value);
    if (!json_is_number(value) || !(*out > 0) || *out > 1e15)
        return cs_fail(err, CS_INVALID, "%s.%s is not a positive number", where, key);
    return CS_OK;
}

static enum cs_status read_llama3(const json_t *rope, const char *where, struct cs_arch *arch,
                                  struct cs_err *err)
{
    double original = 0;
    CS_TRY(read_number(rope, where, "low_freq_factor", 0, &arch->rope_low_freq, err));
    CS_TRY(read_number(rope, where, "high_freq_factor", 0, &arch->rope_high_freq, err));
    CS_TRY(read_number(rope, where, "original_max_position_embeddings", 0, &original, err));
    if (!(arch->rope_high_freq > arch->rope_low_freq))
        return cs_fail(err, CS_INVALID, "%s.high_freq_factor %g is not above low_freq_factor %g",
                       where, arch->rope_high_freq, arch->rope_low_freq);
    if (original > 1 << 30 || floor(original) < original)
        return cs_fail(err, CS_INVALID,
                       "%s.original_max_position_embeddings %g is not a whole number up to 2^30",
                       where, original);
    arch->rope_original_positions = (int32_t)original;
    return CS_OK;
}

enum cs_status cs_rope_read(const json_t *config, double default_theta, struct cs_arch *arch,
                            struct cs_err *err)
{
    const char *where = "rope_parameters";
    const json_t *rope = json_object_get(config, where);
    if (rope == NULL || json_is_null(rope)) {
        where = "rope_scaling";
        rope = json_object_get(config, where);
    }
    if (rope != NULL && !json_is_null(rope) && !json_is_object(rope))
        return cs_fail(err, CS_INVALID, "%s is neither an object nor null", where);
    const char *key;
    json_t *value;
    /* one table per kind of layer (Gemma 3) is another layout of the same key */
    json_object_foreach((json_t *)(uintptr_t)rope, key, value)
    {
        if (json_is_object(value))
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s.%.64s: one rope per kind of layer is not supported", where, key);
    }
    double top_theta = 0, part = 1;
    CS_TRY(read_number(config, "config", "rope_theta", default_theta, &top_theta, err));
    CS_TRY(read_number(rope, where, "rope_theta", top_theta, &arch->rope_theta, err));
    CS_TRY(read_number(rope, where, "partial_rotary_factor", 1, &part, err));
    if (part < 1 || part > 1)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s.partial_rotary_factor %g: rotating a part of each head is not supported",
                       where, part);
    CS_TRY(read_type(rope, where, &arch->rope, err));
    arch->rope_factor = 1;
    if (arch->rope != CS_ROPE_DEFAULT)
        CS_TRY(read_number(rope, where, "factor", 0, &arch->rope_factor, err));
    if (arch->rope == CS_ROPE_LLAMA3)
        CS_TRY(read_llama3(rope, where, arch, err));
    return CS_OK;
}

static double llama3_scaled(const struct cs_arch *arch, double freq)
{
    double wavelength = 2 * 3.14159265358979323846 / freq;
    double original = (double)arch->rope_original_positions;
    if (wavelength < original / arch->rope_high_freq)
        return freq;
    if (wavelength > original / arch->rope_low_freq)
        return freq / arch->rope_factor;
    double mix = (original / wavelength - arch->rope_low_freq) /
                 (arch->rope_high_freq - arch->rope_low_freq);
    return (1 - mix) * freq / arch->rope_factor + mix * freq;
}

void cs_arch_inv_freq(const struct cs_arch *arch, float *inv_freq)
{
    CS_ASSERT(arch->rope != CS_ROPE_NONE);
    for (int i = 0; i < arch->head_dim / 2; i++) {
        double freq = pow(arch->rope_theta, -2.0 * i / arch->head_dim);
        if (arch->rope == CS_ROPE_LINEAR)
            freq /= arch->rope_factor;
        else if (arch->rope == CS_ROPE_LLAMA3)
            freq = llama3_scaled(arch, freq);
        inv_freq[i] = (float)freq;
    }
}
