/* An encoder of pictures that is described rather than taken from a model: cornstarch_vision, of which every option
 * has a key. Its tensors are named as SigLIP's and CLIP's are; what those have not is named as in the model that has
 * it. With the options of SigLIP it is SigLIP. */
#include "core/arch/families/family_rows.h"

#define WORD(names_, words, field, d)                                                              \
    {                                                                                              \
        {.names = names_, .types = CS_DOC_STRING, .accept = words}, CS_KEY_WORD, AT(field),        \
            CS_DEFAULT_VALUE, d, 0                                                                 \
    }

/* clang-format off */
static const struct cs_config_key own_keys[] = {
    INT("hidden_size", width, 768, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 3072, 1, MAX_WIDTH),
    INT("num_hidden_layers", n_layers, 12, 1, MAX_LAYERS),
    INT("num_attention_heads", HEADS, 12, 1, MAX_HEADS),
    SAME("num_key_value_heads", KV_HEADS, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    INT("", channels, 3, 3, 3),
    INT("image_size", image_size, 224, 0, MAX_PIXELS), /* 0: any */
    INT("patch_size", patch_size, 16, 1, MAX_PIXELS),
    WORD("positions", "none|row|bicubic|area|corners|buckets", front.position, CS_POSITION_ROW),
    INT("num_positions", front.position_rows, 0, 0, 1 << 16), /* 0: those of image_size */
    WORD("norm_type", "layer_norm|rms_norm", norm, CS_ARCH_LAYER_NORM),
    EPS("norm_eps", norm_eps, 1e-6),
    WORD("qk_norm", "none|head|width", qk_norm, CS_QK_NORM_NONE),
    ACT("hidden_act", CS_ARCH_GELU),
    BOOL("gated_mlp", is_gated_mlp, 0),
    BOOL("qkv_bias", has_qkv_bias, 1),
    BOOL("out_bias", has_o_bias, 1),
    BOOL("mlp_bias", has_mlp_bias, 1),
    BOOL("patch_bias", has_patch_bias, 1),
    BOOL("class_row", front.has_class, 0),
    BOOL("pre_norm", front.has_norm, 0),
    BOOL("final_norm", has_final_norm, 1),
    BOOL("layer_scale", has_layer_scale, 0),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
};

static const struct cs_doc_table own_table = {
    .rows = own_keys, .stride = sizeof *own_keys, .n = COUNT(own_keys), .more = &cs_model_grid, .refuses_unknown = true};
static const struct cs_rope_rules alternate = {.theta = 10000, .axes = CS_ROPE_ALTERNATE};
static const struct cs_family families[] = {
    {.model_type = "cornstarch_vision", .table = &own_table, .rope = &alternate, .rope_key = "rope_theta|rope_parameters", .tail = "N",
     .base = {.kind = CS_MODULE_ENCODER, .family = "cornstarch_vision", .embed_scale = 1, .front = {.stem = CS_STEM_PATCHES}}},
};

#define LAYER "encoder.layers.%d."
#define WB(role, kind, name, if_w, if_b, out, ...)                                                 \
    T(role##_W, kind, name ".weight", if_w, out, __VA_ARGS__), T(role##_B, kind, name ".bias", if_b, out)
#define NORM(role, kind, name, if_w, if_b) T(role##_W, kind, name ".weight", if_w, H), T(role##_B, kind, name ".bias", if_b, H)

static const struct cs_tensor_row own_rows[] = {
    T(CLASS, EMBED, "embeddings.class_embedding", CLASS, H),
    WB(PATCH, EMBED, "embeddings.patch_embedding", ALWAYS, PATCH_BIAS, H, CS_DIM_CHANNELS, CS_DIM_PATCH, CS_DIM_PATCH),
    T(POSITION, EMBED, "embeddings.position_embedding.weight", POSITION, CS_DIM_POSITIONS, H),
    NORM(PRE_NORM, EMBED, "pre_layrnorm", PRE_NORM, PRE_NORM_BIAS), /* CLIP spells it so */
    NORM(NORM1, BLOCK, LAYER "layer_norm1", ALWAYS, LAYER_NORM),
    WB(Q, BLOCK, LAYER "self_attn.q_proj", ALWAYS, QKV_BIAS, QD, H),
    WB(K, BLOCK, LAYER "self_attn.k_proj", ALWAYS, QKV_BIAS, KVD, H),
    WB(V, BLOCK, LAYER "self_attn.v_proj", ALWAYS, QKV_BIAS, KVD, H),
    WB(O, BLOCK, LAYER "self_attn.out_proj", ALWAYS, O_BIAS, H, QD),
    T(Q_NORM_W, BLOCK, LAYER "self_attn.q_norm.weight", QK_NORM, CS_DIM_QN),
    T(K_NORM_W, BLOCK, LAYER "self_attn.k_norm.weight", QK_NORM, CS_DIM_KN),
    T(SCALE1, BLOCK, LAYER "layer_scale1.lambda1", LAYER_SCALE, H),
    NORM(NORM2, BLOCK, LAYER "layer_norm2", ALWAYS, LAYER_NORM),
    WB(GATE, BLOCK, LAYER "mlp.gate_proj", GATED, GATED_BIAS, FFN, H),
    WB(UP, BLOCK, LAYER "mlp.up_proj", GATED, GATED_BIAS, FFN, H),
    WB(DOWN, BLOCK, LAYER "mlp.down_proj", GATED, GATED_BIAS, H, FFN),
    WB(UP, BLOCK, LAYER "mlp.fc1", PLAIN, PLAIN_BIAS, FFN, H),
    WB(DOWN, BLOCK, LAYER "mlp.fc2", PLAIN, PLAIN_BIAS, H, FFN),
    T(SCALE2, BLOCK, LAYER "layer_scale2.lambda1", LAYER_SCALE, H),
    NORM(NORM, NORM, "post_layernorm", FINAL_NORM, FINAL_NORM_BIAS),
};
static const struct cs_tensor_table tables[] = {{"cornstarch_vision", "vision_model.", own_rows, COUNT(own_rows)}};

/* clang-format on */
const struct cs_family_set cs_families_own = {families, COUNT(families), tables, COUNT(tables)};
