/* Reads a config.json through the tables of families.c. */
#include "core/model/arch.h"

#include <math.h>
#include <string.h>

#include "core/base/near.h"
#include "core/model/families.h"

static const struct {
    const char *name;
    enum cs_arch_act act;
} activations[] = {
    {"gelu",              CS_ARCH_GELU      },
    {"gelu_pytorch_tanh", CS_ARCH_GELU_TANH },
    {"gelu_new",          CS_ARCH_GELU_TANH },
    {"quick_gelu",        CS_ARCH_QUICK_GELU},
    {"silu",              CS_ARCH_SILU      },
    {"swish",             CS_ARCH_SILU      },
    {"relu",              CS_ARCH_RELU      },
};

static enum cs_status read_act(const char *key, const char *name, enum cs_arch_act *out,
                               struct cs_err *err)
{
    const char *names[CS_ARRAY_LEN(activations)];
    for (size_t i = 0; i < CS_ARRAY_LEN(activations); i++) {
        names[i] = activations[i].name;
        if (strcmp(activations[i].name, name) == 0) {
            *out = activations[i].act;
            return CS_OK;
        }
    }
    const char *near = cs_near(name, names, (int)CS_ARRAY_LEN(names));
    return cs_fail(err, CS_UNSUPPORTED,
                   "%s \"%.64s\" is not supported%s%s%s; gelu, gelu_pytorch_tanh, quick_gelu, silu "
                   "and relu are",
                   key, name, near != NULL ? " (did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?)" : "");
}

/* The value under the first spelling that is present, NULL when none is or it is null. */
static const json_t *find_key(const json_t *config, const char *names, char name[64])
{
    for (const char *s = names;; s++) {
        size_t len = strcspn(s, "|");
        CS_ASSERT(len < 64);
        memcpy(name, s, len);
        name[len] = '\0';
        const json_t *value = json_object_get(config, name);
        if (value != NULL && !json_is_null(value))
            return value;
        s += len;
        if (*s == '\0')
            break;
    }
    size_t first = strcspn(names, "|");
    memcpy(name, names, first);
    name[first] = '\0';
    return NULL;
}

static int32_t *int_at(struct cs_arch *arch, size_t offset)
{
    return (int32_t *)(void *)((char *)arch + offset);
}

static enum cs_status default_value(const struct cs_config_key *key, const char *name, bool is_null,
                                    struct cs_arch *arch, struct cs_err *err)
{
    char *at = (char *)arch + key->field;
    if (key->kind == CS_DEFAULT_PER_HEAD) {
        const int32_t n_heads = arch->attention[0].n_heads;
        if (arch->width % n_heads != 0)
            return cs_fail(err, CS_INVALID,
                           "hidden_size %d does not divide by num_attention_heads %d, and there is "
                           "no %s",
                           arch->width, n_heads, name);
        *int_at(arch, key->field) = arch->width / n_heads;
        return CS_OK;
    }
    if (key->kind == CS_DEFAULT_FIELD || (key->kind == CS_DEFAULT_MIXED && is_null)) {
        *int_at(arch, key->field) = *int_at(arch, key->other);
        return CS_OK;
    }
    switch (key->type) {
    case CS_KEY_INT:
        *int_at(arch, key->field) = (int32_t)key->number;
        break;
    case CS_KEY_FLOAT:
        *(float *)(void *)at = (float)key->number;
        break;
    case CS_KEY_BOOL:
        *(bool *)at = key->number > 0;
        break;
    case CS_KEY_ACT:
        arch->act = (enum cs_arch_act)key->number;
        break;
    }
    return CS_OK;
}

