/* Encoders of sounds. Sources: configuration_{whisper,qwen2_audio,voxtral}.py and the state dicts of
 * transformers. */
#include "core/arch/families/family_rows.h"

#define NO_DROPOUT                                                                                 \
    REFUSED("dropout|attention_dropout|activation_dropout|encoder_layerdrop|layerdrop", NUMBER,    \
            "0", "dropout is not supported")
#define SOUND(mels)                                                                                \
    SAME("", KV_HEADS, HEADS, 1, MAX_HEADS), PER_HEAD(""),                                         \
        INT("num_mel_bins", channels, mels, 1, 4096),                                              \
        INT("max_source_positions", front.position_rows, 1500, 1, 1 << 20),                        \
        ACT("activation_function", CS_ARCH_GELU), EPS("", norm_eps, 1e-5), NO_DROPOUT

static const struct cs_config_key whisper_keys[] = {
    INT("d_model", width, 384, 1, MAX_WIDTH),
    INT("encoder_ffn_dim", ffn_width, 1536, 1, MAX_WIDTH),
    INT("encoder_layers", n_layers, 4, 1, MAX_LAYERS),
    INT("encoder_attention_heads", HEADS, 6, 1, MAX_HEADS),
    SOUND(80),
    FLOAT("init_std", initializer_range, 0.02, 0, 10),
    REFUSED("apply_spec_augment", BOOL, "false", "masking features at random is not supported"),
    /* of the decoder, and of what is masked where that is asked for */
    HARMLESS("vocab_size|decoder_layers|decoder_attention_heads|decoder_ffn_dim|decoder_layerdrop|"
             "scale_embedding|"
             "max_target_positions|num_hidden_layers|pad_token_id|bos_token_id|eos_token_id|use_"
             "weighted_layer_sum|"
             "classifier_proj_size|mask_time_prob|mask_time_length|mask_time_min_masks|mask_"
             "feature_prob|"
             "mask_feature_length|mask_feature_min_masks|median_filter_width|tie_word_embeddings|"
             "alignment_heads"),
};
static const struct cs_config_key qwen2_audio_keys[] = {
    INT("d_model", width, 1280, 1, MAX_WIDTH),
    INT("encoder_ffn_dim", ffn_width, 5120, 1, MAX_WIDTH),
    INT("encoder_layers", n_layers, 32, 1, MAX_LAYERS),
    INT("encoder_attention_heads", HEADS, 20, 1, MAX_HEADS),
    SOUND(128),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
    HARMLESS("init_std|scale_embedding|num_hidden_layers"),
};
static const struct cs_config_key voxtral_keys[] = {
    INT("hidden_size", width, 1280, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 5120, 1, MAX_WIDTH),
    INT("num_hidden_layers", n_layers, 32, 1, MAX_LAYERS),
    INT("num_attention_heads", HEADS, 20, 1, MAX_HEADS),
    SOUND(128),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
    HARMLESS("vocab_size|scale_embedding"),
};

static const struct cs_doc_table whisper_table = CS_DOC_TABLE(whisper_keys, &cs_model_common);
static const struct cs_doc_table qwen2_audio_table =
    CS_DOC_TABLE(qwen2_audio_keys, &cs_model_common);
static const struct cs_doc_table voxtral_table = CS_DOC_TABLE(voxtral_keys, &cs_model_common);

#define TOWER                                                                                      \
    .kind = CS_MODULE_ENCODER, .norm = CS_ARCH_LAYER_NORM, .embed_scale = 1, .has_qkv_bias = true, \
    .has_o_bias = true, .has_mlp_bias = true, .has_final_norm = true

/* clang-format off */
static const struct cs_family families[] = {
    {.model_type = "whisper", .table = &whisper_table, .tail = "N",
     .base = {TOWER, .family = "whisper", .front = {.stem = CS_STEM_FRAMES, .position = CS_POSITION_ROW}}},
    {.model_type = "qwen2_audio_encoder", .table = &qwen2_audio_table, .tail = "MN",
     .base = {TOWER, .family = "qwen2_audio_encoder", .front = {.stem = CS_STEM_FRAMES, .position = CS_POSITION_ROW, .pool = 2}}},
    {.model_type = "voxtral_encoder", .table = &voxtral_table, .tail = "N",
     .base = {TOWER, .family = "voxtral_encoder", .front = {.stem = CS_STEM_FRAMES, .position = CS_POSITION_ROW}}},
};

#define WB(role, kind, name, out, ...)                                                             \
    T(role##_W, kind, name ".weight", ALWAYS, out, __VA_ARGS__), T(role##_B, kind, name ".bias", ALWAYS, out)
#define NORM(role, kind, name) T(role##_W, kind, name ".weight", ALWAYS, H), T(role##_B, kind, name ".bias", ALWAYS, H)

static const struct cs_tensor_row whisper_rows[] = {
    P(PATCH_W, 0, EMBED, "conv1.weight", ALWAYS, H, CS_DIM_CHANNELS, CS_DIM_THREE),
    P(PATCH_B, 0, EMBED, "conv1.bias", ALWAYS, H),
    P(PATCH_W, 1, EMBED, "conv2.weight", ALWAYS, H, H, CS_DIM_THREE),
    P(PATCH_B, 1, EMBED, "conv2.bias", ALWAYS, H),
    FIXED(POSITION, EMBED, "embed_positions.weight", ALWAYS, CS_DIM_POSITIONS, H),
    NORM(NORM1, BLOCK, "layers.%d.self_attn_layer_norm"),
    WB(Q, BLOCK, "layers.%d.self_attn.q_proj", QD, H),
    T(K_W, BLOCK, "layers.%d.self_attn.k_proj.weight", ALWAYS, KVD, H), /* without a bias */
    WB(V, BLOCK, "layers.%d.self_attn.v_proj", KVD, H),
    WB(O, BLOCK, "layers.%d.self_attn.out_proj", H, QD),
    NORM(NORM2, BLOCK, "layers.%d.final_layer_norm"),
    WB(UP, BLOCK, "layers.%d.fc1", FFN, H),
    WB(DOWN, BLOCK, "layers.%d.fc2", H, FFN),
    T(NORM_W, NORM, "layer_norm.weight", FINAL_NORM, H), T(NORM_B, NORM, "layer_norm.bias", FINAL_NORM, H),
};

/* of the same tensors; how sounds are cut and counted goes by the family */
static const struct cs_tensor_table tables[] = {
    {"whisper", "model.encoder.", whisper_rows, COUNT(whisper_rows)},
    {"qwen2_audio_encoder", "model.encoder.", whisper_rows, COUNT(whisper_rows)},
    {"voxtral_encoder", "model.encoder.", whisper_rows, COUNT(whisper_rows)},
};

/* clang-format on */

const struct cs_family_set cs_families_audio = {families, COUNT(families), tables, COUNT(tables)};
