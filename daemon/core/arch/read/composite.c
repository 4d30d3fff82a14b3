/* Reads the root of a composite's config.json by its family's row; see composite.h. */
#include "core/arch/read/composite.h"

#include <stdio.h>
#include <string.h>

#include "core/arch/read/config.h"

bool cs_composite_is(const json_t *config)
{
    return cs_composite_of(config) != NULL;
}

const struct cs_part_name *cs_composite_name(const struct cs_composite_family *family,
                                             const char *disk)
{
    for (int i = 0; i < family->n_names; i++) {
        const struct cs_part_name *name = &family->names[i];
        const size_t len = strlen(name->disk);
        if (strncmp(disk, name->disk, len) == 0 && (disk[len] != '\0' || *name->component != '\0'))
            return name;
    }
    return NULL;
}

/* The value under one of the spellings, or NULL after saying what the class takes; keys that the family
 * does not have are not looked for. */
static const json_t *look_up(const struct cs_config_source *config,
                             const struct cs_composite_family *family, const char *names,
                             const char *fallback)
{
    char name[CS_DOC_NAME], source[96];
    if (family->table == NULL || *names == '\0')
        return NULL;
    const json_t *value = cs_doc_get(config->json, names, name);
    if (value != NULL && cs_doc_find(family->table, name) == NULL)
        return NULL;
    if (value == NULL && cs_doc_find(family->table, name) != NULL) {
        snprintf(source, sizeof source, "the default of %s", family->model_type);
        cs_model_say_default(config, name, fallback, source);
    }
    return value;
}

/* whether rows of the tower begin with a class row, which "default" drops; what cannot be read is told by
 * who reads the tower */
static bool has_class(const struct cs_config_source *config,
                      const struct cs_composite_family *family)
{
    struct cs_arch arch;
    struct cs_arena *arena = cs_arena_new(0);
    const json_t *tower = json_object_get(config->json, family->encoder_key);
    const bool is_read = cs_arch_from_config(tower, arena, &arch, NULL) == CS_OK;
    cs_arena_free(arena);
    return !is_read || arch.front.has_class;
}

static enum cs_status read_features(const struct cs_config_source *config, struct cs_composite *out,
                                    struct cs_err *err)
{
    const struct cs_composite_family *family = out->family;
    char at[512], shown[CS_DOC_SHOWN], fallback[16];
    snprintf(fallback, sizeof fallback, "%d", family->feature_layer);
    const json_t *layer = look_up(config, family, "vision_feature_layer|select_layer", fallback);
    const json_t *strategy = look_up(config, family, "vision_feature_select_strategy",
                                     family->drops_class ? "default" : "full");
    if (json_is_array(layer) && json_array_size(layer) == 1)
        layer = json_array_get(layer, 0);
    if (json_is_array(layer))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%svision_feature_layer is %s: features of several layers side by side are "
                       "not supported",
                       cs_model_at(config, at), cs_doc_show(layer, shown));
    if (layer != NULL)
        out->feature_layer = (int32_t)json_integer_value(layer);
    if (strategy != NULL)
        out->drops_class = strcmp(json_string_value(strategy), "default") == 0;
    if (!out->drops_class || has_class(config, family))
        return CS_OK;
    return cs_fail(
        err, CS_UNSUPPORTED,
        "%svision_feature_select_strategy is %s: that drops the first row of every "
        "picture, which belongs to an encoder with a class token, and this one has none; "
        "supported: \"full\"",
        cs_model_at(config, at),
        strategy != NULL ? "\"default\"" : "not given, which means \"default\"");
}

/* Heads of composites multiply and do no more: no cap of the logits, no loss of the experts' balance. */
static const char *const unread[] = {"final_logit_softcapping", "output_router_logits"};

json_t *cs_composite_text(const struct cs_composite_family *family, const json_t *text)
{
    json_t *out = json_copy((json_t *)(uintptr_t)text);
    for (size_t i = family->has_cap; i < CS_ARRAY_LEN(unread); i++)
        if (cs_doc_says(json_object_get(out, unread[i])))
            json_object_set_new(out, unread[i], json_null());
    return out;
}

