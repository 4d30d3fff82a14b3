/* The table of composite models. Sources: configuration_*.py of transformers 5.17; names of tensors are
 * those that its versions write and those of the classes in memory. */
#include <string.h>

#include "core/arch/read/composite.h"
#include "core/arch/read/config.h"

/* clang-format off */
#define OBJECT(name)         {.names = name, .types = CS_DOC_OBJECT}
#define TOKEN(names_)        {.names = names_, .types = CS_DOC_INT, .min = 0, .max = 1 << 24}
#define TIED                 {.names = "tie_word_embeddings", .types = CS_DOC_BOOL}
#define ACTIVATION           {.names = "projector_hidden_act", .types = CS_DOC_STRING, .accept = CS_ACT_WORDS}
#define BIAS                 {.names = "multimodal_projector_bias", .types = CS_DOC_BOOL}
#define FEATURES                                                                                   \
    {.names = "vision_feature_layer", .types = CS_DOC_INT | CS_DOC_LIST, .min = -4096, .max = 4096}, \
    {.names = "vision_feature_select_strategy", .types = CS_DOC_STRING, .accept = "default|full"}
#define COUNT_OF(name)       {.names = name, .types = CS_DOC_INT, .min = 1, .max = 1 << 20}
#define HARMLESS(names_)     {.names = names_, .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS}
#define NONE(name, why)      {.names = name, .types = CS_DOC_ANY, .use = CS_DOC_REFUSED, .only = "null", .text = why}
/* how many rows a picture has follows from the tower; ids of special tokens are the tokenizer's */
#define ROOT_HARMLESS        HARMLESS("image_seq_length|ignore_index|vocab_size|pad_token_id|bos_token_id|eos_token_id|initializer_range|use_cache|hidden_size")

static const struct cs_doc_key llava_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), ACTIVATION, BIAS, FEATURES,
    TOKEN("image_token_id|image_token_index"), TIED, ROOT_HARMLESS,
};
static const struct cs_doc_key onevision_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), ACTIVATION, BIAS, FEATURES,
    TOKEN("image_token_id|image_token_index"), TIED, ROOT_HARMLESS,
    {.names = "vision_aspect_ratio", .types = CS_DOC_STRING},
    {.names = "image_grid_pinpoints", .types = CS_DOC_LIST},
    HARMLESS("video_token_id|video_token_index|use_image_newline_parameter"),
};
static const struct cs_doc_key llava_next_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), ACTIVATION, BIAS, FEATURES,
    TOKEN("image_token_id|image_token_index"), TIED, ROOT_HARMLESS,
    {.names = "image_grid_pinpoints", .types = CS_DOC_LIST},
    HARMLESS("use_image_newline_parameter"),
};
static const struct cs_doc_key qwen_vl_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), TOKEN("image_token_id"), TIED, ROOT_HARMLESS,
    HARMLESS("video_token_id|vision_start_token_id|vision_end_token_id|vision_token_id"),
};
static const struct cs_doc_key gemma3_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), TOKEN("image_token_id|image_token_index"), TIED,
    COUNT_OF("mm_tokens_per_image"), ROOT_HARMLESS,
    HARMLESS("boi_token_index|eoi_token_index|boi_token_id|eoi_token_id"),
};
static const struct cs_doc_key gemma4_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), TOKEN("image_token_id"), TIED, ROOT_HARMLESS,
    NONE("audio_config", "the sound tower of Gemma 4 is not supported"),
    HARMLESS("boi_token_id|eoi_token_id|video_token_id|boa_token_id|eoa_token_index|eoa_token_id|audio_token_id|vision_soft_tokens_per_image"),
};
static const struct cs_doc_key internvl_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), ACTIVATION, FEATURES, TOKEN("image_token_id"), TIED,
    {.names = "downsample_ratio", .types = CS_DOC_POSITIVE, .max = 1}, ROOT_HARMLESS,
};
/* as its authors write it; the processor is made of some of it (store/hf/hfprocessor.c) */
static const struct cs_doc_key internvl_chat_keys[] = {
    OBJECT("vision_config"), OBJECT("llm_config"), TIED, TOKEN("image_token_id|img_context_token_id"),
    {.names = "select_layer", .types = CS_DOC_INT, .min = -4096, .max = 4096},
    {.names = "downsample_ratio", .types = CS_DOC_POSITIVE, .max = 1},
    {.names = "ps_version", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"v2\"", .text = "an order of pixels that later versions of the class have given up"},
    {.names = "pad2square", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "false", .text = "pictures that are padded to squares are not supported here"},
    {.names = "use_backbone_lora|use_llm_lora", .types = CS_DOC_INT, .use = CS_DOC_REFUSED, .only = "0", .text = "adapters inside of the files are not supported: merge them first"},
    COUNT_OF("force_image_size"), COUNT_OF("min_dynamic_patch"), COUNT_OF("max_dynamic_patch"),
    {.names = "dynamic_image_size", .types = CS_DOC_BOOL}, {.names = "use_thumbnail", .types = CS_DOC_BOOL},
    ROOT_HARMLESS, HARMLESS("template|system_message|image_fold"),
};
static const struct cs_doc_key mistral3_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), ACTIVATION, BIAS, FEATURES,
    TOKEN("image_token_id|image_token_index"), TIED, COUNT_OF("spatial_merge_size"), ROOT_HARMLESS,
};
static const struct cs_doc_key smolvlm_keys[] = {
    OBJECT("vision_config"), OBJECT("text_config"), TOKEN("image_token_id"), TIED, COUNT_OF("scale_factor"), ROOT_HARMLESS,
};
static const struct cs_doc_key audio_keys[] = {
    OBJECT("audio_config"), OBJECT("text_config"), ACTIVATION, TOKEN("audio_token_id|audio_token_index"), TIED, ROOT_HARMLESS,
};

