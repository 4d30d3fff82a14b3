/* config.json of the result of a conversion, and of the processor where the other layout has its own. */
#include <string.h>

#include "core/arch/read/config.h"
#include "core/doc/doc.h"
#include "store/convert/parts.h"

/* A key of both layouts of InternVL, where they differ in its name alone. */
static const struct {
    const char *chat, *plain;
} same_keys[] = {
    {"llm_config",          "text_config"         },
    {"select_layer",        "vision_feature_layer"},
    {"downsample_ratio",    "downsample_ratio"    },
    {"tie_word_embeddings", "tie_word_embeddings" },
    {"dtype",               "dtype"               },
    {"torch_dtype",         "torch_dtype"         },
};

static const char *kind_of_norm(const struct cs_arch *tower)
{
    return tower->norm == CS_ARCH_RMS_NORM ? "rms_norm" : "layer_norm";
}

/* What both say of the tower, every key with its value: defaults of the classes differ. */
static json_t *tower_config(const struct cs_arch *tower, bool is_chat)
{
    const bool is_normed = tower->qk_norm != CS_QK_NORM_NONE;
    json_t *out = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:s, s:f, s:b, s:b, s:f}", "model_type",
        is_chat ? "intern_vit_6b" : "internvl_vision", "hidden_size", (int)tower->width,
        "intermediate_size", (int)tower->ffn_width, "num_hidden_layers", (int)tower->n_layers,
        "num_attention_heads", (int)tower->attention[0].n_heads, "num_channels",
        (int)tower->channels, "hidden_act", cs_act_word(tower->act), "layer_norm_eps",
        (double)tower->norm_eps, "norm_type", kind_of_norm(tower), "initializer_range",
        (double)tower->initializer_range, is_chat ? "qkv_bias" : "attention_bias",
        (int)tower->has_qkv_bias, is_chat ? "qk_normalization" : "use_qk_norm", (int)is_normed,
        "attention_dropout", 0.0);
    json_t *rest =
        is_chat
            ? json_pack("{s:i, s:i, s:f, s:f, s:[s]}", "image_size", (int)tower->image_size,
                        "patch_size", (int)tower->patch_size, "drop_path_rate", 0.0, "dropout", 0.0,
                        "architectures", "InternVisionModel")
            : json_pack("{s:[i,i], s:[i,i], s:b, s:s, s:[s]}", "image_size", (int)tower->image_size,
                        (int)tower->image_size, "patch_size", (int)tower->patch_size,
                        (int)tower->patch_size, "use_mean_pooling", 1, "hidden_act",
                        cs_act_word(tower->act), "architectures", "InternVLVisionModel");
    json_object_update_new(out, rest);
    return out;
}

static json_t *processor_value(const struct cs_conversion *c, const char *key)
{
    return json_object_get(cs_hfdir_processor(c->part[CS_MODULE_ENCODER]), key);
}

/* How pictures are cut goes where the other layout says it. */
static void add_tiles(const struct cs_conversion *c, const struct cs_arch *tower, json_t *root)
{
    static const struct {
        const char *theirs, *ours;
    } counts[] = {
        {"min_dynamic_patch", "min_patches"},
        {"max_dynamic_patch", "max_patches"},
    };

    const json_t *side = json_object_get(processor_value(c, "size"), "height");
    json_object_set_new(root, "force_image_size",
                        json_integer(side ? json_integer_value(side) : tower->image_size));
    json_object_set_new(root, "dynamic_image_size",
                        json_boolean(!json_is_false(processor_value(c, "crop_to_patches"))));
    for (size_t i = 0; i < CS_ARRAY_LEN(counts); i++)
        if (processor_value(c, counts[i].ours))
            json_object_set(root, counts[i].theirs, processor_value(c, counts[i].ours));
    json_object_update_new(root, json_pack("{s:s, s:b, s:b, s:i, s:i, s:s}", "ps_version", "v2",
                                           "pad2square", 0, "use_thumbnail", 1, "use_backbone_lora",
                                           0, "use_llm_lora", 0, "template", "internvl2_5"));
}

