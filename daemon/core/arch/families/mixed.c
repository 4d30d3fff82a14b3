/* Language models whose blocks differ in their halves: with experts, with recurrent layers. Sources:
 * configuration_{mixtral,qwen3_moe,qwen3_vl_moe,qwen3_5}.py of transformers 5.17 and the state dicts of
 * their classes; files have experts one by one where save_pretrained writes them so. */
#include "core/arch/families/family_rows.h"

#define SIZES(width_, ffn, layers, heads)                                                          \
    INT("hidden_size", width, width_, 1, MAX_WIDTH),                                               \
        INT("intermediate_size", ffn_width, ffn, 1, MAX_WIDTH),                                    \
        INT("num_hidden_layers", n_layers, layers, 1, MAX_LAYERS),                                 \
        INT("num_attention_heads", HEADS, heads, 1, MAX_HEADS)
#define WORDS(n, positions, is_tied_)                                                              \
    INT("vocab_size", vocab, n, 1, MAX_VOCAB),                                                     \
        INT("max_position_embeddings", max_positions, positions, 1, MAX_POSITIONS),                \
        ACT("hidden_act", CS_ARCH_SILU),                                                           \
        FLOAT("initializer_range", initializer_range, 0.02, 0, 10),                                \
        BOOL("tie_word_embeddings", is_tied, is_tied_)
#define ATTENTION_BIAS                                                                             \
    BOOL("attention_bias", has_qkv_bias, 0), BOOL("attention_bias", has_o_bias, 0)
/* read by experts.c: the loss of balance; which blocks have experts */
#define EXPERTS(n_, top)                                                                           \
    INT("num_experts|num_local_experts", experts.n, n_, 1, CS_EXPERTS_MAX),                        \
        INT("num_experts_per_tok", experts.top_k, top, 1, CS_EXPERTS_MAX),                         \
        FLOAT("router_aux_loss_coef", experts.balance, 0.001, 0, 1e6),                             \
        KNOWN(.names = "output_router_logits", .types = CS_DOC_BOOL)
#define SPARSE                                                                                     \
    KNOWN(.names = "decoder_sparse_step", .types = CS_DOC_INT, .min = 1, .max = MAX_LAYERS),       \
        KNOWN(.names = "mlp_only_layers", .types = CS_DOC_LIST)

