/* Encoders of pictures whose rows are in reading order. Sources: configuration_{siglip,siglip2,clip,
 * smolvlm,idefics3,vit,dinov2,internvl}.py and the state dicts of transformers. */
#include "core/arch/families/family_rows.h"

#define NO_DROPOUT(names) REFUSED(names, NUMBER, "0", "dropout is not supported")
/* width, inner width, blocks and heads by default */
#define SIZES(width_, ffn_, blocks_, heads_)                                                       \
    INT("hidden_size", width, width_, 1, MAX_WIDTH),                                               \
        INT("intermediate_size", ffn_width, ffn_, 1, MAX_WIDTH), BLOCKS(blocks_, heads_)
#define BLOCKS(blocks_, heads_)                                                                    \
    INT("num_hidden_layers", n_layers, blocks_, 1, MAX_LAYERS),                                    \
        INT("num_attention_heads", HEADS, heads_, 1, MAX_HEADS),                                   \
        SAME("", KV_HEADS, HEADS, 1, MAX_HEADS), PER_HEAD(""),                                     \
        INT("num_channels", channels, 3, 1, 64),                                                   \
        FLOAT("initializer_range", initializer_range, 0.02, 0, 10)
#define PICTURE(side, patch)                                                                       \
    INT("image_size", image_size, side, 1, MAX_PIXELS),                                            \
        INT("patch_size", patch_size, patch, 1, MAX_PIXELS)
/* the pool of the whole model, whose state no projector is given */
#define POOL                                                                                       \
    HARMLESS("vision_use_head|projection_dim|initializer_factor|dropout|logit_scale_init_value|"   \
             "bos_token_id|eos_token_id|pad_token_id")

static const struct cs_config_key siglip_keys[] = {
    SIZES(768, 3072, 12, 12),
    PICTURE(224, 16),
    ACT("hidden_act", CS_ARCH_GELU_TANH),
    EPS("layer_norm_eps", norm_eps, 1e-6),
    NO_DROPOUT("attention_dropout"),
    POOL,
};
static const struct cs_config_key siglip2_keys[] = {
    SIZES(768, 3072, 12, 12),
    INT("patch_size", patch_size, 16, 1, MAX_PIXELS),
    INT("num_patches", front.position_rows, 256, 1, 1 << 16),
    ACT("hidden_act", CS_ARCH_GELU_TANH),
    EPS("layer_norm_eps", norm_eps, 1e-6),
    NO_DROPOUT("attention_dropout"),
    POOL,
};
static const struct cs_config_key clip_keys[] = {
    SIZES(768, 3072, 12, 12),
    PICTURE(224, 32),
    ACT("hidden_act", CS_ARCH_QUICK_GELU),
    EPS("layer_norm_eps", norm_eps, 1e-5),
    NO_DROPOUT("attention_dropout"),
    POOL,
};
static const struct cs_config_key idefics3_keys[] = {
    SIZES(1152, 3072, 12, 16),
    PICTURE(224, 32),
    ACT("hidden_act", CS_ARCH_GELU_TANH),
    EPS("layer_norm_eps", norm_eps, 1e-6),
    NO_DROPOUT("attention_dropout"),
    HARMLESS("size|max_image_size|use_base_siglip"),
};
static const struct cs_config_key vit_keys[] = {
    SIZES(768, 3072, 12, 12),
    PICTURE(224, 16),
    ACT("hidden_act", CS_ARCH_GELU),
    EPS("layer_norm_eps", norm_eps, 1e-12),
    BOOL("qkv_bias", has_qkv_bias, 1),
    NO_DROPOUT("hidden_dropout_prob|attention_probs_dropout_prob"),
    HARMLESS("encoder_stride|pooler_output_size|pooler_act"),
};
static const struct cs_config_key dinov2_keys[] = {
    INT("hidden_size", width, 768, 1, MAX_WIDTH),
    BLOCKS(12, 12),
    PICTURE(224, 14),
    FLOAT("mlp_ratio", front.mlp_ratio, 4, 0.01, 64),
    BOOL("use_swiglu_ffn", is_gated_mlp, 0),
    ACT("hidden_act", CS_ARCH_GELU),
    EPS("layer_norm_eps", norm_eps, 1e-6),
    BOOL("qkv_bias", has_qkv_bias, 1),
    NO_DROPOUT("hidden_dropout_prob|attention_probs_dropout_prob"),
    REFUSED("drop_path_rate", NUMBER, "0", "leaving blocks out at random is not supported"),
    HARMLESS("layerscale_value|apply_layernorm|reshape_hidden_states|use_mask_token|stage_names|"
             "out_features|out_indices"),
};
/* read by front_read.c: the kind of the norms; whether queries and keys are normed, over all heads */
#define NORMS(qk)                                                                                  \
    KNOWN(.names = "norm_type", .types = CS_DOC_STRING, .accept = "layer_norm|rms_norm"),          \
        KNOWN(.names = qk, .types = CS_DOC_BOOL)

