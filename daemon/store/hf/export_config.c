/* Configurations of exported directories: copied keys stay, only what changed is edited. */
#include <stdio.h>
#include <string.h>

#include "core/arch/read/config.h"
#include "store/hf/export_parts.h"

static const struct {
    const char *family, *model_type, *class_name;
} classes[] = {
    {"siglip", "siglip_vision_model", "SiglipVisionModel"},
    {"clip",   "clip_vision_model",   "CLIPVisionModel"  },
    {"llama",  "llama",               "LlamaForCausalLM" },
    {"qwen2",  "qwen2",               "Qwen2ForCausalLM" },
};

void cs_export_set_dtype(json_t *config, const char *dtype)
{
    json_object_set_new(config, "dtype", json_string(dtype));
    if (json_object_get(config, "torch_dtype")) /* the spelling of transformers 4 */
        json_object_set_new(config, "torch_dtype", json_string(dtype));
}

static bool has_pool(const struct cs_export_part *part)
{
    for (int i = 0; i < part->n_tensors; i++)
        if (strncmp(cs_export_plain_name(part->module, part->tensor[i].name), "head.", 5) == 0)
            return true;
    return false;
}

/* encoder or llm: the source's own, of a composite ("siglip") the vision half */
static json_t *copied_config(const struct cs_export_part *part)
{
    const struct cs_module *module = part->module;
    const json_t *from = module->spec->config;
    const json_t *inner = json_object_get(from, "vision_config");
    if (module->kind == CS_MODULE_ENCODER && json_is_object(inner))
        from = inner;
    json_t *config = from ? json_deep_copy(from) : NULL;
    for (size_t i = 0; config && i < CS_ARRAY_LEN(classes); i++) {
        if (strcmp(classes[i].family, module->arch.family) != 0)
            continue;
        if (module->kind == CS_MODULE_ENCODER || !json_object_get(config, "architectures"))
            json_object_set_new(config, "architectures", json_pack("[s]", classes[i].class_name));
        if (module->kind == CS_MODULE_ENCODER)
            json_object_set_new(config, "model_type", json_string(classes[i].model_type));
    }
    if (config && strcmp(module->arch.family, "siglip") == 0 && !has_pool(part))
        json_object_set_new(config, "vision_use_head", json_false());
    return config;
}

/* with the state of the encoder that it was trained on, so that who reads it gives it the same */
static json_t *projector_config(const struct cs_export *ex, const struct cs_export_part *part)
{
    json_t *config = cs_projector_config(&part->module->arch);
    for (int i = 0; config && i < ex->graph->n_modules; i++) {
        const struct cs_module *encoder = &ex->graph->modules[i];
        if (encoder->kind != CS_MODULE_ENCODER || encoder->branch != part->module->branch)
            continue;
        if (encoder->spec->has_feature_layer)
            json_object_set_new(config, "feature_layer",
                                json_integer(encoder->spec->feature_layer));
        else
            json_object_set_new(config, "final_norm", json_true());
    }
    return config;
}

enum cs_status cs_export_config(const struct cs_export *ex, struct cs_export_part *part)
{
    part->config = part->module->kind == CS_MODULE_PROJECTOR ? projector_config(ex, part)
                                                             : copied_config(part);
    if (!part->config)
        return cs_fail(ex->err, CS_INVALID, "module %s has no configuration to export",
                       part->module->name);
    cs_export_set_dtype(part->config, ex->dtype_name);
    return CS_OK;
}

/* CLS rows of an encoder that has one are dropped by "default" and kept by "full" */
static bool has_cls(const struct cs_export_part *vision)
{
    return strcmp(vision->module->arch.family, "clip") == 0;
}

static const char *strategy(const struct cs_export_part *vision)
{
    return has_cls(vision) ? "default" : "full";
}

static json_t *nested(const json_t *config)
{
    static const char *const outer_only[] = {"architectures", "dtype", "torch_dtype",
                                             "transformers_version", "_name_or_path"};
    json_t *copy = json_deep_copy(config);
    for (size_t i = 0; i < CS_ARRAY_LEN(outer_only); i++)
        json_object_del(copy, outer_only[i]);
    return copy;
}

