/* Rotary embeddings: what a config says of them, and the inverse frequencies.
 *
 * transformers 5 writes rope_parameters {rope_type, rope_theta, ...}; 4 wrote rope_theta beside
 * rope_scaling {type or rope_type, factor, ...} or null. Where both are, an old rope_scaling holds,
 * whole: nothing of rope_parameters is read then (config_keys.c). Llama 3.1's rule: frequencies whose
 * wavelength is beyond original / low are divided by the factor, those below original / high stay,
 * between them the two are mixed linearly in original / wavelength. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/arch/families.h"

/* which keys beside rope_type and rope_theta each type reads */
static const struct rope_type {
    const char *name;
    enum cs_rope_kind kind;
    const char *reads;
} rope_types[] = {
    {"default", CS_ROPE_DEFAULT, ""                                            },
    {"linear",  CS_ROPE_LINEAR,  "factor"                                      },
    {"llama3",  CS_ROPE_LLAMA3,
     "factor|low_freq_factor|high_freq_factor|original_max_position_embeddings"},
};

/* What is being read: rope, the object `name` of the config (or NULL). */
struct reader {
    const struct cs_config_source *config;
    const char *name;
    const json_t *rope;
    const struct rope_type *type;
    struct cs_err *err;
};

static const struct rope_type *type_of(const json_t *rope)
{
    const json_t *type = cs_doc_get(rope, "rope_type|type", NULL);
    for (size_t i = 0; type != NULL && i < CS_ARRAY_LEN(rope_types); i++)
        if (strcmp(rope_types[i].name, json_string_value(type)) == 0)
            return &rope_types[i];
    return &rope_types[0];
}

static enum cs_status need(const struct reader *r, const char *key, double *out)
{
    char at[512];
    const json_t *value = cs_doc_get(r->rope, key, NULL);
    if (value == NULL)
        return cs_fail(r->err, CS_INVALID, "%s%s.%s is missing: rope_type \"%s\" needs it",
                       cs_model_at(r->config, at), r->name, key, r->type->name);
    *out = json_number_value(value);
    return CS_OK;
}

/* The type does not read it, though another one would: whoever wrote it meant something else. */
static void say_unread(const struct reader *r)
{
    static const char *const keys[] = {"factor", "low_freq_factor", "high_freq_factor",
                                       "original_max_position_embeddings"};
    char path[512];
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
        const json_t *value = cs_doc_get(r->rope, keys[i], NULL);
        if (value == NULL || cs_doc_is_word(r->type->reads, keys[i]))
            continue;
        snprintf(path, sizeof path, "%s%s%s.%s", r->config->where,
                 r->config->where[0] != '\0' ? "." : "", r->name, keys[i]);
        cs_findings_say(r->config->findings, CS_FINDING_UNKNOWN, r->config->document, path, value,
                        "%s is a key that rope_type \"%s\" does not read", path, r->type->name);
    }
}

/* The one inside of the object holds; then the one beside it. */
static double read_theta(const struct reader *r, double fallback)
{
    char text[64], other[CS_DOC_SHOWN];
    const struct cs_config_source *config = r->config;
    const json_t *inside = cs_doc_get(r->rope, "rope_theta", NULL);
    const json_t *beside = cs_doc_get(config->json, "rope_theta", NULL);
    if (inside != NULL && beside != NULL &&
        fabs(json_number_value(inside) - json_number_value(beside)) > 0)
        cs_findings_say(config->findings, CS_FINDING_SHADOWED, config->document, "rope_theta",
                        beside, "rope_theta %g is not used: %s.rope_theta %s holds",
                        json_number_value(beside), r->name, cs_doc_show(inside, other));
    const json_t *value = inside != NULL ? inside : beside;
    if (value != NULL)
        return json_number_value(value);
    snprintf(text, sizeof text, "%.7g", fallback);
    cs_model_say_default(config, "rope_theta", text, "the default of the class");
    return fallback;
}

/* transformers 5: the one beside the object holds, then the one inside, then the model's length. */
static enum cs_status read_llama3(const struct reader *r, int32_t max_positions,
                                  struct cs_rope *out)
{
    char at[512];
    const json_t *original = cs_doc_get(r->config->json, "original_max_position_embeddings", NULL);
    CS_TRY(need(r, "low_freq_factor", &out->low_freq));
    CS_TRY(need(r, "high_freq_factor", &out->high_freq));
    if (!(out->high_freq > out->low_freq))
        return cs_fail(r->err, CS_INVALID,
                       "%s%s.high_freq_factor %g is not above low_freq_factor %g",
                       cs_model_at(r->config, at), r->name, out->high_freq, out->low_freq);
    const json_t *inside = cs_doc_get(r->rope, "original_max_position_embeddings", NULL);
    if (original != NULL && inside != NULL && !json_equal(original, inside))
        cs_findings_say(r->config->findings, CS_FINDING_SHADOWED, r->config->document,
                        "original_max_position_embeddings", inside,
                        "%s.original_max_position_embeddings %lld is not used: "
                        "original_max_position_embeddings %lld beside it holds",
                        r->name, (long long)json_integer_value(inside),
                        (long long)json_integer_value(original));
    if (original == NULL)
        original = inside;
    if (original == NULL)
        cs_model_say_default(r->config, "original_max_position_embeddings", "that of the model",
                             "max_position_embeddings");
    out->original_positions =
        original != NULL ? (int32_t)json_integer_value(original) : max_positions;
    return CS_OK;
}

enum cs_status cs_rope_read(const struct cs_config_source *config, double default_theta,
                            int32_t max_positions, struct cs_attention *attention,
                            struct cs_err *err)
{
    char name[CS_DOC_NAME];
    const json_t *rope = cs_doc_get(config->json, "rope_scaling|rope_parameters", name);
    const struct reader r = {config, name, rope, type_of(rope), err};
    struct cs_rope *out = &attention->rope;
    say_unread(&r);
    *out = (struct cs_rope){.kind = r.type->kind,
                            .dims = attention->head_dim,
                            .theta = read_theta(&r, default_theta),
                            .factor = 1};
    if (out->kind != CS_ROPE_DEFAULT)
        CS_TRY(need(&r, "factor", &out->factor));
    return out->kind == CS_ROPE_LLAMA3 ? read_llama3(&r, max_positions, out) : CS_OK;
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