static const struct cs_config_key internvl_keys[] = {
    SIZES(1024, 4096, 24, 16),
    SIDE("image_size", image_size, 448),
    SIDE("patch_size", patch_size, 14),
    ACT("hidden_act", CS_ARCH_GELU),
    EPS("layer_norm_eps", norm_eps, 1e-6),
    BOOL("attention_bias", has_qkv_bias, 0),
    NO_DROPOUT("hidden_dropout_prob|attention_dropout|projection_dropout"),
    NORMS("use_qk_norm"),
    REFUSED("use_absolute_position_embeddings", BOOL, "true",
            "an encoder without positions is not supported"),
    REFUSED("use_mean_pooling", BOOL, "true", "a norm behind the last block is not supported here"),
    HARMLESS("use_mask_token|layer_scale_init_value"),
};

/* InternVL as its authors write it; defaults of their InternVisionConfig */
static const struct cs_config_key intern_vit_keys[] = {
    SIZES(3200, 12800, 48, 25),
    PICTURE(224, 14),
    ACT("hidden_act", CS_ARCH_GELU),
    EPS("layer_norm_eps", norm_eps, 1e-6),
    BOOL("qkv_bias", has_qkv_bias, 0),
    NO_DROPOUT("dropout|attention_dropout"),
    REFUSED("drop_path_rate", NUMBER, "0", "leaving blocks out at random is not supported"),
    NORMS("qk_normalization"),
    HARMLESS("initializer_factor|use_flash_attn"),
};

/* What a composite of two towers says beside its vision_config. */
static const struct cs_config_key pair_keys[] = {
    KNOWN(.names = "vision_config", .types = CS_DOC_OBJECT),
    HARMLESS("text_config|initializer_factor|logit_scale_init_value|projection_dim"),
};

#define TABLE(name)                                                                                \
    static const struct cs_doc_table name##_table = CS_DOC_TABLE(name##_keys, &cs_model_common)
TABLE(siglip);
TABLE(siglip2);
TABLE(clip);
TABLE(idefics3);
TABLE(vit);
TABLE(dinov2);
TABLE(internvl);
TABLE(intern_vit);
TABLE(pair);

#define TOWER(family_)                                                                             \
    .kind = CS_MODULE_ENCODER, .family = family_, .norm = CS_ARCH_LAYER_NORM, .embed_scale = 1,    \
    .has_o_bias = true, .has_mlp_bias = true
