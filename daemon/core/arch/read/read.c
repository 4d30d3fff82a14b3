/* Reads a config.json through the tables of families. */
#include "core/arch/arch.h"

#include <math.h>
#include <string.h>

#include "core/arch/read/read.h"
#include "core/base/near.h"

static enum cs_status check_attention(const struct cs_config_source *config,
                                      const struct cs_attention *a, struct cs_err *err)
{
    char at[512];
    cs_model_at(config, at);
    if (a->n_heads % a->n_kv_heads != 0)
        return cs_fail(err, CS_INVALID,
                       "%snum_attention_heads %d is not a multiple of num_key_value_heads %d", at,
                       a->n_heads, a->n_kv_heads);
    if (a->rope.kind != CS_ROPE_NONE && (a->rope.dims % 2 != 0 || a->rope.dims == 0))
        return cs_fail(err, CS_INVALID,
                       "%shead_dim %d is odd, or %d of it are; rotary embeddings need it even", at,
                       a->head_dim, a->rope.dims);
    return CS_OK;
}

/* What holds across keys. */
static enum cs_status check_shape(const struct cs_config_source *config, const struct cs_arch *arch,
                                  struct cs_err *err)
{
    char at[512];
    cs_model_at(config, at);
    for (int32_t k = 0; k < arch->n_attentions; k++)
        CS_TRY(check_attention(config, &arch->attention[k], err));
    if (arch->front.stem == CS_STEM_PATCHES && arch->image_size > 0 &&
        arch->patch_size > arch->image_size)
        return cs_fail(err, CS_INVALID, "%spatch_size %d is larger than image_size %d", at,
                       arch->patch_size, arch->image_size);
    if (arch->per_layer_width > 0)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%shidden_size_per_layer_input is %d (256 where it is not given): inputs of "
                       "every layer beside the token embedding are not supported, only 0",
                       at, arch->per_layer_width);
    return CS_OK;
}

static enum cs_status unknown_type(const struct cs_config_source *config, const char *type,
                                   struct cs_err *err)
{
    enum { MOST = 64 };

    char at[512], list[2048] = "";
    const char *names[MOST];
    const struct cs_family *family;
    int n = 0;
    for (; (family = cs_family_at(n)) != NULL; n++) {
        CS_ASSERT(n < MOST && strlen(list) + strlen(family->model_type) + 3 < sizeof list);
        names[n] = family->model_type;
        if (n > 0)
            strcat(list, ", ");
        strcat(list, names[n]);
    }
    const char *near = cs_near(type, names, n);
    return cs_fail(err, CS_UNSUPPORTED,
                   "%smodel_type \"%.64s\" is not supported%s%s%s; these are: %s",
                   cs_model_at(config, at), type, near != NULL ? " (did you mean \"" : "",
                   near != NULL ? near : "", near != NULL ? "\"?)" : "", list);
}

static enum cs_status find_family(const struct cs_config_source *config, const char *type,
                                  const struct cs_family **out, struct cs_err *err)
{
    *out = cs_family_named(type);
    return *out != NULL ? CS_OK : unknown_type(config, type, err);
}

static enum cs_status review(const struct cs_config_source *config, const struct cs_family *family,
                             struct cs_err *err)
{
    return cs_doc_review(&(struct cs_doc){.name = config->document,
                                          .where = config->where,
                                          .json = config->json,
                                          .table = family->table},
                         config->findings, err);
}

/* Steps into a composite's inner config ("siglip" holds "vision_config"). */
static enum cs_status open_inner(struct cs_config_source *config, const struct cs_family **family,
                                 struct cs_arena *arena, struct cs_err *err)
{
    char at[512];
    const char *inner = (*family)->inner, *wanted = (*family)->inner_type;
    const json_t *value = json_object_get(config->json, inner);
    cs_model_at(config, at);
    if (!json_is_object(value))
        return cs_fail(err, CS_INVALID, "%smodel_type \"%s\" has no %s object", at,
                       (*family)->model_type, inner);
    const json_t *type = cs_doc_get(value, "model_type", NULL);
    if (type != NULL && !json_is_string(type))
        return cs_fail(err, CS_INVALID, "%s%s.model_type is not a string", at, inner);
    if (type != NULL && strcmp(json_string_value(type), wanted) != 0)
        return cs_fail(err, CS_UNSUPPORTED, "%s%s.model_type \"%.64s\" is not \"%s\"", at, inner,
                       json_string_value(type), wanted);
    config->where =
        cs_arena_printf(arena, "%s%s%s", config->where, config->where[0] != '\0' ? "." : "", inner);
    config->json = value;
    CS_TRY(find_family(config, wanted, family, err));
    return review(config, *family, err);
}

enum cs_status cs_arch_read(const struct cs_config_source *source, struct cs_arena *arena,
                            struct cs_arch *out, struct cs_err *err)
{
    const struct cs_family *family = NULL;
    struct cs_config_source config = *source;
    char at[512];
    cs_model_at(&config, at);
    if (!json_is_object(config.json))
        return cs_fail(err, CS_INVALID, "%sthe config is not a JSON object", at);
    const json_t *type = json_object_get(config.json, "model_type");
    if (!json_is_string(type))
        return cs_fail(err, CS_INVALID,
                       "%smodel_type is missing; without it a config.json has no defaults", at);
    CS_TRY(find_family(&config, json_string_value(type), &family, err));
    CS_TRY(review(&config, family, err));
    if (family->inner != NULL)
        CS_TRY(open_inner(&config, &family, arena, err));
    *out = family->base;
    CS_TRY(cs_model_fill(&config, family->table, family->model_type, out, err));
    if (!(out->embed_scale > 0))
        out->embed_scale = (float)sqrt((double)out->width);
    if (out->kind == CS_MODULE_ENCODER)
        CS_TRY(cs_front_finish(&config, family, out, err));
    CS_TRY(cs_attention_kinds(&config, family, arena, out, err));
    if (out->kind == CS_MODULE_ENCODER)
        CS_TRY(cs_front_blocks(&config, family, arena, out, err));
    CS_TRY(cs_experts_read(&config, arena, out, err));
    return check_shape(&config, out, err);
}

enum cs_status cs_arch_from_config(const json_t *config, struct cs_arena *arena,
                                   struct cs_arch *out, struct cs_err *err)
{
    return cs_arch_read(&(struct cs_config_source){"config.json", "", config, NULL}, arena, out,
                        err);
}