static const struct cs_config_key mixtral_keys[] = {
    SIZES(4096, 14336, 32, 32),
    SAME("", experts.width, ffn_width, 1, MAX_WIDTH),
    MIXED("num_key_value_heads", KV_HEADS, 8, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    WORDS(32000, 4096 * 32, 0),
    EPS("rms_norm_eps", norm_eps, 1e-5),
    EXPERTS(8, 2),
    REFUSED("router_jitter_noise", NUMBER, "0", "noise on the router's input is not supported"),
    KNOWN(.names = "sliding_window", .types = CS_DOC_INT, .min = 0, .max = 1 << 30),
};

static const struct cs_config_key qwen3_moe_keys[] = {
    SIZES(2048, 6144, 24, 32),
    INT("moe_intermediate_size", experts.width, 768, 1, MAX_WIDTH),
    MIXED("num_key_value_heads", KV_HEADS, 4, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    WORDS(151936, 32768, 0),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    ATTENTION_BIAS,
    EXPERTS(128, 8),
    BOOL("norm_topk_prob", experts.is_normed, 0),
    SPARSE,
    KNOWN(.names = "use_sliding_window", .types = CS_DOC_BOOL),
    KNOWN(.names = "sliding_window", .types = CS_DOC_INT, .min = 0, .max = 1 << 30),
    /* the class gives all layers the window */
    HARMLESS("max_window_layers|layer_types"),
};

static const struct cs_config_key qwen3_vl_moe_keys[] = {
    SIZES(2048, 5632, 24, 16),
    INT("moe_intermediate_size", experts.width, 1408, 1, MAX_WIDTH),
    MIXED("num_key_value_heads", KV_HEADS, 16, HEADS, 1, MAX_HEADS),
    PER_HEAD("head_dim"),
    WORDS(151936, 128000, 1),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    ATTENTION_BIAS,
    EXPERTS(60, 4),
    SPARSE,
    /* the class norms always, and has no windows */
    HARMLESS("norm_topk_prob|sliding_window|use_sliding_window|max_window_layers"),
};

static const struct cs_config_key qwen3_5_keys[] = {
    SIZES(4096, 12288, 32, 16),
    MIXED("num_key_value_heads", KV_HEADS, 4, HEADS, 1, MAX_HEADS),
    INT("head_dim", HEAD_DIM, 256, 1, 1024),
    WORDS(248320, 32768, 0),
    EPS("rms_norm_eps", norm_eps, 1e-6),
    ATTENTION_BIAS,
    INT("linear_num_value_heads", recurrent.n_heads, 32, 1, MAX_HEADS),
    INT("linear_num_key_heads", recurrent.n_key_heads, 16, 1, MAX_HEADS),
    INT("linear_key_head_dim", recurrent.key_dim, 128, 1, CS_RECURRENT_MAX_DIM),
    INT("linear_value_head_dim", recurrent.value_dim, 128, 1, CS_RECURRENT_MAX_DIM),
    INT("linear_conv_kernel_dim", recurrent.taps, 4, 1, CS_RECURRENT_MAX_TAPS),
    KNOWN(.names = "layer_types", .types = CS_DOC_LIST),
    KNOWN(.names = "full_attention_interval", .types = CS_DOC_INT, .min = 1, .max = MAX_LAYERS),
    /* always there */
    KNOWN(.names = "attn_output_gate", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "true",
          .text = "the class gates attention always"),
    /* of layers that predict more than the next token, which are no part of the class; of kernels */
    HARMLESS("mtp_num_hidden_layers|mtp_use_dedicated_embeddings|mamba_ssm_dtype"),
};

static const struct cs_doc_table mixtral_table = CS_DOC_TABLE(mixtral_keys, &cs_model_language);
static const struct cs_doc_table qwen3_moe_table = CS_DOC_TABLE(qwen3_moe_keys, &cs_model_language);
static const struct cs_doc_table qwen3_vl_moe_table =
    CS_DOC_TABLE(qwen3_vl_moe_keys, &cs_model_language);
static const struct cs_doc_table qwen3_5_table = CS_DOC_TABLE(qwen3_5_keys, &cs_model_language);

static const struct cs_rope_rules mixtral_rope = {.theta = 1000000};
static const struct cs_rope_rules qwen3_moe_rope = {.theta = 10000};
static const struct cs_rope_rules qwen3_vl_moe_rope = {
    .theta = 500000, .axes = CS_ROPE_INTERLEAVED, .section = {24, 20, 20}
};
static const struct cs_rope_rules qwen3_5_rope = {
    .theta = 10000,
    .is_partial = true,
    .share = 0.25,
    .axes = CS_ROPE_INTERLEAVED,
    .section = {11, 11, 10}
};

/* clang-format off */
#define LLM(family_) .kind = CS_MODULE_LLM, .family = family_, .norm = CS_ARCH_RMS_NORM, .embed_scale = 1, \
                     .is_gated_mlp = true, .has_final_norm = true

static const struct cs_family families[] = {
    {.model_type = "mixtral", .base = {LLM("mixtral"), .experts = {.is_normed = true}}, .table = &mixtral_table,
     .rope = &mixtral_rope, .windows = CS_WINDOWS_ALL},
    {.model_type = "qwen3_moe", .base = {LLM("qwen3_moe"), .qk_norm = CS_QK_NORM_HEAD}, .table = &qwen3_moe_table,
     .rope = &qwen3_moe_rope, .windows = CS_WINDOWS_ALL_USED, .window = 4096},
    {.model_type = "qwen3_vl_moe_text", .base = {LLM("qwen3_vl_moe"), .qk_norm = CS_QK_NORM_HEAD, .experts = {.is_normed = true}},
     .table = &qwen3_vl_moe_table, .rope = &qwen3_vl_moe_rope},
    {.model_type = "qwen3_5_text", .base = {LLM("qwen3_5"), .norm_offset = 1, .qk_norm = CS_QK_NORM_HEAD, .has_output_gate = true},
     .table = &qwen3_5_table, .rope = &qwen3_5_rope, .windows = CS_WINDOWS_RECURRENT, .pattern = 4},
};

#define LAYER "model.layers.%d."

#define BEFORE                                                                                     \
    T(EMBED, EMBED, "model.embed_tokens.weight", ALWAYS, CS_DIM_VOCAB, H),                         \
    T(NORM1_W, BLOCK, LAYER "input_layernorm.weight", ALWAYS, H)
#define ATTENTION                                                                                  \
    T(Q_W, BLOCK, LAYER "self_attn.q_proj.weight", ATTENTION, CS_DIM_QGD, H),                      \
    T(Q_B, BLOCK, LAYER "self_attn.q_proj.bias", ATTENTION_QKV_BIAS, CS_DIM_QGD),                  \
    T(K_W, BLOCK, LAYER "self_attn.k_proj.weight", ATTENTION, KVD, H),                             \
    T(K_B, BLOCK, LAYER "self_attn.k_proj.bias", ATTENTION_QKV_BIAS, KVD),                         \
    T(V_W, BLOCK, LAYER "self_attn.v_proj.weight", ATTENTION, KVD, H),                             \
    T(V_B, BLOCK, LAYER "self_attn.v_proj.bias", ATTENTION_QKV_BIAS, KVD),                         \
    T(O_W, BLOCK, LAYER "self_attn.o_proj.weight", ATTENTION, H, QD),                              \
    T(O_B, BLOCK, LAYER "self_attn.o_proj.bias", ATTENTION_O_BIAS, H),                             \
    T(Q_NORM_W, BLOCK, LAYER "self_attn.q_norm.weight", ATTENTION_QK_NORM, CS_DIM_QN),             \
    T(K_NORM_W, BLOCK, LAYER "self_attn.k_norm.weight", ATTENTION_QK_NORM, CS_DIM_KN)
#define MLP                                                                                        \
    T(NORM2_W, BLOCK, LAYER "post_attention_layernorm.weight", ALWAYS, H),                         \
    T(GATE_W, BLOCK, LAYER "mlp.gate_proj.weight", DENSE, FFN, H),                                 \
    T(UP_W, BLOCK, LAYER "mlp.up_proj.weight", DENSE, FFN, H),                                     \
    T(DOWN_W, BLOCK, LAYER "mlp.down_proj.weight", DENSE, H, FFN)
#define BEHIND                                                                                     \
    T(NORM_W, HEAD, "model.norm.weight", FINAL_NORM, H),                                           \
    T(HEAD_W, HEAD, "lm_head.weight", UNTIED, CS_DIM_VOCAB, H)
#define ROUTER T(ROUTER_W, BLOCK, LAYER "mlp.gate.weight", EXPERTS, CS_DIM_EXPERTS, H)
/* as classes of version 5 have experts in memory */
#define GATE_UP LAYER "mlp.experts.gate_up_proj"
#define DOWN    LAYER "mlp.experts.down_proj"

static const struct cs_tensor_row mixtral_rows[] = {
    BEFORE, ATTENTION, MLP,
    {CS_PARAM_ROUTER_W, CS_LAYER_BLOCK, LAYER "block_sparse_moe.gate.weight", {CS_DIM_EXPERTS, H}, CS_IF_EXPERTS,
     0, false, false, LAYER "mlp.gate.weight"},
    E(EXPERT_GATE_W, LAYER "block_sparse_moe.experts.%d.w1.weight", GATE_UP, CS_DIM_EXPERT, H),
    E(EXPERT_UP_W, LAYER "block_sparse_moe.experts.%d.w3.weight", GATE_UP, CS_DIM_EXPERT, H),
    E(EXPERT_DOWN_W, LAYER "block_sparse_moe.experts.%d.w2.weight", DOWN, H, CS_DIM_EXPERT),
    BEHIND,
};

static const struct cs_tensor_row qwen3_moe_rows[] = {
    BEFORE, ATTENTION, MLP, ROUTER,
    E(EXPERT_GATE_W, LAYER "mlp.experts.%d.gate_proj.weight", GATE_UP, CS_DIM_EXPERT, H),
    E(EXPERT_UP_W, LAYER "mlp.experts.%d.up_proj.weight", GATE_UP, CS_DIM_EXPERT, H),
    E(EXPERT_DOWN_W, LAYER "mlp.experts.%d.down_proj.weight", DOWN, H, CS_DIM_EXPERT),
    BEHIND,
};

/* One tensor for all experts of a block, gate and up of each beside each other, of the first's role. */
static const struct cs_tensor_row qwen3_vl_moe_rows[] = {
    BEFORE, ATTENTION, MLP, ROUTER,
    T(EXPERT_GATE_W, BLOCK, GATE_UP, EXPERTS, CS_DIM_EXPERTS, CS_DIM_EXPERT2, H),
    T(EXPERT_DOWN_W, BLOCK, DOWN, EXPERTS, CS_DIM_EXPERTS, H, CS_DIM_EXPERT),
    BEHIND,
};

static const struct cs_tensor_row qwen3_5_rows[] = {
    BEFORE,
    T(MIX_QKV_W, BLOCK, LAYER "linear_attn.in_proj_qkv.weight", DELTA, CS_DIM_CONV, H),
    T(MIX_Z_W, BLOCK, LAYER "linear_attn.in_proj_z.weight", DELTA, CS_DIM_VALUES, H),
    T(MIX_B_W, BLOCK, LAYER "linear_attn.in_proj_b.weight", DELTA, CS_DIM_MIX_HEADS, H),
    T(MIX_A_W, BLOCK, LAYER "linear_attn.in_proj_a.weight", DELTA, CS_DIM_MIX_HEADS, H),
    T(CONV_W, BLOCK, LAYER "linear_attn.conv1d.weight", DELTA, CS_DIM_CONV, CS_DIM_ONE, CS_DIM_TAPS),
    T(DT_BIAS, BLOCK, LAYER "linear_attn.dt_bias", DELTA, CS_DIM_MIX_HEADS),
    T(A_LOG, BLOCK, LAYER "linear_attn.A_log", DELTA, CS_DIM_MIX_HEADS),
    T(MIX_NORM_W, BLOCK, LAYER "linear_attn.norm.weight", DELTA, CS_DIM_VALUE),
    T(MIX_OUT_W, BLOCK, LAYER "linear_attn.out_proj.weight", DELTA, H, CS_DIM_VALUES),
    ATTENTION, MLP, BEHIND,
};

static const struct cs_tensor_table tables[] = {
    {"mixtral",      NULL, mixtral_rows,      COUNT(mixtral_rows)     },
    {"qwen3_moe",    NULL, qwen3_moe_rows,    COUNT(qwen3_moe_rows)   },
    {"qwen3_vl_moe", NULL, qwen3_vl_moe_rows, COUNT(qwen3_vl_moe_rows)},
    {"qwen3_5",      NULL, qwen3_5_rows,      COUNT(qwen3_5_rows)     },
};

/* clang-format on */
const struct cs_family_set cs_families_mixed = {families, COUNT(families), tables, COUNT(tables)};
