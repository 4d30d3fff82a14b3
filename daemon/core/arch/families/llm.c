/* Language models of Llama's kind. Sources: configuration_{llama,mistral,ministral3,qwen2,qwen3,
 * qwen2_vl,qwen2_5_vl,qwen3_vl,phi3}.py of transformers 5.17 and the state dicts of their classes. */
#include "core/arch/families/family_rows.h"

/* what they all have */
#define SIZES(width_, ffn, layers, heads)                                                          \
    INT("hidden_size", width, width_, 1, MAX_WIDTH),                                               \
        INT("intermediate_size", ffn_width, ffn, 1, MAX_WIDTH),                                    \
        INT("num_hidden_layers", n_layers, layers, 1, MAX_LAYERS),                                 \
        INT("num_attention_heads", HEADS, heads, 1, MAX_HEADS)
#define WORDS(n, positions)                                                                        \
    INT("vocab_size", vocab, n, 1, MAX_VOCAB),                                                     \
        INT("max_position_embeddings", max_positions, positions, 1, MAX_POSITIONS),                \
        ACT("hidden_act", CS_ARCH_SILU),                                                           \
        FLOAT("initializer_range", initializer_range, 0.02, 0, 10),                                \
        BOOL("tie_word_embeddings", is_tied, 0)
#define ATTENTION_BIAS                                                                             \
    BOOL("attention_bias", has_qkv_bias, 0), BOOL("attention_bias", has_o_bias, 0)

/* windows, read by attention.c: of all layers; of layers above one (Qwen) */
#define WINDOW KNOWN(.names = "sliding_window", .types = CS_DOC_INT, .min = 0, .max = 1 << 30)
#define WINDOWS                                                                                    \
    WINDOW, KNOWN(.names = "use_sliding_window", .types = CS_DOC_BOOL),                            \
        KNOWN(.names = "max_window_layers", .types = CS_DOC_INT, .min = 0, .max = 1 << 30),        \
        KNOWN(.names = "layer_types", .types = CS_DOC_LIST)

