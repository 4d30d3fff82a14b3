/* Language models of Gemma's kind: norms (1 + w) or w, embeddings times the root of the width, from
 * the second on a norm behind each half of a block, windows by layer. Sources:
 * configuration_gemma{,2,3,4}.py and modeling_gemma{,2,3,4}.py of transformers 5.17. */
#include "core/arch/families/family_rows.h"

#define SIZES(width_, ffn, layers, heads, kv)                                                      \
    INT("hidden_size", width, width_, 1, MAX_WIDTH),                                               \
        INT("intermediate_size", ffn_width, ffn, 1, MAX_WIDTH),                                    \
        INT("num_hidden_layers", n_layers, layers, 1, MAX_LAYERS),                                 \
        INT("num_attention_heads", HEADS, heads, 1, MAX_HEADS),                                    \
        INT("num_key_value_heads", KV_HEADS, kv, 1, MAX_HEADS),                                    \
        INT("head_dim", HEAD_DIM, 256, 1, 1024)
#define WORDS(n, positions)                                                                        \
    INT("vocab_size", vocab, n, 1, MAX_VOCAB),                                                     \
        INT("max_position_embeddings", max_positions, positions, 1, MAX_POSITIONS),                \
        EPS("rms_norm_eps", norm_eps, 1e-6),                                                       \
        FLOAT("initializer_range", initializer_range, 0.02, 0, 10),                                \
        BOOL("tie_word_embeddings", is_tied, 1), BOOL("attention_bias", has_qkv_bias, 0),          \
        BOOL("attention_bias", has_o_bias, 0)
#define CAUSAL                                                                                     \
    REFUSED("use_bidirectional_attention", BOOL, "false",                                          \
            "a text that sees what follows is not supported")
#define LAYERS                                                                                     \
    KNOWN(.names = "sliding_window", .types = CS_DOC_INT, .min = 0, .max = 1 << 30),               \
        KNOWN(.names = "layer_types", .types = CS_DOC_LIST)
/* of versions that cached otherwise, or read another name of the activation */
#define OLD HARMLESS("cache_implementation|hybrid_cache")

static const struct cs_config_key gemma_keys[] = {
    SIZES(3072, 24576, 28, 16, 16),
    WORDS(256000, 8192),
    ACT("hidden_act", CS_ARCH_GELU_TANH),
    CAUSAL,
    OLD,
    HARMLESS("hidden_activation"), /* of version 4; hidden_act is read */
};

static const struct cs_config_key gemma2_keys[] = {
    SIZES(2304, 9216, 26, 8, 4),
    WORDS(256000, 8192),
    ACT("hidden_activation", CS_ARCH_GELU_TANH),
    ROW("query_pre_attn_scalar", POSITIVE, 0, 1e6, FLOAT, AT(attention[0].scale), VALUE, 256, 0),
    OR_NONE("attn_logit_softcapping", attention[0].softcap, 50, 0, 1e6),
    OR_NONE("final_logit_softcapping", logit_softcap, 30, 0, 1e6),
    LAYERS,
    CAUSAL,
    OLD,
    HARMLESS("hidden_act"),
};

static const struct cs_config_key gemma3_keys[] = {
    SIZES(2304, 9216, 26, 8, 4),
    WORDS(262208, 131072),
    ACT("hidden_activation", CS_ARCH_GELU_TANH),
    ROW("query_pre_attn_scalar", POSITIVE, 0, 1e6, FLOAT, AT(attention[0].scale), VALUE, 256, 0),
    OR_NONE("final_logit_softcapping", logit_softcap, 0, 0, 1e6),
    REFUSED("attn_logit_softcapping", NUMBER, "0",
            "the class has no such cap, and does not apply it"),
    LAYERS,
    KNOWN(.names = "sliding_window_pattern", .types = CS_DOC_INT, .min = 1, .max = MAX_LAYERS),
    KNOWN(.names = "rope_local_base_freq", .types = CS_DOC_POSITIVE, .max = 1e15),
    CAUSAL,
    OLD,
    HARMLESS("_sliding_window_pattern|hidden_act"), /* layer_types stands beside the first */
};

