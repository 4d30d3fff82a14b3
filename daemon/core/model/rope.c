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

static enum cs_status read_llama3(const json_t *json, const char *where, struct cs_rope *out,
                                  struct cs_err *err)
{
    double original = 0;
    CS_TRY(read_number(json, where, "low_freq_factor", 0, &out->low_freq, err));
    CS_TRY(read_number(json, where, "high_freq_factor", 0, &out->high_freq, err));
    CS_TRY(read_number(json, where, "original_max_position_embeddings", 0, &original, err));
    if (!(out->high_freq > out->low_freq))
        return cs_fail(err, CS_INVALID, "%s.high_freq_factor %g is not above low_freq_factor %g",
                       where, out->high_freq, out->low_freq);
    if (original > 1 << 30 || floor(original) < original)
        return cs_fail(err, CS_INVALID,
                       "%s.original_max_position_embeddings %g is not a whole number up to 2^30",
                       where, original);
    out->original_positions = (int32_t)original;
    return CS_OK;
}

enum cs_status cs_rope_read(const json_t *config, double default_theta,
                            struct cs_attention *attention, struct cs_err *err)
{
    const char *where = "rope_parameters";
    const json_t *json = json_object_get(config, where);
    struct cs_rope *out = &attention->rope;
    if (json == NULL || json_is_null(json)) {
        where = "rope_scaling";
        json = json_object_get(config, where);
    }
    if (json != NULL && !json_is_null(json) && !json_is_object(json))
        return cs_fail(err, CS_INVALID, "%s is neither an object nor null", where);
    const char *key;
    json_t *value;
    /* one table per kind of layer (Gemma 3) is another layout of the same key */
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        if (json_is_object(value))
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s.%.64s: one rope per kind of layer is not supported", where, key);
    }
    double top_theta = 0, part = 1;
    CS_TRY(read_number(config, "config", "rope_theta", default_theta, &top_theta, err));
    CS_TRY(read_number(json, where, "rope_theta", top_theta, &out->theta, err));
    CS_TRY(read_number(json, where, "partial_rotary_factor", 1, &part, err));
    if (part < 1 || part > 1)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s.partial_rotary_factor %g: rotating a part of each head is not supported",
                       where, part);
    CS_TRY(read_type(json, where, &out->kind, err));
    out->dims = attention->head_dim;
    out->factor = 1;
    if (out->kind != CS_ROPE_DEFAULT)
        CS_TRY(read_number(json, where, "factor", 0, &out->factor, err));
    if (out->kind == CS_ROPE_LLAMA3)
        CS_TRY(read_llama3(json, where, out, err));
    return CS_OK;
}

static double llama3_scaled(const struct cs_rope *rope, double freq)
{
    double wavelength = 2 * 3.14159265358979323846 / freq;
    double original = (double)rope->original_positions;
    if (wavelength < original / rope->high_freq)
        return freq;
    if (wavelength > original / rope->low_freq)
        return freq / rope->factor;
    double mix = (original / wavelength - rope->low_freq) / (rope->high_freq - rope->low_freq);
    return (1 - mix) * freq / rope->factor + mix * freq;
}

void cs_rope_inv_freq(const struct cs_rope *rope, float *inv_freq)
{
    CS_ASSERT(rope->kind != CS_ROPE_NONE);
    for (int i = 0; i < rope->dims / 2; i++) {
        double freq = pow(rope->theta, -2.0 * i / rope->dims);
        if (rope->kind == CS_ROPE_LINEAR)
            freq /= rope->factor;
        else if (rope->kind == CS_ROPE_LLAMA3)
            freq = llama3_scaled(rope, freq);
        inv_freq[i] = (float)freq;
    }
}

static bool is_same_number(double a, double b)
{
    return a <= b && a >= b;
}

bool cs_rope_is_same(const struct cs_rope *a, const struct cs_rope *b)
{
    return a->kind == b->kind && a->dims == b->dims && is_same_number(a->theta, b->theta) &&
           is_same_number(a->factor, b->factor) && is_same_number(a->low_freq, b->low_freq) &&
           is_same_number(a->high_freq, b->high_freq) &&
           a->original_positions == b->original_positions;
}
