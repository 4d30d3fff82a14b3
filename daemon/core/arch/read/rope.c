/* Rotary embeddings: what a config says of them. What follows from it is in rope_freq.c.
 *
 * transformers 5 writes rope_parameters {rope_type, rope_theta, ...}; 4 wrote rope_theta beside
 * rope_scaling {type or rope_type, factor, ...} or null. Where both are, an old rope_scaling holds,
 * whole: nothing of rope_parameters is read then (families/keys.c). Families that turn layers of
 * different kinds differently have an object for each kind in rope_parameters; an old rope_scaling is
 * of their full layers alone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/arch/read/read.h"

#define ORIGINAL "original_max_position_embeddings"
#define GROWTH   "llama_4_scaling_beta"

/* which keys beside rope_type and rope_theta each type reads */
static const struct rope_type {
    const char *name;
    enum cs_rope_kind kind;
    const char *reads;
} rope_types[] = {
    {"default",      CS_ROPE_DEFAULT,      ""                                                             },
    {"mrope",        CS_ROPE_DEFAULT,      ""                                                             },
    {"linear",       CS_ROPE_LINEAR,       "factor"                                                       },
    {"dynamic",      CS_ROPE_DYNAMIC,      "factor"                                                       },
    {"llama3",       CS_ROPE_LLAMA3,       "factor|low_freq_factor|high_freq_factor|" ORIGINAL            },
    {"yarn",         CS_ROPE_YARN,
     "factor|" ORIGINAL "|attention_factor|beta_fast|beta_slow|mscale|mscale_all_dim|truncate"            },
    {"longrope",     CS_ROPE_LONGROPE,     "factor|" ORIGINAL "|attention_factor|short_factor|long_factor"},
    {"su",           CS_ROPE_LONGROPE,     "factor|" ORIGINAL "|attention_factor|short_factor|long_factor"},
    {"axial",        CS_ROPE_DEFAULT,      ""                                                             },
    {"proportional", CS_ROPE_PROPORTIONAL, "factor|partial_rotary_factor"                                 },
};

/* What is being read: rope, the object `name` of the config (or NULL), of layers that are `local`. */
struct reader {
    const struct cs_config_source *config;
    const struct cs_rope_rules *rules;
    const char *name;
    const json_t *rope;
    const struct rope_type *type;
    bool is_local;
    int32_t max_positions;
    struct cs_arena *arena;
    struct cs_err *err;
};

static const struct rope_type *type_named(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(rope_types); i++)
        if (strcmp(rope_types[i].name, name) == 0)
            return &rope_types[i];
    return NULL;
}

static enum cs_status refuse(const struct reader *r, const char *type, const char *why)
{
    char at[512];
    return cs_fail(r->err, CS_UNSUPPORTED, "%s%s.rope_type \"%s\" is not supported%s",
                   cs_model_at(r->config, at), r->name, type, why);
}

/* The type that the class makes of the one that is named. */
static enum cs_status find_type(struct reader *r)
{
    const json_t *value = cs_doc_get(r->rope, "rope_type|type", NULL);
    const char *name = value != NULL ? json_string_value(value) : "default";
    const bool is_old = strcmp(name, "su") == 0 || strcmp(name, "yarn") == 0;
    r->type = type_named(name);
    if (r->type == NULL)
        return refuse(r, name, "");
    if (r->rules->is_longrope && is_old) /* Phi's first names */
        r->type = type_named("longrope");
    else if (strcmp(name, "su") == 0)
        return refuse(r, name, " in this family");
    if (r->rules->is_longrope && r->type->kind != CS_ROPE_LONGROPE &&
        r->type->kind != CS_ROPE_DEFAULT)
        return refuse(r, name, " in this family, whose class takes default and longrope");
    if (strcmp(name, "axial") == 0 && r->rules->axes < CS_ROPE_HALVES)
        return refuse(r, name, " in a language model");
    if (strcmp(name, "mrope") == 0 && r->rules->axes == CS_ROPE_LINE)
        return refuse(r, name, " in a model whose positions are one number");
    return CS_OK;
}