static void say_unread(const struct cs_config_source *config,
                       const struct cs_composite_family *family)
{
    char path[128];
    const json_t *text =
        family->text_key != NULL ? json_object_get(config->json, family->text_key) : NULL;
    for (size_t i = family->has_cap; i < CS_ARRAY_LEN(unread); i++) {
        const json_t *value = json_object_get(text, unread[i]);
        if (!cs_doc_says(value) || json_is_false(value))
            continue;
        snprintf(path, sizeof path, "%s.%s", family->text_key, unread[i]);
        cs_findings_say(config->findings, CS_FINDING_SHADOWED, config->document, path, value,
                        "%s is not used: %s does without", path, family->class_name);
    }
}

static bool is_tied(const struct cs_composite_family *family, const json_t *root)
{
    static const char key[] = "tie_word_embeddings";
    const json_t *said = cs_doc_get(root, key, NULL);
    const json_t *text = family->text_key != NULL ? json_object_get(root, family->text_key) : NULL;
    return (said != NULL ? json_is_true(said) : family->is_tied) ||
           json_is_true(json_object_get(text, key));
}

enum cs_status cs_composite_read(const struct cs_config_source *config, bool with_features,
                                 struct cs_composite *out, struct cs_err *err)
{
    const struct cs_composite_family *family = cs_composite_of(config->json);
    char at[512];
    if (family == NULL)
        return cs_fail(err, CS_UNSUPPORTED, "%smodel_type is not that of a composite model",
                       cs_model_at(config, at));
    if (family->table != NULL) /* else the root is the tower's, and reviewed as that */
        CS_TRY(cs_doc_review(&(struct cs_doc){.name = config->document,
                                              .where = config->where,
                                              .json = config->json,
                                              .table = family->table},
                             config->findings, err));
    if (family->must_say != NULL && !cs_doc_says(json_object_get(config->json, family->must_say)))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s%s is not given: its default in the class is not supported",
                       cs_model_at(config, at), family->must_say);
    say_unread(config, family);
    char token_text[32];
    snprintf(token_text, sizeof token_text, "%lld", (long long)family->default_token);
    const json_t *act = look_up(config, family, "projector_hidden_act", "gelu");
    const json_t *bias =
        look_up(config, family, "multimodal_projector_bias", family->has_bias ? "true" : "false");
    const json_t *token = look_up(config, family, family->token, token_text);
    *out = (struct cs_composite){
        .family = family,
        .activation =
            cs_act_word(act != NULL ? cs_act_named(json_string_value(act)) : CS_ARCH_GELU),
        .has_bias = bias != NULL ? json_is_true(bias) : family->has_bias,
        .drops_class = family->drops_class,
        .has_final_norm = family->has_final_norm,
        .feature_layer = family->feature_layer,
        .image_token = token != NULL ? json_integer_value(token) : family->default_token,
        .is_tied = is_tied(family, config->json),
    };
    return with_features && !family->has_final_norm ? read_features(config, out, err) : CS_OK;
}

/* "vision_config.spatial_merge_size" of the root */
static const json_t *value_at(const json_t *root, const struct cs_composite_family *family,
                              const char *path)
{
    const size_t len = strcspn(path, ".");
    char name[64];
    if (path[len] == '\0')
        return json_object_get(root, path);
    snprintf(name, sizeof name, "%.*s", (int)len, path);
    const bool is_root = *family->encoder_key == '\0' && strcmp(name, "vision_config") == 0;
    return json_object_get(is_root ? root : json_object_get(root, name), path + len + 1);
}