json_t *cs_export_llava_config(const struct cs_export *ex, const struct cs_export_part *vision,
                               const struct cs_export_part *projector,
                               const struct cs_export_part *llm, int64_t image_token)
{
    bool is_tied = llm->module->arch.is_tied;
    json_t *text = nested(llm->config);
    json_object_set_new(text, "tie_word_embeddings", json_boolean(is_tied));
    json_t *config = json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:i, s:b, s:s, s:b, s:i, s:s, s:o, s:o}", "architectures",
        "LlavaForConditionalGeneration", "model_type", "llava", "dtype", ex->dtype_name,
        "image_token_index", (json_int_t)image_token, "image_token_id", (json_int_t)image_token,
        "image_seq_length", (int)cs_arch_item_rows(&vision->module->arch),
        "multimodal_projector_bias", (int)projector->module->arch.has_mlp_bias,
        "projector_hidden_act", cs_act_word(projector->module->arch.act), "tie_word_embeddings",
        (int)is_tied, "vision_feature_layer", (int)vision->module->spec->feature_layer,
        "vision_feature_select_strategy", strategy(vision), "vision_config", nested(vision->config),
        "text_config", text);
    const json_t *version = json_object_get(llm->config, "transformers_version");
    if (config && version) /* tells which spelling of the keys above was meant */
        json_object_set(config, "transformers_version", (json_t *)(uintptr_t)version);
    return config;
}

json_t *cs_export_llava_processor(const struct cs_export_part *vision)
{
    return json_pack("{s:s, s:i, s:s, s:i, s:s}", "processor_class", "LlavaProcessor", "patch_size",
                     (int)vision->module->arch.patch_size, "vision_feature_select_strategy",
                     strategy(vision), "num_additional_image_tokens", (int)has_cls(vision),
                     "image_token", vision->module->spec->token);
}

const char *cs_export_tokenizer_dir(const struct cs_export_part *llm)
{
    const struct cs_spec_module *spec = llm->module->spec;
    if (spec->tokenizer && *spec->tokenizer)
        return spec->tokenizer;
    return spec->dir ? spec->dir : "";
}

static int64_t id_in_tokenizer(const json_t *root, const char *token)
{
    const json_t *added = json_object_get(root, "added_tokens"), *entry;
    size_t i;
    json_array_foreach(added, i, entry)
    {
        const char *content = json_string_value(json_object_get(entry, "content"));
        if (content && strcmp(content, token) == 0 && json_is_integer(json_object_get(entry, "id")))
            return json_integer_value(json_object_get(entry, "id"));
    }
    const json_t *id =
        json_object_get(json_object_get(json_object_get(root, "model"), "vocab"), token);
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

static int64_t id_in_composite(const struct cs_hfdir *dir)
{
    static const char *const keys[] = {"image_token_id", "image_token_index"};
    const json_t *root = dir ? cs_hfdir_root_config(dir) : NULL;
    const char *type = json_string_value(json_object_get(root, "model_type"));
    for (size_t i = 0; type && strcmp(type, "llava") == 0 && i < CS_ARRAY_LEN(keys); i++)
        if (json_is_integer(json_object_get(root, keys[i])))
            return json_integer_value(json_object_get(root, keys[i]));
    return -1;
}

enum cs_status cs_export_image_token(const struct cs_export_part *vision,
                                     const struct cs_export_part *llm, int64_t *id,
                                     struct cs_err *err)
{
    char path[CS_PATH_CAP];
    json_t *tokenizer = NULL;
    const char *token = vision->module->spec->token;
    *id = -1;
    CS_TRY(cs_path(path, err, "%s/tokenizer.json", cs_export_tokenizer_dir(llm)));
    if (cs_fs_exists(path)) {
        CS_TRY(cs_fs_read_json(path, &tokenizer, err));
        if (token)
            *id = id_in_tokenizer(tokenizer, token);
        json_decref(tokenizer);
        return CS_OK;
    }
    *id = id_in_composite(llm->dir);
    if (*id < 0)
        *id = id_in_composite(vision->dir);
    return CS_OK;
}