#define TABLE(name) static const struct cs_doc_table name##_table = CS_DOC_TABLE(name##_keys, &cs_model_common)
TABLE(llava);
TABLE(onevision);
TABLE(llava_next);
TABLE(qwen_vl);
TABLE(gemma3);
TABLE(gemma4);
TABLE(internvl);
TABLE(internvl_chat);
TABLE(mistral3);
TABLE(smolvlm);
TABLE(audio);

#define V CS_MODULE_ENCODER
#define P CS_MODULE_PROJECTOR
#define L CS_MODULE_LLM

/* LLaVA's names: as saved, and as in memory since transformers 4.52. */
#define LLAVA_LLM \
    {L, "language_model.", ""}, {L, "model.language_model.", "model."}, {L, "lm_head.", "lm_head."}
#define LLAVA_PROJECTOR \
    {P, "multi_modal_projector.", ""}, {P, "model.multi_modal_projector.", ""}
static const struct cs_part_name llava_names[] = {
    {V, "vision_tower.", ""}, {V, "model.vision_tower.", ""}, LLAVA_PROJECTOR, LLAVA_LLM,
};
static const struct cs_part_name onevision_names[] = {
    {V, "vision_tower.", ""}, {V, "model.vision_tower.", ""}, LLAVA_PROJECTOR, LLAVA_LLM,
    {P, "image_newline", "image_newline"}, {P, "model.image_newline", "image_newline"},
};
/* 5.17 saves the language model with one "model." more */
static const struct cs_part_name audio_names[] = {
    {V, "audio_tower.", ""}, {V, "model.audio_tower.", ""}, LLAVA_PROJECTOR,
    {L, "language_model.model.model.", "model."}, LLAVA_LLM,
};
static const struct cs_part_name internvl_chat_names[] = {
    {V, "vision_model.", ""}, {L, "language_model.", ""},
    {P, "mlp1.0.", "layer_norm."}, {P, "mlp1.1.", "linear_1."}, {P, "mlp1.3.", "linear_2."},
};
static const struct cs_part_name qwen_vl_names[] = {
    {P, "visual.merger.", ""},                {P, "model.visual.merger.", ""},
    {V, "visual.", ""},                       {V, "model.visual.", ""},
    {L, "model.language_model.", "model."},   {L, "model.", "model."},
    {L, "lm_head.", "lm_head."},
};
static const struct cs_part_name qwen_tower_names[] = {
    {P, "merger.", ""}, {P, "visual.merger.", ""}, {V, "visual.", ""}, {V, "", ""},
};
static const struct cs_part_name gemma4_names[] = {
    {V, "model.vision_tower.", ""},           {P, "model.embed_vision.", ""},
    {L, "model.language_model.", "model."},   {L, "lm_head.", "lm_head."},
};
static const struct cs_part_name smolvlm_names[] = {
    {V, "model.vision_model.", ""},           {P, "model.connector.", ""},
    {L, "model.text_model.", "model."},       {L, "lm_head.", "lm_head."},
};

