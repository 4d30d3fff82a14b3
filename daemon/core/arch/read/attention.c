/* The kinds of attention of a model: which of its blocks see everything before them and which look
 * back through a window only, and what else differs between these. */
#include "core/arch/attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arch/read/read.h"

/* transformers' names of layer_types, and what each does to the rule of the model */
static const struct layer_type {
    const char *name;
    bool has_window, is_recurrent;
} layer_types[] = {
    {"full_attention",    false, false},
    {"sliding_attention", true,  false},
    {"linear_attention",  false, true },
};

enum { FULL, SLIDING, RECURRENT, N_TYPES = CS_ARRAY_LEN(layer_types) };

_Static_assert((int)N_TYPES <= (int)CS_ATTENTIONS, "a kind for each type");

struct reader {
    const struct cs_config_source *config;
    const struct cs_family *family;
    struct cs_arena *arena;
    struct cs_arch *arch;
    struct cs_err *err;
    int32_t window;
    uint8_t *type; /* (n_layers) of every block */
};

/* Absent: the default of the class; null: 0, for the class takes None for none. */
static int32_t count_of(const struct reader *r, const char *key, int32_t fallback)
{
    char text[32];
    const json_t *value = json_object_get(r->config->json, key);
    if (value != NULL)
        return (int32_t)json_integer_value(value);
    snprintf(text, sizeof text, "%d", fallback);
    cs_model_say_default(r->config, key, text, "the default of the class");
    return fallback;
}

static enum cs_status type_named(const struct reader *r, const json_t *name, size_t index)
{
    char at[512];
    const char *text = json_string_value(name);
    for (int i = 0; text != NULL && i < N_TYPES; i++)
        if (strcmp(layer_types[i].name, text) == 0) {
            r->type[index] = (uint8_t)i;
            return CS_OK;
        }
    return cs_fail(r->err, CS_UNSUPPORTED,
                   "%slayer_types[%zu] \"%.64s\" is not supported; full_attention, "
                   "sliding_attention and linear_attention are",
                   cs_model_at(r->config, at), index, text != NULL ? text : "(not a string)");
}

/* the type of every block, as the config lists them */
static enum cs_status read_types(const struct reader *r, const json_t *list)
{
    char at[512];
    if (json_array_size(list) != (size_t)r->arch->n_layers)
        return cs_fail(r->err, CS_INVALID,
                       "%slayer_types does not list num_hidden_layers = %d types",
                       cs_model_at(r->config, at), r->arch->n_layers);
    for (size_t i = 0; i < (size_t)r->arch->n_layers; i++)
        CS_TRY(type_named(r, json_array_get(list, i), i));
    return CS_OK;
}

/* What Qwen2Config does: without use_sliding_window there is no window; without layer_types the
 * blocks from max_window_layers on have it. */
static enum cs_status types_above(struct reader *r)
{
    const json_t *list = cs_doc_get(r->config->json, "layer_types", NULL);
    const json_t *is_used = cs_doc_get(r->config->json, "use_sliding_window", NULL);
    if (is_used == NULL)
        cs_model_say_default(r->config, "use_sliding_window", "false", "the default of the class");
    if (json_is_true(is_used))
        r->window = count_of(r, "sliding_window", r->family->window);
    if (list != NULL)
        return read_types(r, list);
    const int32_t first = r->window > 0 ? count_of(r, "max_window_layers", r->family->pattern) : 0;
    for (int32_t i = 0; i < r->arch->n_layers; i++)
        r->type[i] = r->window > 0 && i >= first ? SLIDING : FULL;
    return CS_OK;
}

/* What Gemma's classes do: layer_types, or all blocks have a window but every so many. */
static enum cs_status types_listed(struct reader *r)
{
    const json_t *list = cs_doc_get(r->config->json, "layer_types", NULL);
    const json_t *every = cs_doc_get(r->config->json, "sliding_window_pattern", NULL);
    const int32_t n = r->arch->n_layers,
                  step = every != NULL ? (int32_t)json_integer_value(every) : r->family->pattern;
    r->window = count_of(r, "sliding_window", r->family->window);
    for (int32_t i = 0; list == NULL && i < n; i++)
        r->type[i] = (i + 1) % step != 0 ? SLIDING : FULL;
    if (list != NULL)
        CS_TRY(read_types(r, list));
    if (r->family->is_last_full && r->type[n - 1] != FULL) {
        cs_findings_say(r->config->findings, CS_FINDING_SHADOWED, r->config->document,
                        "layer_types", list,
                        "layer_types: the last layer is full_attention in this family, always");
        r->type[n - 1] = FULL;
    }
    return CS_OK;
}

/* What Qwen3_5TextConfig does: layer_types, or every so many blocks attend. */
static enum cs_status types_recurrent(struct reader *r)
{
    const json_t *list = cs_doc_get(r->config->json, "layer_types", NULL);
    if (list != NULL)
        return read_types(r, list);
    const int32_t every = count_of(r, "full_attention_interval", r->family->pattern);
    for (int32_t i = 0; i < r->arch->n_layers; i++)
        r->type[i] = (i + 1) % every == 0 ? FULL : RECURRENT;
    return CS_OK;
}