static const struct cs_config_key gemma4_keys[] = {
    SIZES(2304, 9216, 30, 8, 4),
    WORDS(262144, 131072),
    ACT("hidden_activation", CS_ARCH_GELU_TANH),
    FLOAT("", attention[0].scale, 1, 0, 1), /* scores are not divided */
    OR_NONE("final_logit_softcapping", logit_softcap, 0, 0, 1e6),
    LAYERS,
    BOOL("attention_k_eq_v", is_k_eq_v, 0),
    /* of full layers: read by attention.c */
    KNOWN(.names = "global_head_dim", .types = CS_DOC_INT, .min = 1, .max = 1024),
    KNOWN(.names = "num_global_key_value_heads", .types = CS_DOC_INT, .min = 1, .max = MAX_HEADS),
    KNOWN(.names = "per_layer_config", .types = CS_DOC_OBJECT),
    KNOWN(.names = "use_bidirectional_attention", .types = CS_DOC_STRING, .accept = "vision",
          .text = "pictures see themselves in layers with a window; a job's mask says so"),
    INT("hidden_size_per_layer_input", per_layer_width, 256, 0, MAX_WIDTH),
    REFUSED("enable_moe_block", BOOL, "false", "experts beside the MLP are not supported"),
    REFUSED("num_kv_shared_layers", INT, "0", "keys and values shared by layers are not supported"),
    /* of what is refused above */
    HARMLESS("vocab_size_per_layer_input|use_double_wide_mlp|num_experts|top_k_experts|"
             "moe_intermediate_size"),
    HARMLESS("hidden_act"),
};

static const struct cs_doc_table gemma_table = CS_DOC_TABLE(gemma_keys, &cs_model_language);
static const struct cs_doc_table gemma2_table = CS_DOC_TABLE(gemma2_keys, &cs_model_language);
static const struct cs_doc_table gemma3_table = CS_DOC_TABLE(gemma3_keys, &cs_model_by_layer);
static const struct cs_doc_table gemma4_table = CS_DOC_TABLE(gemma4_keys, &cs_model_by_layer);

static const struct cs_rope_rules one_rope = {.theta = 10000};
static const struct cs_rope_rules gemma3_rope = {
    .theta = 1000000, .local_theta = 10000, .local_key = "rope_local_base_freq"};
static const struct cs_rope_rules gemma4_rope = {
    .theta = 10000,
    .local_theta = 10000,
    .is_new = true,
    .unsaid = {.kind = CS_ROPE_PROPORTIONAL, .theta = 1000000, .factor = 1, .share = 0.25},
};

#define LLM(family_, offset)                                                                       \
    .kind = CS_MODULE_LLM, .family = family_, .norm = CS_ARCH_RMS_NORM, .norm_offset = offset,     \
    .is_gated_mlp = true, .has_final_norm = true

/* embed_scale 0: the root of the width */
/* clang-format off */
static const struct cs_family families[] = {
    {.model_type = "gemma", .base = {LLM("gemma", 1)}, .table = &gemma_table, .rope = &one_rope},
    {.model_type = "gemma2", .base = {LLM("gemma2", 1), .has_post_norms = true}, .table = &gemma2_table, .rope = &one_rope,
     .windows = CS_WINDOWS_TYPES, .window = 4096, .pattern = 2},
    {.model_type = "gemma3_text", .base = {LLM("gemma3", 1), .has_post_norms = true, .qk_norm = CS_QK_NORM_HEAD},
     .table = &gemma3_table, .rope = &gemma3_rope, .windows = CS_WINDOWS_TYPES, .window = 4096, .pattern = 6},
    {.model_type = "gemma4_text", .base = {LLM("gemma4", 0), .has_post_norms = true, .qk_norm = CS_QK_NORM_HEAD,
     .has_v_norm = true, .has_layer_scalar = true}, .table = &gemma4_table, .rope = &gemma4_rope,
     .windows = CS_WINDOWS_TYPES, .window = 512, .pattern = 6, .is_last_full = true, .full = {512, 0}},
};