static enum cs_status read_key(const json_t *config, const struct cs_config_key *key,
                               struct cs_arch *arch, struct cs_err *err)
{
    char name[64];
    const json_t *value = find_key(config, key->names, name);
    char *at = (char *)arch + key->field;
    if (value == NULL)
        return default_value(key, name, json_is_null(json_object_get(config, name)), arch, err);
    double number = json_number_value(value);
    switch (key->type) {
    case CS_KEY_INT:
        if (!json_is_integer(value) || number < key->min || number > key->max)
            return cs_fail(err, CS_INVALID, "%s is not a whole number from %.0f to %.0f", name,
                           key->min, key->max);
        *int_at(arch, key->field) = (int32_t)json_integer_value(value);
        return CS_OK;
    case CS_KEY_FLOAT:
        if (!json_is_number(value) || !(number >= key->min) || number > key->max)
            return cs_fail(err, CS_INVALID, "%s is not a number from %g to %g", name, key->min,
                           key->max);
        *(float *)(void *)at = (float)number;
        return CS_OK;
    case CS_KEY_BOOL:
        if (!json_is_boolean(value))
            return cs_fail(err, CS_INVALID, "%s is neither true nor false", name);
        *(bool *)at = json_is_true(value);
        return CS_OK;
    case CS_KEY_ACT:
        if (!json_is_string(value))
            return cs_fail(err, CS_INVALID, "%s is not a string", name);
        return read_act(name, json_string_value(value), &arch->act, err);
    }
    return CS_OK;
}

static enum cs_status check_fixed(const json_t *config, const struct cs_config_fixed *fixed,
                                  struct cs_err *err)
{
    const json_t *value = json_object_get(config, fixed->name);
    if (value == NULL || json_is_null(value))
        return CS_OK;
    double number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    if ((!json_is_boolean(value) && !json_is_number(value)) || number < fixed->number ||
        number > fixed->number)
        return cs_fail(err, CS_UNSUPPORTED, "%s: %s", fixed->name, fixed->why);
    return CS_OK;
}

/* What holds across keys. */
static enum cs_status check_shape(const struct cs_arch *arch, struct cs_err *err)
{
    const struct cs_attention *a = &arch->attention[0];
    if (a->n_heads % a->n_kv_heads != 0)
        return cs_fail(err, CS_INVALID,
                       "num_attention_heads %d is not a multiple of num_key_value_heads %d",
                       a->n_heads, a->n_kv_heads);
    if (a->rope.kind != CS_ROPE_NONE && a->rope.dims % 2 != 0)
        return cs_fail(err, CS_INVALID, "head_dim %d is odd; rotary embeddings need it even",
                       a->head_dim);
    if (arch->kind == CS_MODULE_ENCODER && arch->patch_size > arch->image_size)
        return cs_fail(err, CS_INVALID, "patch_size %d is larger than image_size %d",
                       arch->patch_size, arch->image_size);
    return CS_OK;
}

static enum cs_status unknown_type(const char *type, struct cs_err *err)
{
    int n = 0;
    const struct cs_family *families = cs_families(&n);
    const char *names[16];
    CS_ASSERT(n <= 16);
    char list[256] = "";
    for (int i = 0; i < n; i++) {
        names[i] = families[i].model_type;
        if (i > 0)
            strcat(list, ", ");
        strcat(list, names[i]);
    }
    const char *near = cs_near(type, names, n);
    return cs_fail(err, CS_UNSUPPORTED,
                   "model_type \"%.64s\" is not supported%s%s%s; these are: %s", type,
                   near != NULL ? " (did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?)" : "", list);
}

static enum cs_status find_family(const char *type, const struct cs_family **out,
                                  struct cs_err *err)
{
    int n = 0;
    const struct cs_family *families = cs_families(&n);
    for (int i = 0; i < n; i++) {
        if (strcmp(families[i].model_type, type) == 0) {
            *out = &families[i];
            return CS_OK;
        }
    }
    return unknown_type(type, err);
}

