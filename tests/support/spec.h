/* Specifications of tiny models for tests: a SigLIP of 28 px (16 rows a picture, width 48) and a
 * llama of width 48, both with random parameters unless directories are given. */
#ifndef CS_TESTS_SUPPORT_SPEC_H
#define CS_TESTS_SUPPORT_SPEC_H

#include <jansson.h>
#include <stdbool.h>

#include "core/model/graph.h"

/* Zero or NULL means the default in brackets. */
struct cs_test_spec {
    int n_encoders;                /* [1] 2 adds "depth" with the token "<depth>"; -1: text only */
    int vision_layers, llm_layers; /* [3] blocks; depth has as many as vision */
    int vision_pp, depth_pp, llm_pp; /* [1] */
    int vision_width, llm_width;     /* [48] multiples of 8 */
    int projector_layers;            /* [2] 1: a linear projector */
    bool is_tied, is_qwen2, is_qwen3;
    bool is_recurrent; /* qwen3.5: its blocks are recurrent but the second */
    bool
        has_experts; /* qwen3-moe: its blocks have 5 experts but the second, and a balancing loss */
    int sliding_window;   /* [0: none] tokens that qwen2's blocks look back, from the second on */
    const char *llm_keys; /* JSON: keys of the LLM's config beside or instead of those made here */
    const char *vision_keys; /* the same of encoders */
    bool has_feature_layer;
    int feature_layer;
    const char *rules;     /* ["train:*"] "train:vision.projector freeze:llm.layers.0-1"; "" none */
    const char *schedule;  /* ["1f1b"] */
    const char *recompute; /* ["none"] of every branch */
    const char *modality;  /* ["encoder-parallel"] */
    const char *mask;      /* ["causal"] of the LLM */
    int window, prefix;    /* tokens, of the masks of these names */
    int dp;                /* [1] */
    int llm_cp;            /* [1] ranks that split the rows of a slot */
    int llm_tp, vision_tp; /* [1] ranks that share matrices; depth has as many as vision */
    int llm_vpp;           /* chunks under interleaved, 0: nothing is said */
    const char *vision_place; /* where the first encoder is [as modality says] */
    bool llm_sp, vision_sp;   /* these split rows between products */
    int llm_ep;               /* [1] ranks that share experts */
    int vision_dp, depth_dp;  /* [0: not said] replicas of these encoders */
    bool
        offloads; /* jobs in layouts: activations wait on the host; the plan's, CPU ranks refuse it */
    int zero; /* [0: not said] what is divided among those with the same weights, of every branch */
    int vision_zero;          /* [zero] of encoders */
    int vision_cp;            /* [0: not said] ranks that share the items of vision, and of depth */
    const char *context;      /* ["lpt"] how */
    const char *stripes;      /* ["auto"] */
    int context_rows;         /* [0: not said] of a rank, before more ranks split a slot */
    const char *exchange;     /* ["keys"] what goes between these ranks */
    int seq_tokens, slots;    /* [128] [4] */
    int batch_samples, steps; /* [8] [10] */
    int seed;
    const char *vision_dir, *llm_dir; /* [""] set: init "weights", with the config given here */
    const char *json, *images;        /* ["/nowhere/train.json"] ["/nowhere/images"] */
};

/* A family with all that others have not: norms behind halves, of values too, keys that are values in
 * layers without a window, heads of another size there, a number behind each block, caps. */
#define CS_TEST_GEMMA4                                                                             \
    "{\"model_type\": \"gemma4_text\", \"head_dim\": 12, \"global_head_dim\": 20, "                \
    "\"num_global_key_value_heads\": 1, \"attention_k_eq_v\": true, "                              \
    "\"hidden_size_per_layer_input\": 0, \"sliding_window\": 6, \"rope_parameters\": null, "       \
    "\"final_logit_softcapping\": 20, \"layer_types\": null}"
/* experts in every block, each with tensors of its own, and none of them normed; or all in one tensor */
#define CS_TEST_MIXTRAL                                                                            \
    "{\"model_type\": \"mixtral\", \"num_local_experts\": 6, \"num_experts_per_tok\": 3, "         \
    "\"intermediate_size\": 20, \"output_router_logits\": true, \"router_aux_loss_coef\": 0.2}"
#define CS_TEST_QWEN3_VL_MOE                                                                       \
    "{\"model_type\": \"qwen3_vl_moe_text\", \"head_dim\": 16, \"num_experts\": 5, "               \
    "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, \"router_aux_loss_coef\": 0.1, "   \
    "\"output_router_logits\": true}"
/* fused tensors, windows in all layers, a part of each head turns */
#define CS_TEST_PHI3                                                                               \
    "{\"model_type\": \"phi3\", \"sliding_window\": 9, \"partial_rotary_factor\": 0.5}"

/* towers whose queries and keys are normed over all heads */
#define CS_TEST_INTERN_VIT                                                                         \
    "{\"model_type\": \"internvl_vision\", \"use_qk_norm\": true, \"norm_type\": \"rms_norm\"}"

/* A new document; the caller owns the reference. options: NULL for all defaults. */
json_t *cs_test_spec_json(const struct cs_test_spec *options);
json_t *cs_test_siglip_config(int layers, int width);
json_t *cs_test_llm_config(int layers, int width, bool is_tied, bool is_qwen2);
/* The graph of such a document, failing the test with the error's text when it is refused. The
 * document is put in *root and must live as long as the graph. */
struct cs_graph *cs_test_graph(const struct cs_test_spec *options, struct cs_arena *arena,
                               json_t **root);

#endif