/* What the root leaves to the class; of a norm, to that of the part. */
static void set_unsaid(const json_t *root, const struct cs_part_setting *s, json_t *config)
{
    struct cs_arch arch;
    char name[64];
    if (s->unsaid > 0)
        json_object_set_new(config, s->key,
                            s->unsaid < 1 ? json_real(s->unsaid)
                                          : json_integer((json_int_t)s->unsaid));
    if (strcmp(s->key, "norm_eps") != 0)
        return;
    struct cs_arena *arena = cs_arena_new(0);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(s->path, "."), s->path);
    if (cs_arch_from_config(json_object_get(root, name), arena, &arch, NULL) == CS_OK)
        json_object_set_new(config, s->key, json_real((double)arch.norm_eps));
    cs_arena_free(arena);
}

static const json_t *width_of(const json_t *root, const char *key)
{
    const json_t *part = key == NULL ? NULL : *key == '\0' ? root : json_object_get(root, key);
    return cs_doc_get(part, "hidden_size|d_model", NULL);
}

json_t *cs_composite_projector(const struct cs_composite *composite, const json_t *root)
{
    const struct cs_composite_family *family = composite->family;
    json_t *config = json_pack("{s:s, s:s, s:b}", "model_type", family->projector, "activation",
                               composite->activation, "bias", (int)composite->has_bias);
    if (config == NULL)
        return NULL;
    if (strcmp(family->projector, "mlp") == 0)
        json_object_set_new(config, "n_layers", json_integer(2));
    if (!composite->drops_class)
        json_object_set_new(config, "keeps_class", json_true());
    const json_t *in = width_of(root, family->encoder_key), *out = width_of(root, family->text_key);
    if (strcmp(family->projector, "mlp") == 0 || strcmp(family->projector, "linear") == 0) {
        json_object_set(config, "in_width", (json_t *)(uintptr_t)in);
        json_object_set(config, "out_width", (json_t *)(uintptr_t)out);
    }
    for (int i = 0; i < family->n_settings; i++) {
        const struct cs_part_setting *s = &family->settings[i];
        const json_t *value = *s->path != '\0' ? value_at(root, family, s->path) : json_true();
        if (cs_doc_says(value))
            json_object_set(config, s->key, (json_t *)(uintptr_t)value);
        else
            set_unsaid(root, s, config);
    }
    return config;
}

const char *cs_composite_mask(const struct cs_composite_family *family, const json_t *root)
{
    const json_t *text = family->text_key != NULL ? json_object_get(root, family->text_key) : NULL;
    const char *said = family->mask_key != NULL
                           ? json_string_value(json_object_get(text, family->mask_key))
                           : "vision";
    return said != NULL && strcmp(said, "vision") == 0 ? family->mask : NULL;
}

/* Names that begin with "model." are those of the classes in memory, where there are others. */
static int fit_saved(void *user, enum cs_module_kind kind, const char *disk)
{
    (void)user;
    (void)kind;
    return strncmp(disk, "model.", 6) != 0;
}

const char *cs_composite_disk_name(const struct cs_composite_family *family,
                                   enum cs_module_kind kind, const char *component,
                                   int (*fit)(void *user, enum cs_module_kind kind,
                                              const char *disk),
                                   void *user, struct cs_arena *arena)
{
    enum { OF_ITSELF = 16 }; /* above all that fits the part */

    const char *best = NULL;
    int best_fit = -1;
    for (int i = 0; i < family->n_names; i++) {
        const struct cs_part_name *row = &family->names[i];
        const size_t len = strlen(row->component);
        if (row->kind != kind || strncmp(component, row->component, len) != 0)
            continue;
        const char *disk = cs_arena_printf(arena, "%s%s", row->disk, component + len);
        const struct cs_part_name *owner = cs_composite_name(family, disk);
        int fits = (fit != NULL ? fit : fit_saved)(user, kind, disk);
        if (fits >= 0 && len > 0 && component[len] == '\0') /* a row of this tensor alone */
            fits += OF_ITSELF;
        if (owner == NULL || owner->kind != kind || fits <= best_fit)
            continue;
        best = disk;
        best_fit = fits;
    }
    return best;
}