/* clang-format on */

#define BEFORE                                                                                     \
    T(EMBED, EMBED, "model.embed_tokens.weight", ALWAYS, CS_DIM_VOCAB, H),                         \
        T(NORM1_W, BLOCK, "model.layers.%d.input_layernorm.weight", ALWAYS, H),                    \
        T(Q_W, BLOCK, "model.layers.%d.self_attn.q_proj.weight", ALWAYS, QD, H),                   \
        T(Q_B, BLOCK, "model.layers.%d.self_attn.q_proj.bias", QKV_BIAS, QD),                      \
        T(K_W, BLOCK, "model.layers.%d.self_attn.k_proj.weight", ALWAYS, KVD, H),                  \
        T(K_B, BLOCK, "model.layers.%d.self_attn.k_proj.bias", QKV_BIAS, KVD),                     \
        T(V_W, BLOCK, "model.layers.%d.self_attn.v_proj.weight", V, KVD, H),                       \
        T(V_B, BLOCK, "model.layers.%d.self_attn.v_proj.bias", V_BIAS, KVD),                       \
        T(O_W, BLOCK, "model.layers.%d.self_attn.o_proj.weight", ALWAYS, H, QD),                   \
        T(O_B, BLOCK, "model.layers.%d.self_attn.o_proj.bias", O_BIAS, H),                         \
        T(Q_NORM_W, BLOCK, "model.layers.%d.self_attn.q_norm.weight", QK_NORM, CS_DIM_QN),         \
        T(K_NORM_W, BLOCK, "model.layers.%d.self_attn.k_norm.weight", QK_NORM, CS_DIM_KN)
#define BEHIND                                                                                     \
    T(GATE_W, BLOCK, "model.layers.%d.mlp.gate_proj.weight", ALWAYS, FFN, H),                      \
        T(UP_W, BLOCK, "model.layers.%d.mlp.up_proj.weight", ALWAYS, FFN, H),                      \
        T(DOWN_W, BLOCK, "model.layers.%d.mlp.down_proj.weight", ALWAYS, H, FFN),                  \
        T(NORM_W, HEAD, "model.norm.weight", FINAL_NORM, H),                                       \
        T(HEAD_W, HEAD, "lm_head.weight", UNTIED, CS_DIM_VOCAB, H)

static const struct cs_tensor_row gemma_rows[] = {
    BEFORE,
    T(NORM2_W, BLOCK, "model.layers.%d.post_attention_layernorm.weight", ALWAYS, H),
    BEHIND,
};

/* "post_attention" is what stands behind attention here, and not before the MLP */
static const struct cs_tensor_row gemma2_rows[] = {
    BEFORE,
    T(POST1_W, BLOCK, "model.layers.%d.post_attention_layernorm.weight", ALWAYS, H),
    T(NORM2_W, BLOCK, "model.layers.%d.pre_feedforward_layernorm.weight", ALWAYS, H),
    T(POST2_W, BLOCK, "model.layers.%d.post_feedforward_layernorm.weight", ALWAYS, H),
    FIXED(LAYER_SCALAR, BLOCK, "model.layers.%d.layer_scalar", LAYER_SCALAR, CS_DIM_ONE),
    BEHIND,
};

static const struct cs_tensor_table tables[] = {
    {"gemma",  NULL, gemma_rows,  COUNT(gemma_rows) },
    {"gemma2", NULL, gemma2_rows, COUNT(gemma2_rows)},
    {"gemma3", NULL, gemma2_rows, COUNT(gemma2_rows)},
    {"gemma4", NULL, gemma2_rows, COUNT(gemma2_rows)},
};

const struct cs_family_set cs_families_gemma = {families, COUNT(families), tables, COUNT(tables)};