static double number_or(const struct reader *r, const char *key, double fallback)
{
    const json_t *value = cs_doc_get(r->rope, key, NULL);
    return value != NULL ? json_number_value(value) : fallback;
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

/* transformers 5.17 looks for it beside the objects of kinds of layers, where none can stand. */
static bool reads_truncate(const struct reader *r)
{
    return !(r->rules->local_theta > 0);
}

/* The type does not read it, though another one would: whoever wrote it meant something else. */
static void say_unread(const struct reader *r)
{
    static const char *const keys[] = {"factor",    "low_freq_factor",  "high_freq_factor",
                                       ORIGINAL,    "attention_factor", "beta_fast",
                                       "beta_slow", "mscale",           "mscale_all_dim",
                                       "truncate",  "short_factor",     "long_factor"};
    char path[512];
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
        const json_t *value = cs_doc_get(r->rope, keys[i], NULL);
        const bool is_of_growth =
            strcmp(keys[i], ORIGINAL) == 0 && cs_doc_get(r->rope, GROWTH, NULL) != NULL;
        const bool is_lost = strcmp(keys[i], "truncate") == 0 && !reads_truncate(r);
        if (value == NULL || is_of_growth || (!is_lost && cs_doc_is_word(r->type->reads, keys[i])))
            continue;
        snprintf(path, sizeof path, "%s%s%s.%s", r->config->where,
                 r->config->where[0] != '\0' ? "." : "", r->name, keys[i]);
        cs_findings_say(r->config->findings, CS_FINDING_UNKNOWN, r->config->document, path, value,
                        "%s is a key that rope_type \"%s\" does not read", path, r->type->name);
    }
}

/* The one inside of the object holds; then the one beside it. */
static double read_theta(const struct reader *r)
{
    char text[64], other[CS_DOC_SHOWN];
    const struct cs_config_source *config = r->config;
    const char *key = r->is_local ? r->rules->local_key : r->rules->is_new ? NULL : "rope_theta";
    const double fallback = r->is_local ? r->rules->local_theta : r->rules->theta;
    const json_t *inside = cs_doc_get(r->rope, "rope_theta", NULL);
    const json_t *beside = key != NULL ? cs_doc_get(config->json, key, NULL) : NULL;
    if (inside != NULL && beside != NULL &&
        fabs(json_number_value(inside) - json_number_value(beside)) > 0)
        cs_findings_say(config->findings, CS_FINDING_SHADOWED, config->document, key, beside,
                        "%s %g is not used: %s.rope_theta %s holds", key, json_number_value(beside),
                        r->name, cs_doc_show(inside, other));
    const json_t *value = inside != NULL ? inside : beside;
    if (value != NULL)
        return json_number_value(value);
    snprintf(text, sizeof text, "%.7g", fallback);
    cs_model_say_default(config, key != NULL ? key : "rope_theta", text,
                         "the default of the class");
    return fallback;
}

/* transformers 5: the one beside the object holds, then the one inside, then the model's length. */
static int32_t read_original(const struct reader *r)
{
    const struct cs_config_source *config = r->config;
    const json_t *beside = cs_doc_get(config->json, ORIGINAL, NULL);
    const json_t *inside = cs_doc_get(r->rope, ORIGINAL, NULL);
    if (beside == NULL && r->rules->original_positions > 0)
        return r->rules->original_positions; /* the class has one beside always */
    if (beside != NULL && inside != NULL && !json_equal(beside, inside))
        cs_findings_say(config->findings, CS_FINDING_SHADOWED, config->document, ORIGINAL, inside,
                        "%s." ORIGINAL " %lld is not used: " ORIGINAL " %lld beside it holds",
                        r->name, (long long)json_integer_value(inside),
                        (long long)json_integer_value(beside));
    const json_t *value = beside != NULL ? beside : inside;
    if (value != NULL)
        return (int32_t)json_integer_value(value);
    cs_model_say_default(config, ORIGINAL, "that of the model", "max_position_embeddings");
    return r->max_positions;
}

static enum cs_status read_llama3(const struct reader *r, struct cs_rope *out)
{
    char at[512];
    CS_TRY(need(r, "factor", &out->factor));
    CS_TRY(need(r, "low_freq_factor", &out->low_freq));
    CS_TRY(need(r, "high_freq_factor", &out->high_freq));
    if (!(out->high_freq > out->low_freq))
        return cs_fail(r->err, CS_INVALID,
                       "%s%s.high_freq_factor %g is not above low_freq_factor %g",
                       cs_model_at(r->config, at), r->name, out->high_freq, out->low_freq);
    out->original_positions = read_original(r);
    return CS_OK;
}

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static enum cs_status read_yarn(const struct reader *r, struct cs_rope *out)
{
    const double mscale = number_or(r, "mscale", 0), all = number_or(r, "mscale_all_dim", 0);
    CS_TRY(need(r, "factor", &out->factor));
    out->original_positions = read_original(r);
    out->low_freq = number_or(r, "beta_slow", 1);
    out->high_freq = number_or(r, "beta_fast", 32);
    out->is_truncated = !reads_truncate(r) || !json_is_false(json_object_get(r->rope, "truncate"));
    out->amplitude = number_or(r, "attention_factor",
                               mscale > 0 && all > 0
                                   ? yarn_scale(out->factor, mscale) / yarn_scale(out->factor, all)
                                   : yarn_scale(out->factor, 1));
    return CS_OK;
}