static const struct cs_part_setting onevision_settings[] = {{"", "newline", 0}};
static const struct cs_part_setting qwen_settings[] = {
    {"vision_config.spatial_merge_size", "merge", 2}, {"vision_config.hidden_act", "activation", 0},
};
static const struct cs_part_setting gemma3_settings[] = {
    {"mm_tokens_per_image", "tokens", 256}, {"vision_config.layer_norm_eps", "norm_eps", 0},
};
static const struct cs_part_setting gemma4_settings[] = {
    {"vision_config.pooling_kernel_size", "pool", 3}, {"vision_config.rms_norm_eps", "norm_eps", 0},
    {"vision_config.standardize", "standardize", 0},
};
static const struct cs_part_setting internvl_settings[] = {{"downsample_ratio", "downsample_ratio", 0.5}};
static const struct cs_part_setting mistral3_settings[] = {
    {"spatial_merge_size", "merge", 2}, {"text_config.rms_norm_eps", "norm_eps", 0},
};
static const struct cs_part_setting smolvlm_settings[] = {{"scale_factor", "merge", 2}};

#define NAMES(a)    .names = a, .n_names = (int)CS_ARRAY_LEN(a)
#define SETTINGS(a) .settings = a, .n_settings = (int)CS_ARRAY_LEN(a)
#define VISION      .encoder_key = "vision_config", .text_key = "text_config", .branch = "vision"
#define AUDIO       .encoder_key = "audio_config", .text_key = "text_config", .branch = "audio"
#define TYPES(a, b) .encoder_type = a, .text_type = b
#define QWEN        VISION, NAMES(qwen_vl_names), SETTINGS(qwen_settings), .table = &qwen_vl_table, .token = "image_token_id", .feature_layer = -1, .has_bias = true

static const char voxtral_text[] =
    "{\"vocab_size\": 131072, \"hidden_size\": 3072, \"intermediate_size\": 8192, \"num_hidden_layers\": 30, \"num_key_value_heads\": 8, "
    "\"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05, \"rope_theta\": 100000000.0, \"head_dim\": 128}";