static enum cs_status other_root(struct cs_conversion *c, bool is_chat, json_t *out)
{
    struct cs_arch tower;
    const json_t *root = cs_hfdir_root_config(c->part[CS_MODULE_ENCODER]);
    const struct cs_composite *saved = cs_hfdir_composite(c->part[CS_MODULE_ENCODER]);
    CS_TRY(cs_hfdir_arch(c->part[CS_MODULE_ENCODER], NULL, c->arena, &tower, c->err));
    json_object_set_new(out, "model_type", json_string(c->to->model_type));
    json_object_set_new(out, "architectures", json_pack("[s]", c->to->class_name));
    json_object_set_new(out, "image_token_id", json_integer((json_int_t)saved->image_token));
    for (size_t i = 0; i < CS_ARRAY_LEN(same_keys); i++) {
        const char *from = is_chat ? same_keys[i].plain : same_keys[i].chat;
        json_t *value = json_object_get(root, from);
        if (value)
            json_object_set(out, is_chat ? same_keys[i].chat : same_keys[i].plain, value);
    }
    json_object_set_new(out, "vision_config", tower_config(&tower, is_chat));
    json_object_set_new(out, is_chat ? "select_layer" : "vision_feature_layer",
                        json_integer(saved->feature_layer));
    if (is_chat) {
        add_tiles(c, &tower, out);
        return CS_OK;
    }
    json_object_set_new(out, "vision_feature_select_strategy", json_string("default"));
    json_object_set_new(out, "projector_hidden_act", json_string("gelu"));
    return CS_OK;
}

/* The colours for those who read them; the rest stands in config.json. */
static json_t *chat_processor(const struct cs_conversion *c)
{
    const json_t *side = json_object_get(processor_value(c, "size"), "height");
    return json_pack("{s:s, s:b, s:b, s:b, s:i, s:O*, s:O*, s:O*, s:O*}", "feature_extractor_type",
                     "CLIPFeatureExtractor", "do_center_crop", 1, "do_normalize", 1, "do_resize", 1,
                     "resample", 3, "crop_size", side, "size", side, "image_mean",
                     processor_value(c, "image_mean"), "image_std",
                     processor_value(c, "image_std"));
}

static enum cs_status put_processor(const struct cs_conversion *c, bool is_chat)
{
    char path[CS_PATH_CAP];
    const json_t *processor = cs_hfdir_processor(c->part[CS_MODULE_ENCODER]);
    if (!json_is_object(processor))
        return CS_OK;
    json_t *made = is_chat ? chat_processor(c) : json_deep_copy(processor);
    if (made && !is_chat)
        json_object_set_new(made, "processor_class", json_string("InternVLProcessor"));
    CS_TRY(cs_path(path, c->err, "%s/preprocessor_config.json", c->root));
    const enum cs_status status =
        made ? cs_fs_write_json(path, made, NULL, NULL, c->err)
             : cs_fail(c->err, CS_NO_MEMORY, "no memory for the processor");
    json_decref(made);
    return status;
}

static void set_dtype(const struct cs_conversion *c)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    const char *dtype = c->asked->dtype;
    if (!dtype)
        return;
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        if (i == 0 || json_object_get(c->config, keys[i]))
            json_object_set_new(c->config, keys[i], json_string(dtype));
}

enum cs_status cs_convert_config(struct cs_conversion *c)
{
    char path[CS_PATH_CAP];
    const struct cs_hfdir *any = NULL;
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        any = c->part[kind] ? c->part[kind] : any;
    const bool is_other = c->from != c->to;
    const bool is_chat = is_other && strcmp(c->to->model_type, "internvl_chat") == 0;
    c->config = is_other ? json_object() : json_deep_copy(cs_hfdir_root_config(any));
    if (!c->config)
        return cs_fail(c->err, CS_NO_MEMORY, "no memory for the configuration");
    if (is_other)
        CS_TRY(other_root(c, is_chat, c->config));
    if (is_other)
        CS_TRY(put_processor(c, is_chat));
    set_dtype(c);
    CS_TRY(cs_path(path, c->err, "%s/config.json", c->root));
    return cs_fs_write_json(path, c->config, NULL, NULL, c->err);
}