static const struct cs_config_key llama_keys[] = {
    SIZES(4096, 11008, 32, 32),
    SAME("num_key_value_heads", KV_HEADS, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    WORDS(32000, 2048),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    ATTENTION_BIAS,
    BOOL("mlp_bias", has_mlp_bias, 0),
};

static const struct cs_config_key mistral_keys[] = {
    SIZES(4096, 14336, 32, 32),
    MIXED("num_key_value_heads", KV_HEADS, 8, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    WORDS(32000, 4096 * 32),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    WINDOW,
    /* the class gives all layers the window, whatever their types */
    HARMLESS("layer_types"),
};

static const struct cs_config_key ministral3_keys[] = {
    SIZES(4096, 14336, 34, 32),
    MIXED("num_key_value_heads", KV_HEADS, 8, HEADS, 1, MAX_HEADS),
    ROW("head_dim", INT, 1, 1024, INT, AT(HEAD_DIM), NULL_PER_HEAD, 128, 0),
    WORDS(131072, 262144),
    EPS("rms_norm_eps", norm_eps, 1e-5),
    WINDOW,
    HARMLESS("layer_types"),
};

static const struct cs_config_key qwen2_keys[] = {
    SIZES(4096, 22016, 32, 32),
    MIXED("num_key_value_heads", KV_HEADS, 32, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    WORDS(151936, 32768),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    WINDOWS,
};

static const struct cs_config_key qwen3_keys[] = {
    SIZES(4096, 22016, 32, 32),
    MIXED("num_key_value_heads", KV_HEADS, 32, HEADS, 1, MAX_HEADS),
    INT("head_dim", HEAD_DIM, 128, 1, 1024),
    WORDS(151936, 32768),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    ATTENTION_BIAS,
    WINDOWS,
};

/* Inside of Qwen2-VL and Qwen2.5-VL, alike. The composite says whether the embeddings are tied. */
static const struct cs_config_key qwen2_vl_keys[] = {
    SIZES(8192, 29568, 80, 64),
    MIXED("num_key_value_heads", KV_HEADS, 8, HEADS, 1, MAX_HEADS),
    PER_HEAD(""),
    WORDS(152064, 32768),
    EPS("rms_norm_eps", norm_eps, 1e-5),
    WINDOWS,
    /* of the composite, repeated by versions that had one config for both */
    HARMLESS("vision_start_token_id|vision_end_token_id|vision_token_id|image_token_id|"
             "video_token_id"),
};

static const struct cs_config_key qwen3_vl_keys[] = {
    SIZES(4096, 22016, 32, 32),
    MIXED("num_key_value_heads", KV_HEADS, 32, HEADS, 1, MAX_HEADS),
    INT("head_dim", HEAD_DIM, 128, 1, 1024),
    WORDS(151936, 128000),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    ATTENTION_BIAS,
};

static const struct cs_config_key phi3_keys[] = {
    SIZES(3072, 8192, 32, 32),
    SAME("num_key_value_heads", KV_HEADS, HEADS, 1, MAX_HEADS),
    PER_HEAD(""),
    WORDS(32064, 4096),
    EPS("rms_norm_eps", norm_eps, 1e-5),
    WINDOW,
    REFUSED("resid_pdrop", NUMBER, "0", "dropout is not supported"),
    /* the class has no code for it */
    HARMLESS("embd_pdrop"),
};

static const struct cs_doc_table llama_table = CS_DOC_TABLE(llama_keys, &cs_model_language);
static const struct cs_doc_table mistral_table = CS_DOC_TABLE(mistral_keys, &cs_model_language);
static const struct cs_doc_table ministral3_table =
    CS_DOC_TABLE(ministral3_keys, &cs_model_language);
static const struct cs_doc_table qwen2_table = CS_DOC_TABLE(qwen2_keys, &cs_model_language);
static const struct cs_doc_table qwen3_table = CS_DOC_TABLE(qwen3_keys, &cs_model_language);
static const struct cs_doc_table qwen2_vl_table = CS_DOC_TABLE(qwen2_vl_keys, &cs_model_language);
static const struct cs_doc_table qwen3_vl_table = CS_DOC_TABLE(qwen3_vl_keys, &cs_model_language);
static const struct cs_doc_table phi3_table = CS_DOC_TABLE(phi3_keys, &cs_model_language);

static const struct cs_rope_rules one_rope = {.theta = 10000};
/* what the class takes where the config says nothing of rope at all */
static const struct cs_rope_rules ministral3_rope = {
    .theta = 10000,
    .unsaid = {.kind = CS_ROPE_YARN,
               .theta = 1000000,
               .factor = 16,
               .low_freq = 1,
               .high_freq = 32,
               .is_truncated = true,
               .amplitude = 1,
               .original_positions = 16384,
               .query_growth = 0.1},
};
static const struct cs_rope_rules qwen2_vl_rope = {
    .theta = 1000000, .axes = CS_ROPE_SECTIONS, .section = {16, 24, 24}
};
static const struct cs_rope_rules qwen3_vl_rope = {
    .theta = 500000, .axes = CS_ROPE_INTERLEAVED, .section = {24, 20, 20}
};
static const struct cs_rope_rules phi3_rope = {
    .theta = 10000, .is_partial = true, .is_longrope = true, .original_positions = 4096};

#define LLM(family_)                                                                               \
    .kind = CS_MODULE_LLM, .family = family_, .norm = CS_ARCH_RMS_NORM, .embed_scale = 1,          \
    .is_gated_mlp = true, .has_final_norm = true

/* clang-format off */
static const struct cs_family families[] = {
    {.model_type = "llama", .base = {LLM("llama")}, .table = &llama_table, .rope = &one_rope},
    {.model_type = "mistral", .base = {LLM("mistral")}, .table = &mistral_table, .rope = &one_rope,
     .windows = CS_WINDOWS_ALL, .window = 4096},
    {.model_type = "ministral3", .base = {LLM("ministral3")}, .table = &ministral3_table, .rope = &ministral3_rope,
     .windows = CS_WINDOWS_ALL},
    {.model_type = "qwen2", .base = {LLM("qwen2"), .has_qkv_bias = true}, .table = &qwen2_table, .rope = &one_rope,
     .windows = CS_WINDOWS_ABOVE, .window = 4096, .pattern = 28},
    {.model_type = "qwen3", .base = {LLM("qwen3"), .qk_norm = CS_QK_NORM_HEAD}, .table = &qwen3_table, .rope = &one_rope,
     .windows = CS_WINDOWS_ABOVE, .window = 4096, .pattern = 28},
    {.model_type = "qwen2_vl_text", .base = {LLM("qwen2"), .has_qkv_bias = true}, .table = &qwen2_vl_table,
     .rope = &qwen2_vl_rope, .windows = CS_WINDOWS_ABOVE, .window = 4096, .pattern = 80},
    {.model_type = "qwen2_5_vl_text", .base = {LLM("qwen2"), .has_qkv_bias = true}, .table = &qwen2_vl_table,
     .rope = &qwen2_vl_rope, .windows = CS_WINDOWS_ABOVE, .window = 4096, .pattern = 80},
    {.model_type = "qwen3_vl_text", .base = {LLM("qwen3"), .qk_norm = CS_QK_NORM_HEAD}, .table = &qwen3_vl_table,
     .rope = &qwen3_vl_rope},
    {.model_type = "phi3", .base = {LLM("phi3")}, .table = &phi3_table, .rope = &phi3_rope,
     .windows = CS_WINDOWS_ALL},
};

/* clang-format on */

/* Llama's names serve every decoder of its kind. */
#define BEFORE                                                                                     \
    T(EMBED, EMBED, "model.embed_tokens.weight", ALWAYS, CS_DIM_VOCAB, H),                         \
        T(NORM1_W, BLOCK, "model.layers.%d.input_layernorm.weight", ALWAYS, H)
#define BETWEEN                                                                                    \
    T(O_W, BLOCK, "model.layers.%d.self_attn.o_proj.weight", ALWAYS, H, QD),                       \
        T(O_B, BLOCK, "model.layers.%d.self_attn.o_proj.bias", O_BIAS, H),                         \
        T(Q_NORM_W, BLOCK, "model.layers.%d.self_attn.q_norm.weight", QK_NORM, CS_DIM_QN),         \
        T(K_NORM_W, BLOCK, "model.layers.%d.self_attn.k_norm.weight", QK_NORM, CS_DIM_KN),         \
        T(NORM2_W, BLOCK, "model.layers.%d.post_attention_layernorm.weight", ALWAYS, H)
#define BEHIND                                                                                     \
    T(DOWN_W, BLOCK, "model.layers.%d.mlp.down_proj.weight", ALWAYS, H, FFN),                      \
        T(DOWN_B, BLOCK, "model.layers.%d.mlp.down_proj.bias", MLP_BIAS, H),                       \
        T(NORM_W, HEAD, "model.norm.weight", FINAL_NORM, H),                                       \
        T(HEAD_W, HEAD, "lm_head.weight", UNTIED, CS_DIM_VOCAB, H)

static const struct cs_tensor_row llama_rows[] = {
    BEFORE,
    T(Q_W, BLOCK, "model.layers.%d.self_attn.q_proj.weight", ALWAYS, QD, H),
    T(Q_B, BLOCK, "model.layers.%d.self_attn.q_proj.bias", QKV_BIAS, QD),
    T(K_W, BLOCK, "model.layers.%d.self_attn.k_proj.weight", ALWAYS, KVD, H),
    T(K_B, BLOCK, "model.layers.%d.self_attn.k_proj.bias", QKV_BIAS, KVD),
    T(V_W, BLOCK, "model.layers.%d.self_attn.v_proj.weight", ALWAYS, KVD, H),
    T(V_B, BLOCK, "model.layers.%d.self_attn.v_proj.bias", QKV_BIAS, KVD),
    BETWEEN,
    T(GATE_W, BLOCK, "model.layers.%d.mlp.gate_proj.weight", ALWAYS, FFN, H),
    T(GATE_B, BLOCK, "model.layers.%d.mlp.gate_proj.bias", MLP_BIAS, FFN),
    T(UP_W, BLOCK, "model.layers.%d.mlp.up_proj.weight", ALWAYS, FFN, H),
    T(UP_B, BLOCK, "model.layers.%d.mlp.up_proj.bias", MLP_BIAS, FFN),
    BEHIND,
};

/* One tensor for q, k and v, and one for gate and up, of the role of the first of them. */
static const struct cs_tensor_row phi3_rows[] = {
    BEFORE,  T(Q_W, BLOCK, "model.layers.%d.self_attn.qkv_proj.weight", ALWAYS, CS_DIM_QKV, H),
    BETWEEN, T(GATE_W, BLOCK, "model.layers.%d.mlp.gate_up_proj.weight", ALWAYS, CS_DIM_FFN2, H),
    BEHIND,
};

static const struct cs_tensor_table tables[] = {
    {"llama",      NULL, llama_rows, COUNT(llama_rows)},
    {"mistral",    NULL, llama_rows, COUNT(llama_rows)},
    {"ministral3", NULL, llama_rows, COUNT(llama_rows)},
    {"qwen2",      NULL, llama_rows, COUNT(llama_rows)},
    {"qwen3",      NULL, llama_rows, COUNT(llama_rows)},
    {"phi3",       NULL, phi3_rows,  COUNT(phi3_rows) },
};

const struct cs_family_set cs_families_llm = {families, COUNT(families), tables, COUNT(tables)};