static const struct cs_composite_family families[] = {
    {.model_type = "llava", TYPES("clip_vision_model", "llama"), .class_name = "LlavaForConditionalGeneration", VISION, NAMES(llava_names), .table = &llava_table, .projector = "mlp",
     .token = "image_token_id|image_token_index", .default_token = 32000, .feature_layer = -2, .drops_class = true, .has_bias = true},
    {.model_type = "llava_next", TYPES("clip_vision_model", "llama"), .class_name = "LlavaNextForConditionalGeneration", VISION, NAMES(onevision_names), SETTINGS(onevision_settings),
     .table = &llava_next_table, .projector = "mlp", .token = "image_token_id|image_token_index", .default_token = 32000, .feature_layer = -2, .drops_class = true, .has_bias = true},
    {.model_type = "llava_onevision", TYPES("siglip_vision_model", "qwen2"), .class_name = "LlavaOnevisionForConditionalGeneration", VISION, NAMES(onevision_names), SETTINGS(onevision_settings),
     .table = &onevision_table, .projector = "mlp", .token = "image_token_id|image_token_index", .default_token = 151646, .feature_layer = -1, .has_bias = true},
    {.model_type = "qwen2_vl", TYPES("qwen2_vl_vision", "qwen2_vl_text"), .is_flat = true, .class_name = "Qwen2VLForConditionalGeneration", QWEN, .projector = "qwen2_vl_merger", .default_token = 151655},
    {.model_type = "qwen2_5_vl", TYPES("qwen2_5_vl_vision", "qwen2_5_vl_text"), .is_flat = true, .class_name = "Qwen2_5_VLForConditionalGeneration", QWEN, .projector = "qwen2_5_vl_merger", .default_token = 151655},
    {.model_type = "qwen3_vl", TYPES("qwen3_vl_vision", "qwen3_vl_text"), .class_name = "Qwen3VLForConditionalGeneration", QWEN, .projector = "qwen3_vl_merger", .default_token = 151655},
    {.model_type = "qwen3_vl_moe", TYPES("qwen3_vl_moe_vision", "qwen3_vl_moe_text"), .class_name = "Qwen3VLMoeForConditionalGeneration", QWEN, .projector = "qwen3_vl_merger", .default_token = 151655},
    {.model_type = "qwen3_5", TYPES("qwen3_5_vision", "qwen3_5_text"), .class_name = "Qwen3_5ForConditionalGeneration", QWEN, .projector = "qwen3_vl_merger", .default_token = 248056},
    {.model_type = "gemma3", TYPES("siglip_vision_model", "gemma3_text"), .class_name = "Gemma3ForConditionalGeneration", VISION, NAMES(llava_names), SETTINGS(gemma3_settings), .table = &gemma3_table,
     .projector = "gemma3_projector", .mask = "image_bidir", .token = "image_token_id|image_token_index", .default_token = 262144, .has_final_norm = true, .is_tied = true},
    {.model_type = "gemma4", TYPES("gemma4_vision", "gemma4_text"), .has_cap = true, .class_name = "Gemma4ForConditionalGeneration", VISION, NAMES(gemma4_names), SETTINGS(gemma4_settings), .table = &gemma4_table,
     .projector = "gemma4_projector", .mask = "image_window", .mask_key = "use_bidirectional_attention", .token = "image_token_id", .default_token = 258880, .has_final_norm = true, .is_tied = true},
    {.model_type = "internvl", TYPES("internvl_vision", "qwen2"), .class_name = "InternVLForConditionalGeneration", VISION, NAMES(llava_names), SETTINGS(internvl_settings), .table = &internvl_table,
     .projector = "internvl_projector", .token = "image_token_id", .default_token = 151667, .feature_layer = -1, .drops_class = true, .has_bias = true, .is_tied = true},
    {.model_type = "internvl_chat", .class_name = "InternVLChatModel", .encoder_key = "vision_config", .text_key = "llm_config", .branch = "vision",
     NAMES(internvl_chat_names), SETTINGS(internvl_settings), .table = &internvl_chat_table, .projector = "internvl_projector", .token = "image_token_id|img_context_token_id",
     .default_token = 151667, .feature_layer = -1, .drops_class = true, .has_bias = true, .must_say = "ps_version"},
    {.model_type = "mistral3", TYPES("pixtral", "mistral"), .class_name = "Mistral3ForConditionalGeneration", VISION, NAMES(llava_names), SETTINGS(mistral3_settings), .table = &mistral3_table,
     .projector = "mistral3_projector", .token = "image_token_id|image_token_index", .default_token = 10, .feature_layer = -1, .is_tied = true},
    {.model_type = "smolvlm", TYPES("smolvlm_vision", "llama"), .class_name = "SmolVLMForConditionalGeneration", VISION, NAMES(smolvlm_names), SETTINGS(smolvlm_settings), .table = &smolvlm_table,
     .projector = "smolvlm_connector", .token = "image_token_id", .default_token = 128257, .has_final_norm = true},
    {.model_type = "idefics3", TYPES("idefics3_vision", "llama"), .class_name = "Idefics3ForConditionalGeneration", VISION, NAMES(smolvlm_names), SETTINGS(smolvlm_settings), .table = &smolvlm_table,
     .projector = "smolvlm_connector", .token = "image_token_id", .default_token = 128257, .has_final_norm = true},
    {.model_type = "qwen2_audio", TYPES("qwen2_audio_encoder", "qwen2"), .class_name = "Qwen2AudioForConditionalGeneration", AUDIO, NAMES(audio_names), .table = &audio_table,
     .projector = "linear", .token = "audio_token_id|audio_token_index", .default_token = 151646, .has_final_norm = true, .has_bias = true},
    {.model_type = "voxtral", TYPES("voxtral_encoder", "llama"), .text_unsaid = voxtral_text, .class_name = "VoxtralForConditionalGeneration", AUDIO, NAMES(audio_names), .table = &audio_table,
     .projector = "voxtral_projector", .token = "audio_token_id|audio_token_index", .default_token = 24, .has_final_norm = true},
    /* towers that are saved with their projector */
    {.model_type = "qwen2_vl_vision", .class_name = "Qwen2VisionTransformerPretrainedModel", .encoder_key = "", .branch = "vision", NAMES(qwen_tower_names),
     SETTINGS(qwen_settings), .projector = "qwen2_vl_merger", .token = "", .default_token = -1, .feature_layer = -1, .has_bias = true},
    {.model_type = "qwen2_5_vl_vision", .class_name = "Qwen2_5_VisionTransformerPretrainedModel", .encoder_key = "", .branch = "vision", NAMES(qwen_tower_names),
     SETTINGS(qwen_settings), .projector = "qwen2_5_vl_merger", .token = "", .default_token = -1, .feature_layer = -1, .has_bias = true},
    {.model_type = "qwen3_vl_vision", .class_name = "Qwen3VLVisionModel", .encoder_key = "", .branch = "vision", NAMES(qwen_tower_names),
     SETTINGS(qwen_settings), .projector = "qwen3_vl_merger", .token = "", .default_token = -1, .feature_layer = -1, .has_bias = true},
};

/* clang-format on */

const struct cs_composite_family *cs_composite_families(int *n)
{
    *n = (int)CS_ARRAY_LEN(families);
    return families;
}

const struct cs_composite_family *cs_composite_of(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    for (size_t i = 0; type != NULL && i < CS_ARRAY_LEN(families); i++)
        if (strcmp(families[i].model_type, type) == 0)
            return &families[i];
    return NULL;
}
