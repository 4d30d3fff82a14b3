/* Reads the root of a llava config.json; see composite.h. */
#include "core/arch/composite.h"

#include <stdio.h>
#include <string.h>

#include "core/arch/config.h"

/* clang-format off */
static const struct cs_doc_key keys[] = {
    {.names = "vision_config", .types = CS_DOC_OBJECT},
    {.names = "text_config", .types = CS_DOC_OBJECT},
    {.names = "projector_hidden_act", .types = CS_DOC_STRING, .accept = CS_ACT_WORDS},
    {.names = "multimodal_projector_bias", .types = CS_DOC_BOOL},
    {.names = "vision_feature_layer", .types = CS_DOC_INT | CS_DOC_LIST, .min = -4096, .max = 4096},
    {.names = "vision_feature_select_strategy", .types = CS_DOC_STRING, .accept = "default|full"},
    {.names = "image_token_id|image_token_index", .types = CS_DOC_INT, .min = 0, .max = 1 << 24},
    {.names = "tie_word_embeddings", .types = CS_DOC_BOOL},
    /* how many rows a picture has follows from the vision_config; ids of special tokens are the tokenizer's */
    {.names = "image_seq_length|ignore_index|vocab_size|pad_token_id|bos_token_id|eos_token_id|initializer_range", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
};
/* clang-format on */
static const struct cs_doc_table table = CS_DOC_TABLE(keys, &cs_model_common);

const struct cs_doc_table *cs_composite_keys(void)
{
    return &table;
}

bool cs_composite_is(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return type != NULL && strcmp(type, "llava") == 0;
}

/* The value under one of the spellings, or NULL after saying what LlavaConfig takes. */
static const json_t *look_up(const struct cs_config_source *config, const char *names,
                             const char *fallback)
{
    char name[CS_DOC_NAME];
    const json_t *value = cs_doc_get(config->json, names, name);
    if (value == NULL)
        cs_model_say_default(config, name, fallback, "the default of llava");
    return value;
}

/* What the encoder's features must be. The class default drops a row, so that the key must be there. */
static enum cs_status check_features(const struct cs_config_source *config, struct cs_err *err)
{
    char at[512], shown[CS_DOC_SHOWN];
    const json_t *layer = cs_doc_get(config->json, "vision_feature_layer", NULL);
    const json_t *strategy = cs_doc_get(config->json, "vision_feature_select_strategy", NULL);
    cs_model_at(config, at);
    if (json_is_array(layer))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%svision_feature_layer is %s: features of several layers side by side are "
                       "not supported",
                       at, cs_doc_show(layer, shown));
    if (strategy != NULL && strcmp(json_string_value(strategy), "full") == 0)
        return CS_OK;
    return cs_fail(err, CS_UNSUPPORTED,
                   "%svision_feature_select_strategy is %s: that drops the first row of every "
                   "picture, which belongs to an encoder with a class token; supported: \"full\"",
                   at, strategy != NULL ? "\"default\"" : "not given, which means \"default\"");
}

static bool is_tied(const json_t *root)
{
    static const char key[] = "tie_word_embeddings";
    return json_is_true(json_object_get(root, key)) ||
           json_is_true(json_object_get(json_object_get(root, "text_config"), key));
}

enum cs_status cs_composite_read(const struct cs_config_source *config, bool with_features,
                                 struct cs_composite *out, struct cs_err *err)
{
    CS_TRY(cs_doc_review(&(struct cs_doc){.name = config->document,
                                          .where = config->where,
                                          .json = config->json,
                                          .table = &table},
                         config->findings, err));
    if (with_features)
        CS_TRY(check_features(config, err));
    const json_t *act = look_up(config, "projector_hidden_act", "gelu");
    const json_t *bias = look_up(config, "multimodal_projector_bias", "true");
    const json_t *layer = look_up(config, "vision_feature_layer", "-2");
    const json_t *token = look_up(config, "image_token_id|image_token_index", "32000");
    *out = (struct cs_composite){
        .activation =
            cs_act_word(act != NULL ? cs_act_named(json_string_value(act)) : CS_ARCH_GELU),
        .has_bias = bias == NULL || json_is_true(bias),
        .feature_layer = layer != NULL ? (int32_t)json_integer_value(layer) : -2,
        .image_token = token != NULL ? json_integer_value(token) : 32000,
        .is_tied = is_tied(config->json),
    };
    return CS_OK;
}