/* Steps into a composite's inner config ("siglip" holds "vision_config"). */
static enum cs_status open_inner(const json_t **config, const struct cs_family **family,
                                 struct cs_err *err)
{
    const char *inner = (*family)->inner;
    const json_t *value = json_object_get(*config, inner);
    if (!json_is_object(value))
        return cs_fail(err, CS_INVALID, "model_type \"%s\" has no %s object", (*family)->model_type,
                       inner);
    const json_t *type = json_object_get(value, "model_type");
    if (type != NULL && !json_is_string(type))
        return cs_fail(err, CS_INVALID, "%s.model_type is not a string", inner);
    const char *name = type != NULL ? json_string_value(type) : (*family)->inner_type;
    if (strcmp(name, (*family)->inner_type) != 0)
        return cs_fail(err, CS_UNSUPPORTED, "%s.model_type \"%.64s\" is not \"%s\"", inner, name,
                       (*family)->inner_type);
    *config = value;
    return find_family(name, family, err);
}

enum cs_status cs_arch_from_config(const json_t *config, struct cs_arena *arena,
                                   struct cs_arch *out, struct cs_err *err)
{
    const struct cs_family *family = NULL;
    if (!json_is_object(config))
        return cs_fail(err, CS_INVALID, "the config is not a JSON object");
    const json_t *type = json_object_get(config, "model_type");
    if (!json_is_string(type))
        return cs_fail(err, CS_INVALID,
                       "model_type is missing; without it a config.json has no defaults");
    const json_t *quantized = json_object_get(config, "quantization_config");
    if (quantized != NULL && !json_is_null(quantized))
        return cs_fail(err, CS_UNSUPPORTED,
                       "quantization_config: quantized weights are not supported");
    CS_TRY(find_family(json_string_value(type), &family, err));
    if (family->inner != NULL)
        CS_TRY(open_inner(&config, &family, err));
    *out = family->base;
    for (int i = 0; i < family->n_fixed; i++)
        CS_TRY(check_fixed(config, &family->fixed[i], err));
    for (int i = 0; i < family->n_keys; i++)
        CS_TRY(read_key(config, &family->keys[i], out, err));
    if (family->has_rope)
        CS_TRY(cs_rope_read(config, family->rope_theta, &out->attention[0], err));
    if (out->kind == CS_MODULE_ENCODER)
        out->in_width = out->channels * out->patch_size * out->patch_size;
    CS_TRY(check_shape(out, err));
    return cs_attention_kinds(config, family->windows, arena, out, err);
}

enum cs_status cs_arch_projector(const char *kind, int n_layers, const char *activation,
                                 int32_t in_width, int32_t out_width, struct cs_arena *arena,
                                 struct cs_arch *out, struct cs_err *err)
{
    bool is_mlp = strcmp(kind, "mlp") == 0;
    (void)arena;
    if (!is_mlp && strcmp(kind, "linear") != 0)
        return cs_fail(err, CS_INVALID, "projector family \"%.64s\" is neither mlp nor linear",
                       kind);
    if (n_layers < 1 || n_layers > (is_mlp ? 2 : 1))
        return cs_fail(err, CS_INVALID, "a projector of family %s has %s, not %d", kind,
                       is_mlp ? "1 or 2 layers" : "1 layer", n_layers);
    CS_ASSERT(in_width > 0 && out_width > 0);
    *out = (struct cs_arch){
        .kind = CS_MODULE_PROJECTOR,
        .family = is_mlp ? "mlp" : "linear",
        .width = out_width,
        .in_width = in_width,
        .ffn_width = out_width, /* LLaVA: both linears end at the LLM's width */
        .n_layers = n_layers,
        .embed_scale = 1,
        .has_mlp_bias = true,
        /* LeCun: rows keep their scale. 0.02 starves a narrow LLM of the picture for long */
        .initializer_range = (float)(1.0 / sqrt((double)in_width)),
    };
    if (n_layers == 1)
        return CS_OK;
    return read_act("activation", activation, &out->act, err);
}

int32_t cs_arch_block_attention(const struct cs_arch *arch, int32_t block)
{
    return arch->block_attention != NULL ? arch->block_attention[block] : 0;
}

int32_t cs_arch_item_rows(const struct cs_arch *arch)
{
    if (arch->patch_size == 0)
        return 0;
    int32_t side = arch->image_size / arch->patch_size; /* a rest of the picture is cut off */
    return side * side;
}
