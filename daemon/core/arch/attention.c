/* The kinds of attention of a model: which of its blocks see everything before them, and which look
 * back through a window only. */
#include "core/arch/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/arch/families.h"

/* transformers' names of layer_types, and what each does to the rule of the model */
static const struct layer_type {
    const char *name;
    bool has_window;
} layer_types[] = {
    {"full_attention",    false},
    {"sliding_attention", true },
};

enum { N_TYPES = CS_ARRAY_LEN(layer_types) };

_Static_assert((int)N_TYPES <= (int)CS_ATTENTIONS, "a kind for each type");

/* Absent: the default of the class; null: 0, for the class takes None for none. */
static int32_t count_of(const struct cs_config_source *config, const char *key, int32_t fallback)
{
    char text[32];
    const json_t *value = json_object_get(config->json, key);
    if (value != NULL)
        return (int32_t)json_integer_value(value);
    snprintf(text, sizeof text, "%d", fallback);
    cs_model_say_default(config, key, text, "the default of the class");
    return fallback;
}

static enum cs_status type_named(const struct cs_config_source *config, const json_t *name,
                                 size_t index, uint8_t *out, struct cs_err *err)
{
    char at[512];
    const char *text = json_string_value(name);
    for (int i = 0; text != NULL && i < N_TYPES; i++)
        if (strcmp(layer_types[i].name, text) == 0) {
            *out = (uint8_t)i;
            return CS_OK;
        }
    return cs_fail(err, CS_UNSUPPORTED,
                   "%slayer_types[%zu] \"%.64s\" is not supported; full_attention and "
                   "sliding_attention are",
                   cs_model_at(config, at), index, text != NULL ? text : "(not a string)");
}

/* type (n_layers) of every block, as the config lists them */
static enum cs_status read_types(const struct cs_config_source *config, const json_t *list,
                                 int32_t window, const struct cs_arch *arch, uint8_t *type,
                                 struct cs_err *err)
{
    char at[512];
    cs_model_at(config, at);
    if (json_array_size(list) != (size_t)arch->n_layers)
        return cs_fail(err, CS_INVALID, "%slayer_types does not list num_hidden_layers = %d types",
                       at, arch->n_layers);
    for (size_t i = 0; i < (size_t)arch->n_layers; i++) {
        CS_TRY(type_named(config, json_array_get(list, i), i, &type[i], err));
        if (layer_types[type[i]].has_window && window < 1)
            return cs_fail(
                err, CS_INVALID,
                "%slayer_types[%zu] is %s, but there is no window: use_sliding_window is "
                "not true, or sliding_window is null or 0",
                at, i, layer_types[type[i]].name);
    }
    return CS_OK;
}

/* What Qwen2Config does: without use_sliding_window there is no window; without layer_types the
 * blocks from max_window_layers on have it. */
static enum cs_status types_above(const struct cs_config_source *config, const struct cs_arch *arch,
                                  int32_t *window, uint8_t *type, struct cs_err *err)
{
    const json_t *list = cs_doc_get(config->json, "layer_types", NULL);
    const json_t *is_used = cs_doc_get(config->json, "use_sliding_window", NULL);
    *window = 0;
    if (is_used == NULL)
        cs_model_say_default(config, "use_sliding_window", "false", "the default of the class");
    if (json_is_true(is_used))
        *window = count_of(config, "sliding_window", 4096);
    if (list != NULL)
        return read_types(config, list, *window, arch, type, err);
    const int32_t first = *window > 0 ? count_of(config, "max_window_layers", 28) : 0;
    for (int32_t i = 0; i < arch->n_layers; i++)
        type[i] = *window > 0 && i >= first;
    return CS_OK;
}

enum cs_status cs_attention_kinds(const struct cs_config_source *config, enum cs_windows windows,
                                  struct cs_arena *arena, struct cs_arch *arch, struct cs_err *err)
{
    int kind_of[N_TYPES];
    int32_t window = 0;
    struct cs_attention base = arch->attention[0];
    uint8_t *type = CS_NEW_ARRAY(arena, uint8_t, arch->n_layers); /* 0: full */
    base.scale = 1.0f / sqrtf((float)base.head_dim);
    base.rule.kind = arch->kind == CS_MODULE_LLM ? CS_MASK_CAUSAL : CS_MASK_FULL;
    if (windows == CS_WINDOWS_ABOVE)
        CS_TRY(types_above(config, arch, &window, type, err));
    memset(kind_of, -1, sizeof kind_of);
    arch->n_attentions = 0;
    for (int32_t i = 0; i < arch->n_layers; i++) {
        int *kind = &kind_of[type[i]];
        if (*kind < 0) {
            *kind = arch->n_attentions++;
            arch->attention[*kind] = base;
            if (layer_types[type[i]].has_window)
                arch->attention[*kind].rule =
                    (struct cs_mask_rule){.kind = CS_MASK_WINDOW, .window = window};
        }
        type[i] = (uint8_t)*kind; /* its type is not asked again */
    }
    arch->block_attention = type;
    return CS_OK;
}

bool cs_mask_rule_is_same(struct cs_mask_rule a, struct cs_mask_rule b)
{
    return a.kind == b.kind && a.window == b.window && a.prefix == b.prefix;
}
