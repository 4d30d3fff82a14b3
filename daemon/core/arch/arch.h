/* Architectures: what a Hugging Face config.json says, resolved to the options of our few blocks,
 * and the tensors such a model has. A family is a data table (config keys, class defaults,
 * tensor-name patterns); there is no code path per family.
 *
 * Sources of the keys, defaults and names: transformers' configuration classes; v4 and v5 spellings
 * (rope_theta / rope_parameters, torch_dtype / dtype) are both read. An absent key means the class
 * default of that model_type. Pure: works on parsed JSON, never on files. */
#ifndef CS_MODEL_ARCH_H
#define CS_MODEL_ARCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/arch/attention.h"
#include "core/arch/chain.h"
#include "core/arch/experts.h"
#include "core/arch/front.h"
#include "core/arch/recurrent.h"
#include "core/base/arena.h"
#include "core/base/status.h"
#include "core/doc/findings.h"

enum cs_module_kind { CS_MODULE_ENCODER, CS_MODULE_PROJECTOR, CS_MODULE_LLM, CS_MODULE_KINDS };

/* values equal enum cs_norm of kernels/ops.h */
enum cs_norm_kind { CS_ARCH_LAYER_NORM, CS_ARCH_RMS_NORM };

/* values equal enum cs_act of kernels/ops.h */
enum cs_arch_act {
    CS_ARCH_ACT_NONE,
    CS_ARCH_GELU,
    CS_ARCH_GELU_TANH,
    CS_ARCH_QUICK_GELU,
    CS_ARCH_SILU,
    CS_ARCH_RELU
};

/* The halves of a block: where its rows meet, and what it does to every row by itself. */
enum cs_mixer { CS_MIXER_ATTENTION, CS_MIXER_DELTA, CS_MIXERS };

enum cs_ffn { CS_FFN_DENSE, CS_FFN_EXPERTS, CS_FFNS };

/* RMS norms of queries and keys before they turn: of every head by itself, or of all of them. */
enum cs_qk_norm { CS_QK_NORM_NONE, CS_QK_NORM_HEAD, CS_QK_NORM_WIDTH };

enum { CS_TAPS = 8 }; /* of one encoder */

/* One module's options. Complete and consistent once it is read: heads divide, shapes are positive,
 * every block names one of n_attentions kinds. Plain values but for family (a constant) and
 * block_attention (in the arena it was read into). */
struct cs_arch {
    enum cs_module_kind kind;
    const char *family; /* "siglip", "llama", "qwen2", "mlp" (projector), "linear" (projector) */
    int32_t width;      /* hidden size; projector: output width */
    int32_t in_width;   /* projector: input width; encoder: values of a patch */
    int32_t n_layers;   /* blocks; projector: linear layers */
    int32_t ffn_width;  /* inner width of the MLP */
    struct cs_attention attention[CS_ATTENTIONS]; /* kinds, in the order of their first blocks */
    int32_t n_attentions;                         /* 0: nothing attends (a projector) */
    const uint8_t *block_attention; /* (n_layers) kind of every block; NULL: all are of kind 0 */
    const uint8_t *block_mixer, *block_ffn; /* (n_layers) enum cs_mixer, cs_ffn; NULL: all are 0 */
    struct cs_recurrent recurrent;          /* of blocks of CS_MIXER_DELTA */
    struct cs_experts experts;              /* of blocks of CS_FFN_EXPERTS */
    enum cs_norm_kind norm;
    float norm_eps, norm_offset; /* offset 1 for (1 + w) */
    enum cs_arch_act act;
    bool is_gated_mlp, has_qkv_bias, has_o_bias, has_mlp_bias, has_final_norm;
    enum cs_qk_norm qk_norm;
    bool has_v_norm;      /* values of every head too, without a weight */
    bool has_output_gate; /* q_proj has a gate behind every head: attention times its sigmoid */
    bool has_post_norms;  /* a norm behind each half of a block, before it is added */
    bool
        has_layer_scalar; /* what leaves a block is multiplied with a number that is in the files */
    bool has_layer_scale; /* what a half of a block adds is multiplied with a vector */
    float initializer_range;

    /* language models */
    int32_t vocab, max_positions;
    bool is_tied;        /* lm_head is embed_tokens */
    float embed_scale;   /* 1 unless the family scales; rounded to the act type where it is used */
    float logit_softcap; /* logits become c tanh(z / c); 0: none */
    bool is_k_eq_v;      /* as read; which kinds of attention it is true of, they say */
    int32_t per_layer_width; /* as read; refused unless 0 */

    /* encoders; sounds have channels (bins of a frame) alone */
    int32_t image_size; /* pixels a side, where all pictures have one size; 0: they have any */
    int32_t patch_size, channels;
    bool has_patch_bias;
    struct cs_front front;

