/* Encoders of pictures of any size, whose rows turn by their place in the grid. Sources:
 * configuration_{pixtral,qwen2_vl,qwen2_5_vl,qwen3_vl,qwen3_5,gemma4}.py and the state dicts of
 * transformers. */
#include "core/arch/families/family_rows.h"

#define NO_DROPOUT(names) REFUSED(names, NUMBER, "0", "dropout is not supported")
#define QWEN(depth_, patch)                                                                        \
    INT("depth", n_layers, depth_, 1, MAX_LAYERS), INT("num_heads", HEADS, 16, 1, MAX_HEADS),      \
        SAME("", KV_HEADS, HEADS, 1, MAX_HEADS), PER_HEAD(""),                                     \
        INT("in_channels|in_chans", channels, 3, 1, 4),                                            \
        INT("patch_size", patch_size, patch, 1, MAX_PIXELS),                                       \
        INT("spatial_merge_size", front.merge, 2, 1, 64),                                          \
        INT("temporal_patch_size", front.patch_frames, 2, 1, 64),                                  \
        FLOAT("initializer_range", initializer_range, 0.02, 0, 10), EPS("", norm_eps, 1e-6)
/* its merger ends at the width of the language model, which is said there */
#define OUT INT("out_hidden_size", front.out_width, 3584, 1, MAX_WIDTH)