/* a divisor for every pair */
static enum cs_status read_divisors(const struct reader *r, const char *key, int32_t n,
                                    const float **out)
{
    char at[512];
    const json_t *list = cs_doc_get(r->rope, key, NULL);
    float *divisor = CS_NEW_ARRAY(r->arena, float, n + 1);
    bool is_good = json_array_size(list) == (size_t)n;
    for (int32_t i = 0; is_good && i < n; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        divisor[i] = (float)json_number_value(value);
        is_good = json_is_number(value) && divisor[i] > 0;
    }
    *out = divisor;
    return is_good ? CS_OK
                   : cs_fail(r->err, CS_INVALID, "%s%s.%s must be %d numbers above 0",
                             cs_model_at(r->config, at), r->name, key, n);
}

static enum cs_status read_longrope(const struct reader *r, struct cs_rope *out)
{
    out->original_positions = read_original(r);
    const double factor =
        number_or(r, "factor", (double)r->max_positions / out->original_positions);
    out->amplitude =
        number_or(r, "attention_factor",
                  factor <= 1 ? 1 : sqrt(1 + log(factor) / log((double)out->original_positions)));
    CS_TRY(read_divisors(r, "short_factor", out->dims / 2, &out->divisor));
    return read_divisors(r, "long_factor", out->dims / 2, &out->long_divisor);
}

/* Up to the length of the model as it is, longer documents by their own length. */
static enum cs_status read_dynamic(const struct reader *r, struct cs_rope *out)
{
    if (r->rules->axes != CS_ROPE_LINE)
        return refuse(r, r->type->name, " in a model whose positions are three numbers");
    if (out->dims < 4)
        return refuse(r, r->type->name, " for heads of less than 4 elements");
    out->original_positions = r->max_positions;
    return need(r, "factor", &out->factor);
}

/* Of queries, by their position; of any type, and of the length that stands in the object. */
static enum cs_status read_growth(const struct reader *r, struct cs_rope *out)
{
    char at[512];
    const json_t *inside = cs_doc_get(r->rope, ORIGINAL, NULL);
    out->query_growth = number_or(r, GROWTH, 0);
    if (out->query_growth > 0 && out->original_positions == 0)
        out->original_positions = (int32_t)json_integer_value(inside);
    if (out->query_growth > 0 && out->original_positions == 0)
        return cs_fail(r->err, CS_INVALID, "%s%s." ORIGINAL " is missing: " GROWTH " needs it",
                       cs_model_at(r->config, at), r->name);
    return CS_OK;
}

/* How much of a head turns: all of it, but where the class reads otherwise. */
static enum cs_status read_part(const struct reader *r, int32_t head_dim, struct cs_rope *out)
{
    char at[512];
    const json_t *value = cs_doc_get(r->rope, "partial_rotary_factor", NULL);
    if (value == NULL)
        value = cs_doc_get(r->config->json, "partial_rotary_factor", NULL);
    const double unsaid = r->rules->share > 0 ? r->rules->share : 1;
    const double part = value != NULL ? json_number_value(value) : unsaid;
    out->dims = head_dim;
    out->share = part;
    if (out->kind == CS_ROPE_PROPORTIONAL || !(part < 1))
        return CS_OK;
    if (!r->rules->is_partial)
        return cs_fail(r->err, CS_UNSUPPORTED,
                       "%spartial_rotary_factor is %g: rotating a part of each head is not "
                       "supported in this family, whose class turns all of it",
                       cs_model_at(r->config, at), part);
    out->dims = (int32_t)(head_dim * part);
    return CS_OK;
}

