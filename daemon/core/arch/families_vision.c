/* Encoders of pictures. Sources: configuration_siglip.py and the state dicts of transformers. */
#include "core/arch/family_rows.h"

static const struct cs_config_key siglip_keys[] = {
    INT("hidden_size", width, 768, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 3072, 1, MAX_WIDTH),
    INT("num_hidden_layers", n_layers, 12, 1, MAX_LAYERS),
    INT("num_attention_heads", HEADS, 12, 1, MAX_HEADS),
    SAME("", KV_HEADS, HEADS, 1, MAX_HEADS),
    PER_HEAD(""),
    INT("num_channels", channels, 3, 1, 64),
    INT("image_size", image_size, 224, 1, MAX_PIXELS),
    INT("patch_size", patch_size, 16, 1, MAX_PIXELS),
    ACT("hidden_act", CS_ARCH_GELU_TANH),
    EPS("layer_norm_eps", norm_eps, 1e-6),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
    REFUSED("attention_dropout", NUMBER, "0", "dropout in attention is not supported"),
    /* the pool of the whole model, whose state no projector is given */
    HARMLESS("vision_use_head|projection_dim|initializer_factor|dropout|logit_scale_init_value|"
             "bos_token_id|eos_token_id|pad_token_id"),
};

/* What a composite of two towers says beside its vision_config. */
static const struct cs_config_key siglip_pair_keys[] = {
    KNOWN(.names = "vision_config", .types = CS_DOC_OBJECT),
    HARMLESS("text_config|initializer_factor|logit_scale_init_value|projection_dim"),
};

static const struct cs_doc_table siglip_table = CS_DOC_TABLE(siglip_keys, &cs_model_common);
static const struct cs_doc_table siglip_pair_table =
    CS_DOC_TABLE(siglip_pair_keys, &cs_model_common);

/* clang-format off */
static const struct cs_family families[] = {
    {
        .model_type = "siglip_vision_model",
        .base = {.kind = CS_MODULE_ENCODER, .family = "siglip", .norm = CS_ARCH_LAYER_NORM, .embed_scale = 1,
                 .has_qkv_bias = true, .has_o_bias = true, .has_mlp_bias = true, .has_patch_bias = true,
                 .has_final_norm = true, .front = {.stem = CS_STEM_PATCHES, .position = CS_POSITION_ROW}},
        .table = &siglip_table,
        .tail = "N",
    },
    {.model_type = "siglip", .inner = "vision_config", .inner_type = "siglip_vision_model", .table = &siglip_pair_table},
};

/* clang-format on */

static const struct cs_tensor_row siglip_rows[] = {
    T(PATCH_W, EMBED, "embeddings.patch_embedding.weight", ALWAYS, H, CS_DIM_CHANNELS, CS_DIM_PATCH,
      CS_DIM_PATCH),
    T(PATCH_B, EMBED, "embeddings.patch_embedding.bias", PATCH_BIAS, H),
    T(POSITION, EMBED, "embeddings.position_embedding.weight", ALWAYS, CS_DIM_POSITIONS, H),
    T(NORM1_W, BLOCK, "encoder.layers.%d.layer_norm1.weight", ALWAYS, H),
    T(NORM1_B, BLOCK, "encoder.layers.%d.layer_norm1.bias", ALWAYS, H),
    T(Q_W, BLOCK, "encoder.layers.%d.self_attn.q_proj.weight", ALWAYS, QD, H),
    T(Q_B, BLOCK, "encoder.layers.%d.self_attn.q_proj.bias", QKV_BIAS, QD),
    T(K_W, BLOCK, "encoder.layers.%d.self_attn.k_proj.weight", ALWAYS, KVD, H),
    T(K_B, BLOCK, "encoder.layers.%d.self_attn.k_proj.bias", QKV_BIAS, KVD),
    T(V_W, BLOCK, "encoder.layers.%d.self_attn.v_proj.weight", ALWAYS, KVD, H),
    T(V_B, BLOCK, "encoder.layers.%d.self_attn.v_proj.bias", QKV_BIAS, KVD),
    T(O_W, BLOCK, "encoder.layers.%d.self_attn.out_proj.weight", ALWAYS, H, QD),
    T(O_B, BLOCK, "encoder.layers.%d.self_attn.out_proj.bias", O_BIAS, H),
    T(NORM2_W, BLOCK, "encoder.layers.%d.layer_norm2.weight", ALWAYS, H),
    T(NORM2_B, BLOCK, "encoder.layers.%d.layer_norm2.bias", ALWAYS, H),
    T(UP_W, BLOCK, "encoder.layers.%d.mlp.fc1.weight", ALWAYS, FFN, H),
    T(UP_B, BLOCK, "encoder.layers.%d.mlp.fc1.bias", MLP_BIAS, FFN),
    T(DOWN_W, BLOCK, "encoder.layers.%d.mlp.fc2.weight", ALWAYS, H, FFN),
    T(DOWN_B, BLOCK, "encoder.layers.%d.mlp.fc2.bias", MLP_BIAS, H),
    T(NORM_W, NORM, "post_layernorm.weight", FINAL_NORM, H),
    T(NORM_B, NORM, "post_layernorm.bias", FINAL_NORM, H),
};

static const struct cs_tensor_table tables[] = {
    {"siglip", "vision_model.", siglip_rows, COUNT(siglip_rows)},
};

const struct cs_family_set cs_families_vision = {families, COUNT(families), tables, COUNT(tables)};