    /* Behind the blocks of an encoder (the layer CS_LAYER_NORM; n 0: nothing), or the whole of a
     * projector. A tap is behind blocks of an encoder: tap_block (n_taps) rising. */
    struct cs_chain chain, tap;
    int32_t n_taps;
    int32_t tap_block[CS_TAPS];
};

/* What a parameter is for; the worker's layers find their tensors by role, and where a layer has
 * several of one role, by their part: 0 to n - 1 in the order they are used (the linear layers of a
 * projector). */
/* clang-format off */
#define CS_PARAM_ROLES(X)                                                                          \
    X(EMBED) X(CLASS) X(PATCH_W) X(PATCH_B) X(POSITION) X(PRE_NORM_W) X(PRE_NORM_B)                \
    X(NORM1_W) X(NORM1_B) X(Q_W) X(Q_B) X(K_W) X(K_B) X(V_W) X(V_B) X(O_W) X(O_B)                  \
    X(Q_NORM_W) X(K_NORM_W)                                                                        \
    X(MIX_QKV_W) X(MIX_Z_W) X(MIX_B_W) X(MIX_A_W) X(CONV_W) X(DT_BIAS) X(A_LOG) X(MIX_NORM_W)      \
    X(MIX_OUT_W)                                                                                   \
    X(POST1_W) X(NORM2_W) X(NORM2_B) X(GATE_W) X(GATE_B) X(UP_W) X(UP_B) X(DOWN_W) X(DOWN_B)       \
    X(ROUTER_W) X(EXPERT_GATE_W) X(EXPERT_UP_W) X(EXPERT_DOWN_W)                                   \
    X(POST2_W) X(LAYER_SCALAR) X(SCALE1) X(SCALE2)                                                 \
    X(NORM_W) X(NORM_B) X(HEAD_W)                                                                  \
    X(AFFINE_SHIFT) X(AFFINE_SCALE) X(PROJ_W) X(PROJ_B) X(NEWLINE)                                 \
    X(ADAPTER_A) X(ADAPTER_B)

enum cs_param_role {
#define X(r) CS_PARAM_##r,
    CS_PARAM_ROLES(X)
#undef X
        CS_PARAM_ROLE_COUNT
};
/* clang-format on */
const char *cs_param_role_name(enum cs_param_role role); /* "q_w" */

/* Matrices that one product reads (q, k and v; gate and up; those of all experts) and their biases are
 * a group: they lie side by side in a rank's memory, and train together or not at all. A family that
 * has one tensor for all of them gives it the role of the first. */
struct cs_role_group {
    int group; /* 0: the tensor is read alone */
    int order; /* in the group: rising, not always by one */
};

/* of the tensor `part` of a role */
struct cs_role_group cs_param_role_group(enum cs_param_role role, int32_t part);

/* Where in the module a tensor lives; order of the enum is dataflow order, but that a tap stands
 * right behind its block. */
enum cs_layer_kind {
    CS_LAYER_EMBED,     /* token embedding, or patches + positions */
    CS_LAYER_BLOCK,     /* one transformer block */
    CS_LAYER_TAP,       /* rows pass; what arch.tap makes of them feeds a layer of the LLM */
    CS_LAYER_NORM,      /* the chain behind an encoder's blocks: its final norm */
    CS_LAYER_PROJECTOR, /* the whole projector */
    CS_LAYER_HEAD,      /* final norm of an LLM + lm_head + loss */
    CS_LAYER_KINDS
};

enum { CS_TENSOR_DIMS = 5 };

/* Fresh values. */
enum cs_init {
    CS_INIT_NORMAL, /* N(0, initializer_range) */
    CS_INIT_ZERO,
    CS_INIT_ONE,
    CS_INIT_FAN_IN, /* N(0, 1 / (3 columns)): the variance of PEFT's uniform values */
    CS_INIT_DECAY   /* log of uniform in (0.01, 16): decays of recurrent layers */
};

/* A tensor of a module, by its family's table. */
struct cs_tensor_info {
    const char *name; /* in the component's own directory: "model.layers.3.mlp.up_proj.weight" */
    const char *alt;  /* another spelling found in files ("vision_model." before it), or NULL */
    /* The tensor of transformers' class that holds this one, from its element whole_at on: classes
     * keep experts together that files have one by one. NULL: one of the same name. */
    const char *whole;
    int64_t whole_at;
    enum cs_param_role role;
    int32_t part; /* among the layer's tensors of that role */
    enum cs_layer_kind layer_kind;
    int32_t layer; /* index of the block, of the tap; 0 elsewhere */
    int32_t n_dims;
    int64_t dim[CS_TENSOR_DIMS];
    bool is_decayed; /* weight decay applies: not a bias, not a norm */
    bool is_fixed;   /* a constant of the model: no rule makes it train */

