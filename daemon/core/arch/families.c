/* The tables. Sources: configuration_{siglip,llama,qwen2,qwen3}.py and the state dicts of transformers;
 * projector names are those of LlavaForConditionalGeneration's multi_modal_projector. */
#include "core/arch/families.h"

#include <stddef.h>
#include <string.h>

#define AT(field) offsetof(struct cs_arch, field)
#define HEADS     attention[0].n_heads
#define KV_HEADS  attention[0].n_kv_heads
#define HEAD_DIM  attention[0].head_dim

/* clang-format off */
#define ROW(names_, types_, lo, hi, store, field, fallback, d, other)                              \
    {{.names = names_, .types = CS_DOC_##types_, .min = lo, .max = hi}, CS_KEY_##store, field, CS_DEFAULT_##fallback, d, other}
#define INT(names, field, d, lo, hi)      ROW(names, INT, lo, hi, INT, AT(field), VALUE, d, 0)
#define EPS(names, field, d)              ROW(names, POSITIVE, 0, 1, FLOAT, AT(field), VALUE, d, 0)
#define FLOAT(names, field, d, lo, hi)    ROW(names, NUMBER, lo, hi, FLOAT, AT(field), VALUE, d, 0)
#define BOOL(names, field, d)             ROW(names, BOOL, 0, 0, BOOL, AT(field), VALUE, d, 0)
#define ACT(names_, d)                    {{.names = names_, .types = CS_DOC_STRING, .accept = CS_ACT_WORDS}, CS_KEY_ACT, AT(act), CS_DEFAULT_VALUE, d, 0}
#define SAME(names, field, other, lo, hi) ROW(names, INT, lo, hi, INT, AT(field), FIELD, 0, AT(other))
#define MIXED(names, field, d, other, lo, hi) ROW(names, INT, lo, hi, INT, AT(field), MIXED, d, AT(other))
#define PER_HEAD(names)                   ROW(names, INT, 1, 1024, INT, AT(HEAD_DIM), PER_HEAD, 0, 0)
/* read by other means than a field of its own, or not at all */
#define KNOWN(...)                        {{__VA_ARGS__}, CS_KEY_NONE, 0, 0, 0, 0}
#define REFUSED(names_, types_, only_, why) KNOWN(.names = names_, .types = CS_DOC_##types_, .use = CS_DOC_REFUSED, .only = only_, .text = why)
#define HARMLESS(names_)                  KNOWN(.names = names_, .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS)

/* clang-format on */

enum {
    MAX_WIDTH = 1 << 20,
    MAX_LAYERS = 4096,
    MAX_HEADS = 4096,
    MAX_VOCAB = 1 << 24,
    MAX_POSITIONS = 1 << 28,
    MAX_PIXELS = 1 << 12
};

/* A row whose default is another field comes after that field's row. */
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

static const struct cs_config_key llama_keys[] = {
    INT("hidden_size", width, 4096, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 11008, 1, MAX_WIDTH),
    INT("num_hidden_layers", n_layers, 32, 1, MAX_LAYERS),
    INT("num_attention_heads", HEADS, 32, 1, MAX_HEADS),
    SAME("num_key_value_heads", KV_HEADS, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    INT("vocab_size", vocab, 32000, 1, MAX_VOCAB),
    INT("max_position_embeddings", max_positions, 2048, 1, MAX_POSITIONS),
    ACT("hidden_act", CS_ARCH_SILU),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
    BOOL("tie_word_embeddings", is_tied, 0),
    BOOL("attention_bias", has_qkv_bias, 0),
    BOOL("attention_bias", has_o_bias, 0),
    REFUSED("mlp_bias", BOOL, "false", "biases in a gated MLP are not supported"),
};

/* windows of Qwen2 and Qwen3, read by attention.c */
#define WINDOWS                                                                                    \
    KNOWN(.names = "use_sliding_window", .types = CS_DOC_BOOL),                                    \
        KNOWN(.names = "sliding_window", .types = CS_DOC_INT, .min = 0, .max = 1 << 30),           \
        KNOWN(.names = "max_window_layers", .types = CS_DOC_INT, .min = 0, .max = 1 << 30),        \
        KNOWN(.names = "layer_types", .types = CS_DOC_LIST)

static const struct cs_config_key qwen2_keys[] = {
    INT("hidden_size", width, 4096, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 22016, 1, MAX_WIDTH),
    INT("num_hidden_layers", n_layers, 32, 1, MAX_LAYERS),
    INT("num_attention_heads", HEADS, 32, 1, MAX_HEADS),
    MIXED("num_key_value_heads", KV_HEADS, 32, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    INT("vocab_size", vocab, 151936, 1, MAX_VOCAB),
    INT("max_position_embeddings", max_positions, 32768, 1, MAX_POSITIONS),
    ACT("hidden_act", CS_ARCH_SILU),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
    BOOL("tie_word_embeddings", is_tied, 0),
    WINDOWS,
};

static const struct cs_config_key qwen3_keys[] = {
    INT("hidden_size", width, 4096, 1, MAX_WIDTH),
    INT("intermediate_size", ffn_width, 22016, 1, MAX_WIDTH),
    INT("num_hidden_layers", n_layers, 32, 1, MAX_LAYERS),
    INT("num_attention_heads", HEADS, 32, 1, MAX_HEADS),
    MIXED("num_key_value_heads", KV_HEADS, 32, HEADS, 1, MAX_HEADS),
    INT("head_dim", HEAD_DIM, 128, 1, 1024),
    INT("vocab_size", vocab, 151936, 1, MAX_VOCAB),
    INT("max_position_embeddings", max_positions, 32768, 1, MAX_POSITIONS),
    ACT("hidden_act", CS_ARCH_SILU),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    FLOAT("initializer_range", initializer_range, 0.02, 0, 10),
    BOOL("tie_word_embeddings", is_tied, 0),
    BOOL("attention_bias", has_qkv_bias, 0),
    BOOL("attention_bias", has_o_bias, 0),
    WINDOWS,
};

/* What a composite of two towers says beside its vision_config. */
static const struct cs_config_key siglip_pair_keys[] = {
    KNOWN(.names = "vision_config", .types = CS_DOC_OBJECT),
    HARMLESS("text_config|initializer_factor|logit_scale_init_value|projection_dim"),
};

static const struct cs_doc_table siglip_table = CS_DOC_TABLE(siglip_keys, &cs_model_common);
static const struct cs_doc_table siglip_pair_table =
    CS_DOC_TABLE(siglip_pair_keys, &cs_model_common);
static const struct cs_doc_table llama_table = CS_DOC_TABLE(llama_keys, &cs_model_language);
static const struct cs_doc_table qwen2_table = CS_DOC_TABLE(qwen2_keys, &cs_model_language);
static const struct cs_doc_table qwen3_table = CS_DOC_TABLE(qwen3_keys, &cs_model_language);

#define COUNT(a) (int)CS_ARRAY_LEN(a)

/* clang-format off */
static const struct cs_family families[] = {
    {
        .model_type = "siglip_vision_model",
        .base = {.kind = CS_MODULE_ENCODER, .family = "siglip", .norm = CS_ARCH_LAYER_NORM, .embed_scale = 1,
                 .has_qkv_bias = true, .has_o_bias = true, .has_mlp_bias = true, .has_patch_bias = true,
                 .has_positions = true, .has_final_norm = true},
        .table = &siglip_table,
    },
    {.model_type = "siglip", .inner = "vision_config", .inner_type = "siglip_vision_model", .table = &siglip_pair_table},
    {
        .model_type = "llama",
        .base = {.kind = CS_MODULE_LLM, .family = "llama", .norm = CS_ARCH_RMS_NORM, .embed_scale = 1,
                 .is_gated_mlp = true, .has_final_norm = true},
        .table = &llama_table,
        .has_rope = true,      .rope_theta = 10000,
    },
    {
        .model_type = "qwen2",
        .base = {.kind = CS_MODULE_LLM, .family = "qwen2", .norm = CS_ARCH_RMS_NORM, .embed_scale = 1,
                 .is_gated_mlp = true, .has_qkv_bias = true, .has_final_norm = true},
        .table = &qwen2_table,
        .has_rope = true,      .rope_theta = 10000,
        .windows = CS_WINDOWS_ABOVE,
    },
    {
        .model_type = "qwen3",
        .base = {.kind = CS_MODULE_LLM, .family = "qwen3", .norm = CS_ARCH_RMS_NORM, .embed_scale = 1,
                 .is_gated_mlp = true, .has_qk_norm = true, .has_final_norm = true},
        .table = &qwen3_table,
        .has_rope = true,      .rope_theta = 10000,
        .windows = CS_WINDOWS_ABOVE,
    },
};

/* clang-format on */

const struct cs_family *cs_families(int *n)
{
    *n = COUNT(families);
    return families;
}

#define H   CS_DIM_H
#define IN  CS_DIM_IN
#define FFN CS_DIM_FFN
#define QD  CS_DIM_QD
#define KVD CS_DIM_KVD
/* clang-format off */
/* one of several tensors of its role in a layer; the only one */
#define P(role, part, kind, name, cond, ...) \
    {CS_PARAM_##role, CS_LAYER_##kind, name, {__VA_ARGS__}, CS_IF_##cond, part}
#define T(role, kind, name, cond, ...) P(role, 0, kind, name, cond, __VA_ARGS__)
/* clang-format on */

static const struct cs_tensor_row siglip_rows[] = {
    T(PATCH_W, EMBED, "embeddings.patch_embedding.weight", ALWAYS, H, CS_DIM_CHANNELS, CS_DIM_PATCH,
      CS_DIM_PATCH),
    T(PATCH_B, EMBED, "embeddings.patch_embedding.bias", PATCH_BIAS, H),
    T(POSITION, EMBED, "embeddings.position_embedding.weight", POSITIONS, CS_DIM_ITEMS, H),
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

/* Llama's names serve every decoder of its kind. */
static const struct cs_tensor_row llama_rows[] = {
    T(EMBED, EMBED, "model.embed_tokens.weight", ALWAYS, CS_DIM_VOCAB, H),
    T(NORM1_W, BLOCK, "model.layers.%d.input_layernorm.weight", ALWAYS, H),
    T(Q_W, BLOCK, "model.layers.%d.self_attn.q_proj.weight", ALWAYS, QD, H),
    T(Q_B, BLOCK, "model.layers.%d.self_attn.q_proj.bias", QKV_BIAS, QD),
    T(K_W, BLOCK, "model.layers.%d.self_attn.k_proj.weight", ALWAYS, KVD, H),
    T(K_B, BLOCK, "model.layers.%d.self_attn.k_proj.bias", QKV_BIAS, KVD),
    T(V_W, BLOCK, "model.layers.%d.self_attn.v_proj.weight", ALWAYS, KVD, H),
    T(V_B, BLOCK, "model.layers.%d.self_attn.v_proj.bias", QKV_BIAS, KVD),
    T(O_W, BLOCK, "model.layers.%d.self_attn.o_proj.weight", ALWAYS, H, QD),
    T(O_B, BLOCK, "model.layers.%d.self_attn.o_proj.bias", O_BIAS, H),
    T(Q_NORM_W, BLOCK, "model.layers.%d.self_attn.q_norm.weight", QK_NORM, CS_DIM_HD),
    T(K_NORM_W, BLOCK, "model.layers.%d.self_attn.k_norm.weight", QK_NORM, CS_DIM_HD),
    T(NORM2_W, BLOCK, "model.layers.%d.post_attention_layernorm.weight", ALWAYS, H),
    T(GATE_W, BLOCK, "model.layers.%d.mlp.gate_proj.weight", ALWAYS, FFN, H),
    T(UP_W, BLOCK, "model.layers.%d.mlp.up_proj.weight", ALWAYS, FFN, H),
    T(DOWN_W, BLOCK, "model.layers.%d.mlp.down_proj.weight", ALWAYS, H, FFN),
    T(NORM_W, HEAD, "model.norm.weight", FINAL_NORM, H),
    T(HEAD_W, HEAD, "lm_head.weight", UNTIED, CS_DIM_VOCAB, H),
};

static const struct cs_tensor_row mlp_rows[] = {
    P(PROJ_W, 0, PROJECTOR, "linear_1.weight", ALWAYS, FFN, IN),
    P(PROJ_B, 0, PROJECTOR, "linear_1.bias", MLP_BIAS, FFN),
    P(PROJ_W, 1, PROJECTOR, "linear_2.weight", TWO_LAYERS, H, FFN),
    P(PROJ_B, 1, PROJECTOR, "linear_2.bias", TWO_BIASES, H),
};

static const struct cs_tensor_row linear_rows[] = {
    T(PROJ_W, PROJECTOR, "linear.weight", ALWAYS, H, IN),
    T(PROJ_B, PROJECTOR, "linear.bias", MLP_BIAS, H),
};

static const struct cs_tensor_table tables[] = {
    {"siglip", "vision_model.",          siglip_rows, COUNT(siglip_rows)},
    {"llama",  NULL,                     llama_rows,  COUNT(llama_rows) },
    {"qwen2",  NULL,                     llama_rows,  COUNT(llama_rows) },
    {"qwen3",  NULL,                     llama_rows,  COUNT(llama_rows) },
    {"mlp",    "multi_modal_projector.", mlp_rows,    COUNT(mlp_rows)   },
    {"linear", "multi_modal_projector.", linear_rows, COUNT(linear_rows)},
};

const struct cs_tensor_table *cs_family_tensors(const char *family)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(tables); i++) {
        if (strcmp(tables[i].family, family) == 0)
            return &tables[i];
    }
    return NULL;
}