static enum cs_status check_recurrent(const struct reader *r)
{
    char at[512];
    const struct cs_recurrent *own = &r->arch->recurrent;
    cs_model_at(r->config, at);
    for (int32_t i = 0; own->n_heads == 0 && i < r->arch->n_layers; i++)
        if (layer_types[r->type[i]].is_recurrent)
            return cs_fail(r->err, CS_UNSUPPORTED,
                           "%slayer_types[%d] is %s: this family has no recurrent layers", at, i,
                           layer_types[r->type[i]].name);
    if (own->n_heads > 0 && own->n_heads % own->n_key_heads != 0)
        return cs_fail(r->err, CS_INVALID,
                       "%slinear_num_value_heads %d is not a multiple of linear_num_key_heads %d",
                       at, own->n_heads, own->n_key_heads);
    return CS_OK;
}

static enum cs_status find_types(struct reader *r)
{
    char at[512];
    const enum cs_windows windows = r->family->windows;
    if (windows == CS_WINDOWS_ABOVE)
        CS_TRY(types_above(r));
    if (windows == CS_WINDOWS_TYPES)
        CS_TRY(types_listed(r));
    if (windows == CS_WINDOWS_RECURRENT)
        CS_TRY(types_recurrent(r));
    CS_TRY(check_recurrent(r));
    const bool is_used = json_is_true(cs_doc_get(r->config->json, "use_sliding_window", NULL));
    if (windows == CS_WINDOWS_ALL || (windows == CS_WINDOWS_ALL_USED && is_used)) {
        r->window = count_of(r, "sliding_window", r->family->window);
        memset(r->type, r->window > 0 ? SLIDING : FULL, (size_t)r->arch->n_layers);
    }
    for (int32_t i = 0; i < r->arch->n_layers; i++)
        if (layer_types[r->type[i]].has_window && r->window < 1)
            return cs_fail(r->err, CS_INVALID,
                           "%slayer_types[%d] is %s, but there is no window: use_sliding_window is "
                           "not true, or sliding_window is null or 0",
                           cs_model_at(r->config, at), i, layer_types[r->type[i]].name);
    return CS_OK;
}

/* Heads of layers without a window, under the names that the hub has. */
static void read_global(const struct reader *r, struct cs_attention *a)
{
    const json_t *heads = cs_doc_get(r->config->json, "num_global_key_value_heads", NULL);
    a->head_dim = count_of(r, "global_head_dim", r->family->full.head_dim);
    if (heads != NULL && r->arch->is_k_eq_v)
        a->n_kv_heads = (int32_t)json_integer_value(heads);
}

/* One of the numbers that per_layer_config may give of a layer. */
static bool take_number(const char *key, const json_t *value, struct cs_attention *a)
{
    const json_int_t n = json_integer_value(value);
    const bool is_dim = strcmp(key, "head_dim") == 0;
    if (!json_is_integer(value) || n < 1 || n > 4096 ||
        (!is_dim && strcmp(key, "num_key_value_heads") != 0))
        return false;
    *(is_dim ? &a->head_dim : &a->n_kv_heads) = (int32_t)n;
    return true;
}

/* What per_layer_config says of a layer; layers of one type must be alike. */
static enum cs_status read_layer(const struct reader *r, const char *layer, const json_t *says,
                                 struct cs_attention *a)
{
    char at[512];
    const char *key;
    json_t *value;
    json_object_foreach(
        (json_t *)(uintptr_t)says, key,
        value) if (!take_number(key, value, a)) return cs_fail(r->err, CS_UNSUPPORTED,
                                                               "%sper_layer_config.%.32s.%.64s is "
                                                               "not supported; head_dim and "
                                                               "num_key_value_heads are",
                                                               cs_model_at(r->config, at), layer,
                                                               key);
    return CS_OK;
}

/* The layer of a key, -1: it is none. Files have all numbers as wide as the last one: "05" of 12. */
static int32_t layer_of_key(const char *key)
{
    const size_t n = strspn(key, "0123456789");
    return n > 0 && n < 9 && key[n] == '\0' ? (int32_t)strtol(key, NULL, 10) : -1;
}

/* what stands there of the layer, the key that says it; NULL: nothing */
static const json_t *said_of_layer(const json_t *layers, int32_t layer, const char **key)
{
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)layers, *key,
                        value) if (layer_of_key(*key) == layer) return value;
    return NULL;
}