    enum cs_init init;
};

/* A config.json, or the part of one that is a model of its own: where it stands, for messages. */
struct cs_config_source {
    const char *document, *where; /* "DIR/config.json"; "" or "text_config" */
    const json_t *json;
    struct cs_findings
        *findings; /* unknown keys, shadowed ones, defaults that were taken; or NULL */
};

/* model_type of config decides the family; composite configs (llava) are split by the caller.
 * Errors name the document, the key, the value and what is accepted. Strings point into arena. */
enum cs_status cs_arch_read(const struct cs_config_source *config, struct cs_arena *arena,
                            struct cs_arch *out, struct cs_err *err) CS_NODISCARD;
/* the same for a config of which no more is known than that it is one */
enum cs_status cs_arch_from_config(const json_t *config, struct cs_arena *arena,
                                   struct cs_arch *out, struct cs_err *err) CS_NODISCARD;

/* What a projector is, its widths aside: those of its neighbours. */
struct cs_projector {
    const char *family;     /* "mlp", "linear", or that of a composite (projector.c) */
    int32_t n_layers;       /* mlp: 1 or 2; others: what the family has */
    const char *activation; /* one of CS_ACT_WORDS; between two layers, else not read */
    bool has_bias;          /* of every layer */
    int32_t group;          /* rows of the encoder that become one; 0 or 1: none */
    int32_t tokens;         /* instead: rows that a picture becomes; 0: not said */
    float norm_eps;         /* where the family has a norm; 0: the family's own */
    bool keeps_class;       /* the encoder's class row is a row like others */
    bool has_newline;       /* a learned row that stands behind every line of a picture */
};

/* the most matrices that a projector of the family has; 0: no such family */
int32_t cs_projector_layers(const char *family);
/* What is left open by the projector's config and follows from its encoder: the group. */
void cs_projector_settle(const struct cs_arch *encoder, struct cs_projector *projector);
/* The projector that the encoder brings in its own directory, as Qwen's towers do ("merger"): true. */
bool cs_arch_own_projector(const struct cs_arch *encoder, struct cs_projector *out);
/* The two fit together: the encoder's rows lie as the projector takes them, which does nothing about rows
 * that there are not. CS_INVALID: its groups are no squares of patches. */
enum cs_status cs_arch_join(struct cs_arch *encoder, struct cs_arch *projector,
                            struct cs_err *err) CS_NODISCARD;

enum cs_status cs_arch_projector(const struct cs_projector *projector, int32_t in_width,
                                 int32_t out_width, struct cs_arch *out,
                                 struct cs_err *err) CS_NODISCARD;
/* Its rows do not enter the language model as they are: some are dropped, mixed, or come in another order,
 * and the learned row stands between them where it has one (core/data/slot.h: sources). */
void cs_arch_fills(struct cs_arch *projector);
/* A projector's own config.json, as export writes it (or as a llava directory gives it): model_type
 * "mlp" or "linear", n_layers, activation, bias, in_width, out_width. Strings are of the config.
 * widths (may be NULL): in and out, 0 where they are not said. */
enum cs_status cs_projector_read(const struct cs_config_source *config, struct cs_projector *out,
                                 int32_t widths[2], struct cs_err *err) CS_NODISCARD;
/* the same as an architecture, with the widths that it must say */
enum cs_status cs_arch_read_projector(const struct cs_config_source *config, struct cs_arch *out,
                                      struct cs_err *err) CS_NODISCARD;
/* whether model_type is that of a projector */
bool cs_projector_is(const json_t *config);
/* A new config.json that reads as `arch`, NULL: no memory. */
json_t *cs_projector_config(const struct cs_arch *arch);
/* All tensors in dataflow order; a tied head is not listed. Returns the count. */
int cs_arch_tensors(const struct cs_arch *arch, struct cs_arena *arena,
                    struct cs_tensor_info **out);
/* rows that leave an encoder's branch for one item, where all items have one size; else 0 */
int32_t cs_arch_item_rows(const struct cs_arch *arch);
/* the same inside the encoder */
int32_t cs_arch_inner_rows(const struct cs_arch *arch);
/* kind of attention of a block, an index in arch->attention */
int32_t cs_arch_block_attention(const struct cs_arch *arch, int32_t block);
enum cs_mixer cs_arch_block_mixer(const struct cs_arch *arch, int32_t block);
enum cs_ffn cs_arch_block_ffn(const struct cs_arch *arch, int32_t block);
int32_t cs_arch_expert_blocks(const struct cs_arch *arch); /* how many have experts */

#endif