/* Which of three positions turns a pair. */
static enum cs_status read_sections(const struct reader *r, struct cs_rope *out)
{
    char at[512];
    const json_t *list = cs_doc_get(r->rope, "mrope_section", NULL);
    out->axes = r->rules->axes;
    memcpy(out->section, r->rules->section, sizeof out->section);
    if (out->axes == CS_ROPE_LINE || out->axes >= CS_ROPE_HALVES)
        return CS_OK;
    for (size_t i = 0; list != NULL && i < 3; i++)
        out->section[i] = (int32_t)json_integer_value(json_array_get(list, i));
    const int64_t sum = (int64_t)out->section[0] + out->section[1] + out->section[2];
    const bool is_free = out->axes == CS_ROPE_INTERLEAVED; /* what no section takes is of time */
    if ((list != NULL && json_array_size(list) != 3) || out->section[0] < 0 ||
        out->section[1] < 0 || out->section[2] < 0 || (!is_free && sum != out->dims / 2))
        return cs_fail(r->err, CS_INVALID,
                       "%s%s.mrope_section must be three numbers whose sum is %d, the pairs of a "
                       "head%s",
                       cs_model_at(r->config, at), r->name, out->dims / 2,
                       is_free ? " (or another one, where they are interleaved)" : "");
    return CS_OK;
}

/* The object of layers of this kind; NULL: the config says nothing of them. */
static enum cs_status open(struct reader *r, const char *layer_type)
{
    char at[512], name[CS_DOC_NAME];
    const json_t *all = cs_doc_get(r->config->json, "rope_parameters", NULL);
    const json_t *old = cs_doc_get(r->config->json, "rope_scaling", NULL);
    if (!(r->rules->local_theta > 0)) {
        r->rope = cs_doc_get(r->config->json, "rope_scaling|rope_parameters", name);
        r->name = cs_arena_strdup(r->arena, name);
        return CS_OK;
    }
    r->rope = cs_doc_get(all, layer_type, NULL);
    r->name = cs_arena_printf(r->arena, "rope_parameters.%s", layer_type);
    if (all != NULL && r->rope == NULL && r->rules->is_new)
        return cs_fail(r->err, CS_INVALID, "%s%s is missing", cs_model_at(r->config, at), r->name);
    if (old != NULL && (r->rules->is_new || all != NULL))
        return cs_fail(
            r->err, CS_UNSUPPORTED,
            "%srope_scaling beside rope_parameters, or in a family that has no such key, "
            "is not supported",
            cs_model_at(r->config, at));
    if (old != NULL && !r->is_local) {
        r->rope = old;
        r->name = "rope_scaling";
    }
    return CS_OK;
}

enum cs_status cs_rope_read(const struct cs_config_source *config,
                            const struct cs_rope_rules *rules, const char *layer_type,
                            int32_t max_positions, struct cs_arena *arena,
                            struct cs_attention *attention, struct cs_err *err)
{
    struct reader r = {.config = config, .rules = rules, .arena = arena, .err = err};
    struct cs_rope *out = &attention->rope;
    r.max_positions = max_positions;
    r.is_local = rules->local_theta > 0 && strcmp(layer_type, "sliding_attention") == 0;
    CS_TRY(open(&r, layer_type));
    if (r.rope == NULL && !r.is_local && rules->unsaid.kind != CS_ROPE_NONE) {
        *out = rules->unsaid;
        out->dims = attention->head_dim;
        cs_model_say_default(config, "rope_parameters", "scaled", "the default of the class");
        return CS_OK;
    }
    CS_TRY(find_type(&r));
    say_unread(&r);
    *out = (struct cs_rope){
        .kind = r.type->kind, .theta = read_theta(&r), .factor = 1, .amplitude = 1};
    CS_TRY(read_part(&r, attention->head_dim, out));
    CS_TRY(read_sections(&r, out));
    if (out->kind == CS_ROPE_LINEAR)
        CS_TRY(need(&r, "factor", &out->factor));
    if (out->kind == CS_ROPE_PROPORTIONAL)
        out->factor = number_or(&r, "factor", 1);
    if (out->kind == CS_ROPE_LLAMA3)
        CS_TRY(read_llama3(&r, out));
    if (out->kind == CS_ROPE_YARN)
        CS_TRY(read_yarn(&r, out));
    if (out->kind == CS_ROPE_LONGROPE)
        CS_TRY(read_longrope(&r, out));
    if (out->kind == CS_ROPE_DYNAMIC)
        CS_TRY(read_dynamic(&r, out));
    return rules->unsaid.query_growth > 0 ? read_growth(&r, out) : CS_OK;
}