/* Every key must be the number of a layer, of each at most one. */
static enum cs_status check_layers(const struct reader *r, const json_t *layers)
{
    char at[512];
    const char *key, *first;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)layers, key, value)
    {
        const int32_t i = layer_of_key(key);
        if (i < 0 || i >= r->arch->n_layers || !json_is_object(value))
            return cs_fail(r->err, CS_INVALID,
                           "%sper_layer_config.%.64s is not an object of one of the layers 0 to %d",
                           cs_model_at(r->config, at), key, r->arch->n_layers - 1);
        if (said_of_layer(layers, i, &first) != value)
            return cs_fail(r->err, CS_INVALID, "%sper_layer_config has layer %d as %s and as %s",
                           cs_model_at(r->config, at), i, first, key);
    }
    return CS_OK;
}

static enum cs_status read_per_layer(const struct reader *r, const json_t *layers, int type,
                                     struct cs_attention *a)
{
    char at[512];
    const char *key = "";
    const struct cs_attention base = *a;
    bool is_first = true;
    CS_TRY(check_layers(r, layers));
    for (int32_t i = 0; i < r->arch->n_layers; i++) {
        struct cs_attention own = base;
        if (r->type[i] != type)
            continue;
        const json_t *says = said_of_layer(layers, i, &key);
        CS_TRY(read_layer(r, key, says, &own));
        if (!is_first && (own.head_dim != a->head_dim || own.n_kv_heads != a->n_kv_heads))
            return cs_fail(r->err, CS_UNSUPPORTED,
                           "%sper_layer_config gives layer %d other heads than other layers of "
                           "type %s: that is not supported",
                           cs_model_at(r->config, at), i, layer_types[type].name);
        *a = own;
        is_first = false;
    }
    return CS_OK;
}

/* What is of this type alone. */
static enum cs_status read_kind(const struct reader *r, int type, struct cs_attention *a)
{
    const json_t *layers = json_object_get(r->config->json, "per_layer_config");
    if (r->family->full.head_dim > 0 && json_is_object(layers)) /* {}: all layers are alike */
        CS_TRY(read_per_layer(r, layers, type, a));
    else if (r->family->full.head_dim > 0 && type == FULL)
        read_global(r, a);
    a->is_k_eq_v = r->arch->is_k_eq_v && type == FULL;
    if (layer_types[type].has_window)
        a->rule = (struct cs_mask_rule){.kind = CS_MASK_WINDOW, .window = r->window};
    /* a scale that was read is that of the family's scalar */
    a->scale = 1.0f / sqrtf(a->scale > 0 ? a->scale : (float)a->head_dim);
    return CS_OK;
}

static enum cs_status read_rope(const struct reader *r, int type, int kind)
{
    struct cs_attention *a = &r->arch->attention[kind];
    const char *key = r->family->rope_key;
    if (r->family->rope == NULL || (key != NULL && cs_doc_get(r->config->json, key, NULL) == NULL))
        return CS_OK;
    if (kind > 0 && !(r->family->rope->local_theta > 0)) { /* one rope for all, read already */
        a->rope = r->arch->attention[0].rope;
        return CS_OK;
    }
    return cs_rope_read(r->config, r->family->rope, layer_types[type].name, r->arch->max_positions,
                        r->arena, a, r->err);
}

enum cs_status cs_attention_kinds(const struct cs_config_source *config,
                                  const struct cs_family *family, struct cs_arena *arena,
                                  struct cs_arch *arch, struct cs_err *err)
{
    int kind_of[N_TYPES];
    struct reader r = {config, family, arena, arch, err, 0, NULL};
    struct cs_attention base = arch->attention[0];
    uint8_t *block = CS_NEW_ARRAY(arena, uint8_t, arch->n_layers);
    uint8_t *mixer = CS_NEW_ARRAY(arena, uint8_t, arch->n_layers);
    r.type = CS_NEW_ARRAY(arena, uint8_t, arch->n_layers); /* 0: full */
    base.rule.kind = arch->kind == CS_MODULE_LLM ? CS_MASK_CAUSAL : CS_MASK_FULL;
    CS_TRY(find_types(&r));
    memset(kind_of, -1, sizeof kind_of);
    arch->n_attentions = 0;
    for (int32_t i = 0; i < arch->n_layers; i++) {
        int *kind = &kind_of[r.type[i]];
        mixer[i] = layer_types[r.type[i]].is_recurrent ? CS_MIXER_DELTA : CS_MIXER_ATTENTION;
        if (layer_types[r.type[i]].is_recurrent)
            continue;
        if (*kind < 0) {
            *kind = arch->n_attentions++;
            arch->attention[*kind] = base;
            CS_TRY(read_kind(&r, r.type[i], &arch->attention[*kind]));
            CS_TRY(read_rope(&r, r.type[i], *kind));
        }
        block[i] = (uint8_t)*kind;
    }
    if (arch->n_attentions == 0) /* nothing attends: documents are told by a mask all the same */
        arch->attention[arch->n_attentions++] = base;
    arch->block_attention = block;
    arch->block_mixer = mixer;
    return CS_OK;
}

bool cs_mask_rule_is_same(struct cs_mask_rule a, struct cs_mask_rule b)
{
    return a.kind == b.kind && a.window == b.window && a.prefix == b.prefix;
}