#define PATCHES(kind, ...)                                                                         \
    .front = {.stem = CS_STEM_PATCHES, .position = CS_POSITION_##kind, __VA_ARGS__}

/* clang-format off */
static const struct cs_family families[] = {
    {.model_type = "siglip_vision_model", .table = &siglip_table, .tail = "N",
     .base = {TOWER("siglip"), .has_qkv_bias = true, .has_patch_bias = true, .has_final_norm = true, PATCHES(ROW, 0)}},
    {.model_type = "siglip", .inner = "vision_config", .inner_type = "siglip_vision_model", .table = &pair_table},
    {.model_type = "siglip2_vision_model", .table = &siglip2_table, .tail = "N",
     .base = {TOWER("siglip2"), .has_qkv_bias = true, .has_patch_bias = true, .has_final_norm = true, PATCHES(AREA, .is_channels_last = true)}},
    {.model_type = "siglip2", .inner = "vision_config", .inner_type = "siglip2_vision_model", .table = &pair_table},
    {.model_type = "clip_vision_model", .table = &clip_table,
     .base = {TOWER("clip"), .has_qkv_bias = true, PATCHES(ROW, .has_class = true, .has_norm = true)}},
    {.model_type = "clip", .inner = "vision_config", .inner_type = "clip_vision_model", .table = &pair_table},
    {.model_type = "smolvlm_vision", .table = &idefics3_table, .tail = "N",
     .base = {TOWER("siglip"), .has_qkv_bias = true, .has_patch_bias = true, .has_final_norm = true, PATCHES(BUCKETS, 0)}},
    {.model_type = "idefics3_vision", .table = &idefics3_table, .tail = "N",
     .base = {TOWER("siglip"), .has_qkv_bias = true, .has_patch_bias = true, .has_final_norm = true, PATCHES(BUCKETS, 0)}},
    {.model_type = "vit", .table = &vit_table, .tail = "N",
     .base = {TOWER("vit"), .has_patch_bias = true, .has_final_norm = true, PATCHES(ROW, .has_class = true)}},
    {.model_type = "dinov2", .table = &dinov2_table, .tail = "N",
     .base = {TOWER("dinov2"), .has_patch_bias = true, .has_final_norm = true, .has_layer_scale = true, PATCHES(BICUBIC, .has_class = true)}},
    {.model_type = "internvl_vision", .table = &internvl_table,
     .base = {TOWER("internvl_vision"), .has_patch_bias = true, .has_layer_scale = true, PATCHES(BICUBIC, .has_class = true)}},
    {.model_type = "intern_vit_6b", .table = &intern_vit_table,
     .base = {.kind = CS_MODULE_ENCODER, .family = "intern_vit_6b", .norm = CS_ARCH_RMS_NORM, .qk_norm = CS_QK_NORM_WIDTH, .embed_scale = 1,
              .has_o_bias = true, .has_mlp_bias = true, .has_patch_bias = true, .has_layer_scale = true, PATCHES(BICUBIC, .has_class = true)}},
};

#define PATCH CS_DIM_PATCH
#define ONE   CS_DIM_ONE
/* a matrix with its bias; a vector with its bias */
#define WB(role, kind, name, if_w, if_b, out, ...)                                                 \
    T(role##_W, kind, name ".weight", if_w, out, __VA_ARGS__), T(role##_B, kind, name ".bias", if_b, out)
#define NORM(role, kind, name) T(role##_W, kind, name ".weight", ALWAYS, H), T(role##_B, kind, name ".bias", ALWAYS, H)
/* of either kind */
#define ANY_NORM(role, name)                                                                       \
    T(role##_W, BLOCK, name ".weight", ALWAYS, H), T(role##_B, BLOCK, name ".bias", LAYER_NORM, H)
#define CLIP_BLOCK                                                                                 \
    NORM(NORM1, BLOCK, "encoder.layers.%d.layer_norm1"),                                           \
    WB(Q, BLOCK, "encoder.layers.%d.self_attn.q_proj", ALWAYS, QKV_BIAS, QD, H),                   \
    WB(K, BLOCK, "encoder.layers.%d.self_attn.k_proj", ALWAYS, QKV_BIAS, KVD, H),                  \
    WB(V, BLOCK, "encoder.layers.%d.self_attn.v_proj", ALWAYS, QKV_BIAS, KVD, H),                  \
    WB(O, BLOCK, "encoder.layers.%d.self_attn.out_proj", ALWAYS, O_BIAS, H, QD),                   \
    NORM(NORM2, BLOCK, "encoder.layers.%d.layer_norm2"),                                           \
    WB(UP, BLOCK, "encoder.layers.%d.mlp.fc1", ALWAYS, MLP_BIAS, FFN, H),                          \
    WB(DOWN, BLOCK, "encoder.layers.%d.mlp.fc2", ALWAYS, MLP_BIAS, H, FFN)
#define TAIL(name) T(NORM_W, NORM, name ".weight", FINAL_NORM, H), T(NORM_B, NORM, name ".bias", FINAL_NORM, H)

static const struct cs_tensor_row siglip_rows[] = {
    WB(PATCH, EMBED, "embeddings.patch_embedding", ALWAYS, PATCH_BIAS, H, CS_DIM_CHANNELS, PATCH, PATCH),
    T(POSITION, EMBED, "embeddings.position_embedding.weight", ALWAYS, CS_DIM_POSITIONS, H),
    CLIP_BLOCK, TAIL("post_layernorm"),
};
static const struct cs_tensor_row siglip2_rows[] = {
    WB(PATCH, EMBED, "embeddings.patch_embedding", ALWAYS, PATCH_BIAS, H, IN),
    T(POSITION, EMBED, "embeddings.position_embedding.weight", ALWAYS, CS_DIM_POSITIONS, H),
    CLIP_BLOCK, TAIL("post_layernorm"),
};
static const struct cs_tensor_row clip_rows[] = {
    T(CLASS, EMBED, "embeddings.class_embedding", ALWAYS, H),
    T(PATCH_W, EMBED, "embeddings.patch_embedding.weight", ALWAYS, H, CS_DIM_CHANNELS, PATCH, PATCH),
    T(POSITION, EMBED, "embeddings.position_embedding.weight", ALWAYS, CS_DIM_POSITIONS, H),
    NORM(PRE_NORM, EMBED, "pre_layrnorm"),
    CLIP_BLOCK,
};

#define VIT_EMBED                                                                                  \
    T(CLASS, EMBED, "embeddings.cls_token", ALWAYS, ONE, ONE, H),                                  \
    WB(PATCH, EMBED, "embeddings.patch_embeddings.projection", ALWAYS, PATCH_BIAS, H, CS_DIM_CHANNELS, PATCH, PATCH), \
    T(POSITION, EMBED, "embeddings.position_embeddings", ALWAYS, ONE, CS_DIM_POSITIONS, H)
#define VIT_ATTENTION                                                                              \
    WB(Q, BLOCK, "encoder.layer.%d.attention.attention.query", ALWAYS, QKV_BIAS, QD, H),           \
    WB(K, BLOCK, "encoder.layer.%d.attention.attention.key", ALWAYS, QKV_BIAS, KVD, H),            \
    WB(V, BLOCK, "encoder.layer.%d.attention.attention.value", ALWAYS, QKV_BIAS, KVD, H),          \
    WB(O, BLOCK, "encoder.layer.%d.attention.output.dense", ALWAYS, O_BIAS, H, QD)

static const struct cs_tensor_row vit_rows[] = {
    VIT_EMBED,
    NORM(NORM1, BLOCK, "encoder.layer.%d.layernorm_before"), VIT_ATTENTION,
    NORM(NORM2, BLOCK, "encoder.layer.%d.layernorm_after"),
    WB(UP, BLOCK, "encoder.layer.%d.intermediate.dense", ALWAYS, MLP_BIAS, FFN, H),
    WB(DOWN, BLOCK, "encoder.layer.%d.output.dense", ALWAYS, MLP_BIAS, H, FFN),
    TAIL("layernorm"),
};
static const struct cs_tensor_row dinov2_rows[] = {
    VIT_EMBED,
    NORM(NORM1, BLOCK, "encoder.layer.%d.norm1"), VIT_ATTENTION,
    T(SCALE1, BLOCK, "encoder.layer.%d.layer_scale1.lambda1", ALWAYS, H),
    NORM(NORM2, BLOCK, "encoder.layer.%d.norm2"),
    WB(UP, BLOCK, "encoder.layer.%d.mlp.fc1", PLAIN, PLAIN, FFN, H),
    WB(DOWN, BLOCK, "encoder.layer.%d.mlp.fc2", PLAIN, PLAIN, H, FFN),
    WB(GATE, BLOCK, "encoder.layer.%d.mlp.weights_in", GATED, GATED, CS_DIM_FFN2, H),
    WB(DOWN, BLOCK, "encoder.layer.%d.mlp.weights_out", GATED, GATED, H, FFN),
    T(SCALE2, BLOCK, "encoder.layer.%d.layer_scale2.lambda1", ALWAYS, H),
    TAIL("layernorm"),
};
static const struct cs_tensor_row internvl_rows[] = {
    VIT_EMBED,
    ANY_NORM(NORM1, "encoder.layer.%d.layernorm_before"),
    WB(Q, BLOCK, "encoder.layer.%d.attention.q_proj", ALWAYS, QKV_BIAS, QD, H),
    WB(K, BLOCK, "encoder.layer.%d.attention.k_proj", ALWAYS, QKV_BIAS, KVD, H),
    WB(V, BLOCK, "encoder.layer.%d.attention.v_proj", ALWAYS, QKV_BIAS, KVD, H),
    WB(O, BLOCK, "encoder.layer.%d.attention.projection_layer", ALWAYS, O_BIAS, H, QD),
    T(Q_NORM_W, BLOCK, "encoder.layer.%d.attention.q_norm.weight", QK_NORM, CS_DIM_QN),
    T(K_NORM_W, BLOCK, "encoder.layer.%d.attention.k_norm.weight", QK_NORM, CS_DIM_KN),
    T(SCALE1, BLOCK, "encoder.layer.%d.lambda_1", ALWAYS, H),
    ANY_NORM(NORM2, "encoder.layer.%d.layernorm_after"),
    WB(UP, BLOCK, "encoder.layer.%d.mlp.fc1", ALWAYS, MLP_BIAS, FFN, H),
    WB(DOWN, BLOCK, "encoder.layer.%d.mlp.fc2", ALWAYS, MLP_BIAS, H, FFN),
    T(SCALE2, BLOCK, "encoder.layer.%d.lambda_2", ALWAYS, H),
};
static const struct cs_tensor_row intern_vit_rows[] = {
    T(CLASS, EMBED, "embeddings.class_embedding", ALWAYS, ONE, ONE, H),
    WB(PATCH, EMBED, "embeddings.patch_embedding", ALWAYS, PATCH_BIAS, H, CS_DIM_CHANNELS, PATCH, PATCH),
    T(POSITION, EMBED, "embeddings.position_embedding", ALWAYS, ONE, CS_DIM_POSITIONS, H),
    ANY_NORM(NORM1, "encoder.layers.%d.norm1"),
    WB(Q, BLOCK, "encoder.layers.%d.attn.qkv", ALWAYS, QKV_BIAS, CS_DIM_QKV, H),
    WB(O, BLOCK, "encoder.layers.%d.attn.proj", ALWAYS, O_BIAS, H, QD),
    T(Q_NORM_W, BLOCK, "encoder.layers.%d.attn.q_norm.weight", QK_NORM, CS_DIM_QN),
    T(K_NORM_W, BLOCK, "encoder.layers.%d.attn.k_norm.weight", QK_NORM, CS_DIM_KN),
    T(SCALE1, BLOCK, "encoder.layers.%d.ls1", ALWAYS, H),
    ANY_NORM(NORM2, "encoder.layers.%d.norm2"),
    WB(UP, BLOCK, "encoder.layers.%d.mlp.fc1", ALWAYS, MLP_BIAS, FFN, H),
    WB(DOWN, BLOCK, "encoder.layers.%d.mlp.fc2", ALWAYS, MLP_BIAS, H, FFN),
    T(SCALE2, BLOCK, "encoder.layers.%d.ls2", ALWAYS, H),
};

static const struct cs_tensor_table tables[] = {
    {"siglip",          "vision_model.", siglip_rows,   COUNT(siglip_rows)  },
    {"siglip2",         "vision_model.", siglip2_rows,  COUNT(siglip2_rows) },
    {"clip",            "vision_model.", clip_rows,     COUNT(clip_rows)    },
    {"vit",             "vit.",          vit_rows,      COUNT(vit_rows)     },
    {"dinov2",          "dinov2.",       dinov2_rows,   COUNT(dinov2_rows)  },
    {"internvl_vision", NULL,            internvl_rows, COUNT(internvl_rows)},
    {"intern_vit_6b",   NULL,            intern_vit_rows, COUNT(intern_vit_rows)},
};

/* clang-format on */

const struct cs_family_set cs_families_vision = {families, COUNT(families), tables, COUNT(tables)};