static const struct cs_config_key qwen2_vl_keys[] = {
    INT("embed_dim", width, 1280, 1, MAX_WIDTH),
    FLOAT("mlp_ratio", front.mlp_ratio, 4, 0.01, 64),
    QWEN(32, 14),
    INT("hidden_size", front.out_width, 3584, 1, MAX_WIDTH),
    ACT("hidden_act", CS_ARCH_QUICK_GELU),
    HARMLESS("spatial_patch_size"),
};
static const struct cs_config_key qwen2_5_vl_keys[] = {
    INT("hidden_size", width, 3584, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 3420, 1, MAX_WIDTH),
    QWEN(32, 14),
    OUT,
    ACT("hidden_act", CS_ARCH_SILU),
    INT("window_size", front.window, 112, 1, 1 << 20), /* pixels; patches when it is read */
    KNOWN(.names = "fullatt_block_indexes", .types = CS_DOC_LIST),
    HARMLESS("tokens_per_second|spatial_patch_size"),
};
static const struct cs_config_key qwen3_vl_keys[] = {
    INT("hidden_size", width, 1152, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 4304, 1, MAX_WIDTH),
    QWEN(27, 16),
    OUT,
    ACT("hidden_act", CS_ARCH_GELU_TANH),
    INT("num_position_embeddings", front.position_rows, 2304, 1, 1 << 16),
    KNOWN(.names = "deepstack_visual_indexes", .types = CS_DOC_LIST),
};
static const struct cs_config_key qwen3_5_keys[] = {
    INT("hidden_size", width, 1152, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 4304, 1, MAX_WIDTH),
    QWEN(27, 16),
    OUT,
    ACT("hidden_act", CS_ARCH_GELU_TANH),
    INT("num_position_embeddings", front.position_rows, 2304, 1, 1 << 16),
    HARMLESS("deepstack_visual_indexes"), /* the class has none */
};
static const struct cs_config_key pixtral_keys[] = {
    INT("hidden_size", width, 1024, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 4096, 1, MAX_WIDTH),
    INT("num_hidden_layers", n_layers, 24, 1, MAX_LAYERS),
    INT("num_attention_heads", HEADS, 16, 1, MAX_HEADS),
    SAME("", KV_HEADS, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    INT("num_channels", channels, 3, 1, 4),
    INT("image_size", image_size, 1024, 1, 1 << 16), /* the longest side */
    INT("patch_size", patch_size, 16, 1, MAX_PIXELS),
    ACT("hidden_act", CS_ARCH_GELU),
    EPS("", norm_eps, 1e-5),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
    NO_DROPOUT("attention_dropout"),
};
static const struct cs_config_key gemma4_keys[] = {
    INT("hidden_size", width, 768, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 3072, 1, MAX_WIDTH),
    INT("num_hidden_layers", n_layers, 16, 1, MAX_LAYERS),
    INT("num_attention_heads", HEADS, 12, 1, MAX_HEADS),
    INT("num_key_value_heads", KV_HEADS, 12, 1, MAX_HEADS),
    INT("head_dim", HEAD_DIM, 64, 1, 1024),
    FLOAT("", attention[0].scale, 1, 0, 1), /* scores are not divided */
    INT("", channels, 3, 3, 3),
    INT("patch_size", patch_size, 16, 1, MAX_PIXELS),
    INT("pooling_kernel_size", front.merge, 3, 1, 64),
    INT("position_embedding_size", front.position_rows, 10240, 1, 1 << 20),
    ACT("hidden_activation", CS_ARCH_GELU_TANH),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    BOOL("standardize", front.is_standardised, 0),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
    NO_DROPOUT("attention_dropout"),
    REFUSED("attention_bias", BOOL, "false", "biases are not supported here"),
    REFUSED("use_clipped_linears", BOOL, "false", "clipped products are not supported"),
    HARMLESS("max_position_embeddings|default_output_length"),
};

#define TABLE(name)                                                                                \
    static const struct cs_doc_table name##_table = CS_DOC_TABLE(name##_keys, &cs_model_grid)
TABLE(qwen2_vl);
TABLE(qwen2_5_vl);
TABLE(qwen3_vl);
TABLE(qwen3_5);
TABLE(pixtral);
TABLE(gemma4);

static const struct cs_rope_rules halves = {.theta = 10000, .axes = CS_ROPE_HALVES};
static const struct cs_rope_rules alternate = {.theta = 10000, .axes = CS_ROPE_ALTERNATE};
static const struct cs_rope_rules apart = {.theta = 100, .axes = CS_ROPE_APART};

#define TOWER(family_, norm_)                                                                      \
    .kind = CS_MODULE_ENCODER, .family = family_, .norm = CS_ARCH_##norm_, .embed_scale = 1
#define BIASES .has_qkv_bias = true, .has_o_bias = true, .has_mlp_bias = true
#define PATCHES(kind, ...)                                                                         \
    .front = {.stem = CS_STEM_PATCHES, .position = CS_POSITION_##kind, __VA_ARGS__}

/* clang-format off */
static const struct cs_family families[] = {
    {.model_type = "qwen2_vl_vision", .table = &qwen2_vl_table, .rope = &halves, .inside = CS_INSIDE_FRAME,
     .base = {TOWER("qwen2_vl_vision", LAYER_NORM), BIASES, PATCHES(NONE, 0)}},
    {.model_type = "qwen2_5_vl_vision", .table = &qwen2_5_vl_table, .rope = &halves, .inside = CS_INSIDE_FRAME,
     .base = {TOWER("qwen2_5_vl_vision", RMS_NORM), BIASES, .is_gated_mlp = true, PATCHES(NONE, 0)}},
    {.model_type = "qwen3_vl_vision", .table = &qwen3_vl_table, .rope = &halves, .inside = CS_INSIDE_FRAME, .tap = "CNLAL",
     .base = {TOWER("qwen3_vl_vision", LAYER_NORM), BIASES, .has_patch_bias = true, PATCHES(CORNERS, 0)}},
    {.model_type = "qwen3_vl_moe_vision", .table = &qwen3_vl_table, .rope = &halves, .inside = CS_INSIDE_FRAME, .tap = "CNLAL",
     .base = {TOWER("qwen3_vl_vision", LAYER_NORM), BIASES, .has_patch_bias = true, PATCHES(CORNERS, 0)}},
    {.model_type = "qwen3_5_vision", .table = &qwen3_5_table, .rope = &halves, .inside = CS_INSIDE_FRAME,
     .base = {TOWER("qwen3_vl_vision", LAYER_NORM), BIASES, .has_patch_bias = true, PATCHES(CORNERS, 0)}},
    {.model_type = "pixtral", .table = &pixtral_table, .rope = &alternate,
     .base = {TOWER("pixtral", RMS_NORM), .is_gated_mlp = true, PATCHES(NONE, .has_norm = true)}},
    {.model_type = "gemma4_vision", .table = &gemma4_table, .rope = &apart, .tail = "MF",
     .base = {TOWER("gemma4_vision", RMS_NORM), .is_gated_mlp = true, .has_post_norms = true, .qk_norm = CS_QK_NORM_HEAD,
              .has_v_norm = true, PATCHES(AXES, .is_channels_last = true, .is_centred = true)}},
};

#define PATCH CS_DIM_PATCH
#define WB(role, kind, name, if_w, if_b, out, ...)                                                 \
    T(role##_W, kind, name ".weight", if_w, out, __VA_ARGS__), T(role##_B, kind, name ".bias", if_b, out)
#define NORM(role, name) T(role##_W, BLOCK, name ".weight", ALWAYS, H), T(role##_B, BLOCK, name ".bias", ALWAYS, H)
#define WEIGHT(role, kind, name, ...) T(role, kind, name ".weight", ALWAYS, __VA_ARGS__)
#define QWEN_PATCH  T(PATCH_W, EMBED, "patch_embed.proj.weight", ALWAYS, H, CS_DIM_CHANNELS, CS_DIM_FRAMES, PATCH, PATCH)
/* one tensor for q, k and v */
#define QWEN_ATTENTION                                                                             \
    WB(Q, BLOCK, "blocks.%d.attn.qkv", ALWAYS, ALWAYS, CS_DIM_QKV, H), WB(O, BLOCK, "blocks.%d.attn.proj", ALWAYS, ALWAYS, H, QD)

static const struct cs_tensor_row qwen2_vl_rows[] = {
    QWEN_PATCH,
    NORM(NORM1, "blocks.%d.norm1"), QWEN_ATTENTION, NORM(NORM2, "blocks.%d.norm2"),
    WB(UP, BLOCK, "blocks.%d.mlp.fc1", ALWAYS, ALWAYS, FFN, H),
    WB(DOWN, BLOCK, "blocks.%d.mlp.fc2", ALWAYS, ALWAYS, H, FFN),
};
static const struct cs_tensor_row qwen2_5_vl_rows[] = {
    QWEN_PATCH,
    WEIGHT(NORM1_W, BLOCK, "blocks.%d.norm1", H), QWEN_ATTENTION, WEIGHT(NORM2_W, BLOCK, "blocks.%d.norm2", H),
    WB(GATE, BLOCK, "blocks.%d.mlp.gate_proj", ALWAYS, ALWAYS, FFN, H),
    WB(UP, BLOCK, "blocks.%d.mlp.up_proj", ALWAYS, ALWAYS, FFN, H),
    WB(DOWN, BLOCK, "blocks.%d.mlp.down_proj", ALWAYS, ALWAYS, H, FFN),
};
static const struct cs_tensor_row qwen3_vl_rows[] = {
    QWEN_PATCH, T(PATCH_B, EMBED, "patch_embed.proj.bias", ALWAYS, H),
    T(POSITION, EMBED, "pos_embed.weight", ALWAYS, CS_DIM_POSITIONS, H),
    NORM(NORM1, "blocks.%d.norm1"), QWEN_ATTENTION, NORM(NORM2, "blocks.%d.norm2"),
    WB(UP, BLOCK, "blocks.%d.mlp.linear_fc1", ALWAYS, ALWAYS, FFN, H),
    WB(DOWN, BLOCK, "blocks.%d.mlp.linear_fc2", ALWAYS, ALWAYS, H, FFN),
    T(NORM_W, TAP, "deepstack_merger_list.%d.norm.weight", ALWAYS, CS_DIM_NORM),
    T(NORM_B, TAP, "deepstack_merger_list.%d.norm.bias", ALWAYS, CS_DIM_NORM),
    P(PROJ_W, 0, TAP, "deepstack_merger_list.%d.linear_fc1.weight", LINEAR, CS_DIM_TO, CS_DIM_FROM),
    P(PROJ_B, 0, TAP, "deepstack_merger_list.%d.linear_fc1.bias", LINEAR, CS_DIM_TO),
    P(PROJ_W, 1, TAP, "deepstack_merger_list.%d.linear_fc2.weight", LINEAR, CS_DIM_TO, CS_DIM_FROM),
    P(PROJ_B, 1, TAP, "deepstack_merger_list.%d.linear_fc2.bias", LINEAR, CS_DIM_TO),
};
static const struct cs_tensor_row pixtral_rows[] = {
    WEIGHT(PATCH_W, EMBED, "patch_conv", H, CS_DIM_CHANNELS, PATCH, PATCH),
    WEIGHT(PRE_NORM_W, EMBED, "ln_pre", H),
    WEIGHT(NORM1_W, BLOCK, "transformer.layers.%d.attention_norm", H),
    WEIGHT(Q_W, BLOCK, "transformer.layers.%d.attention.q_proj", QD, H),
    WEIGHT(K_W, BLOCK, "transformer.layers.%d.attention.k_proj", KVD, H),
    WEIGHT(V_W, BLOCK, "transformer.layers.%d.attention.v_proj", KVD, H),
    WEIGHT(O_W, BLOCK, "transformer.layers.%d.attention.o_proj", H, QD),
    WEIGHT(NORM2_W, BLOCK, "transformer.layers.%d.ffn_norm", H),
    WEIGHT(GATE_W, BLOCK, "transformer.layers.%d.feed_forward.gate_proj", FFN, H),
    WEIGHT(UP_W, BLOCK, "transformer.layers.%d.feed_forward.up_proj", FFN, H),
    WEIGHT(DOWN_W, BLOCK, "transformer.layers.%d.feed_forward.down_proj", H, FFN),
};
static const struct cs_tensor_row gemma4_rows[] = {
    WEIGHT(PATCH_W, EMBED, "patch_embedder.input_proj", H, IN),
    T(POSITION, EMBED, "patch_embedder.position_embedding_table", ALWAYS, CS_DIM_TWO, CS_DIM_POSITIONS, H),
    WEIGHT(NORM1_W, BLOCK, "encoder.layers.%d.input_layernorm", H),
    WEIGHT(Q_W, BLOCK, "encoder.layers.%d.self_attn.q_proj.linear", QD, H),
    WEIGHT(K_W, BLOCK, "encoder.layers.%d.self_attn.k_proj.linear", KVD, H),
    WEIGHT(V_W, BLOCK, "encoder.layers.%d.self_attn.v_proj.linear", KVD, H),
    WEIGHT(Q_NORM_W, BLOCK, "encoder.layers.%d.self_attn.q_norm", CS_DIM_QN),
    WEIGHT(K_NORM_W, BLOCK, "encoder.layers.%d.self_attn.k_norm", CS_DIM_KN),
    WEIGHT(O_W, BLOCK, "encoder.layers.%d.self_attn.o_proj.linear", H, QD),
    WEIGHT(POST1_W, BLOCK, "encoder.layers.%d.post_attention_layernorm", H),
    WEIGHT(NORM2_W, BLOCK, "encoder.layers.%d.pre_feedforward_layernorm", H),
    WEIGHT(GATE_W, BLOCK, "encoder.layers.%d.mlp.gate_proj.linear", FFN, H),
    WEIGHT(UP_W, BLOCK, "encoder.layers.%d.mlp.up_proj.linear", FFN, H),
    WEIGHT(DOWN_W, BLOCK, "encoder.layers.%d.mlp.down_proj.linear", H, FFN),
    WEIGHT(POST2_W, BLOCK, "encoder.layers.%d.post_feedforward_layernorm", H),
    FIXED(AFFINE_SHIFT, NORM, "std_bias", STANDARDISED, H),
    FIXED(AFFINE_SCALE, NORM, "std_scale", STANDARDISED, H),
};

static const struct cs_tensor_table tables[] = {
    {"qwen2_vl_vision",   "visual.", qwen2_vl_rows,   COUNT(qwen2_vl_rows)  },
    {"qwen2_5_vl_vision", "visual.", qwen2_5_vl_rows, COUNT(qwen2_5_vl_rows)},
    {"qwen3_vl_vision",   "visual.", qwen3_vl_rows,   COUNT(qwen3_vl_rows)  },
    {"pixtral",           NULL,      pixtral_rows,    COUNT(pixtral_rows)   },
    {"gemma4_vision",     NULL,      gemma4_rows,     COUNT(gemma4_rows)    },
};

/* clang-format on */

const struct cs_family_set cs_families_grid = {families, COUNT(families), tables, COUNT(tables)};
