/* What a config.json becomes: defaults, refusals, every tensor name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/arch_config.h"

/* The header of model.safetensors: 8 bytes of length, then JSON. */
static json_t *load_header(const char *family)
{
    char path[256];
    unsigned char raw[8];
    uint64_t len = 0;
    snprintf(path, sizeof(path), "tests/golden/models/%s/model.safetensors", family);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(raw, 1, 8, file), 8);
    for (int i = 7; i >= 0; i--)
        len = len << 8 | raw[i];
    assert_true(len > 2 && len < 1 << 20);
    char *text = malloc(len);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, len, file), len);
    fclose(file);
    json_t *header = json_loadb(text, len, 0, NULL);
    free(text);
    assert_non_null(header);
    return header;
}

/* Takes the tensors of arch, each under prefix, out of the header; fails on a missing one or a
 * shape. */
static void take_tensors(json_t *header, const char *prefix, const struct cs_arch *arch,
                         struct cs_arena *arena)
{
    struct cs_tensor_info *infos = NULL;
    int n = cs_arch_tensors(arch, arena, &infos);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        const char *name = cs_arena_printf(arena, "%s%s", prefix, infos[i].name);
        const json_t *shape = json_object_get(json_object_get(header, name), "shape");
        if (shape == NULL)
            fail_msg("%s is not in the file", name);
        assert_int_equal(json_array_size(shape), infos[i].n_dims);
        for (int d = 0; d < infos[i].n_dims; d++)
            assert_int_equal(json_integer_value(json_array_get(shape, (size_t)d)), infos[i].dim[d]);
        assert_int_equal(infos[i].is_decayed, infos[i].n_dims > 1);
        json_object_del(header, name);
    }
}

/* What is left may only be the attention pool of SigLIP. */
static void nothing_is_left(json_t *header, const char *ignored)
{
    const char *name;
    json_t *value;
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") != 0 &&
            (ignored == NULL || strncmp(name, ignored, strlen(ignored)) != 0))
            fail_msg("%s has no row in the table", name);
    }
}

static void tensors_are_those_of_the_files(void **state)
{
    static const char *const families[] = {"siglip",       "llama",   "llama3-tied", "qwen2",
                                           "qwen2-window", "qwen3",   "gemma4",      "phi3",
                                           "ministral3",   "mixtral", "qwen3-moe",   "qwen3.5"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(families); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_arch arch;
        json_t *config = cs_test_config(families[i]), *header = load_header(families[i]);
        cs_test_arch(config, arena, &arch);
        take_tensors(header, "", &arch, arena);
        nothing_is_left(header, i == 0 ? "head." : NULL);
        json_decref(header);
        json_decref(config);
        cs_arena_free(arena);
    }
}

static void composite_is_tower_projector_and_language_model(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch vision, projector, llm;
    json_t *config = cs_test_config("llava-siglip-qwen2"),
           *header = load_header("llava-siglip-qwen2");
    (void)state;
    cs_test_arch(json_object_get(config, "vision_config"), arena, &vision);
    cs_test_arch(json_object_get(config, "text_config"), arena, &llm);
    assert_int_equal(cs_arch_projector(&(struct cs_projector){.family = "mlp",
                                                              .n_layers = 2,
                                                              .activation = "gelu",
                                                              .has_bias = true},
                                       vision.width, llm.width, &projector, NULL),
                     CS_OK);
    take_tensors(header, "vision_tower.", &vision, arena);
    take_tensors(header, "multi_modal_projector.", &projector, arena);
    take_tensors(header, "language_model.", &llm, arena);
    nothing_is_left(header, "vision_tower.head.");
    json_decref(header);
    json_decref(config);
    cs_arena_free(arena);
}

static void golden_options_are_read(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    (void)state;
    json_t *config = cs_test_config("siglip");
    cs_test_arch(config, arena, &arch);
    assert_int_equal(arch.kind, CS_MODULE_ENCODER);
    assert_string_equal(arch.family, "siglip");
    assert_int_equal(arch.act, CS_ARCH_GELU_TANH);
    assert_int_equal(arch.norm, CS_ARCH_LAYER_NORM);
    assert_int_equal(cs_arch_item_rows(&arch), 16);
    assert_int_equal(arch.in_width, 3 * 7 * 7);
    assert_true(arch.has_qkv_bias && arch.has_o_bias && arch.has_mlp_bias && arch.has_patch_bias);
    assert_true(fabs((double)arch.norm_eps - 1e-6) <= 1e-12);
    json_decref(config);
    config = cs_test_config("llama3-tied");
    cs_test_arch(config, arena, &arch);
    assert_true(arch.is_tied && arch.is_gated_mlp && !arch.has_qkv_bias);
    assert_int_equal(arch.attention->head_dim, 16);
    assert_int_equal(arch.attention->n_kv_heads, 2);
    assert_int_equal(arch.attention->rope.kind, CS_ROPE_LLAMA3);
    assert_int_equal(arch.attention->rope.original_positions, 32);
    json_decref(config);
    config = cs_test_config("qwen2");
    cs_test_arch(config, arena, &arch);
    assert_true(arch.is_tied && arch.has_qkv_bias && !arch.has_o_bias && !arch.has_mlp_bias);
    assert_int_equal(arch.attention->rope.kind, CS_ROPE_DEFAULT);
    json_decref(config);
    cs_arena_free(arena);
}

static void absent_keys_mean_the_class_defaults(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    (void)state;
    cs_test_arch_text("{\"model_type\": \"llama\"}", arena, &arch);
    assert_int_equal(arch.width, 4096);
    assert_int_equal(arch.ffn_width, 11008);
    assert_int_equal(arch.attention->n_kv_heads, 32);
    assert_int_equal(arch.attention->head_dim, 128);
    assert_int_equal(arch.vocab, 32000);
    assert_true(!arch.is_tied && fabs(arch.attention->rope.theta - 1e4) <= 0);
    cs_test_arch_text("{\"model_type\": \"qwen2\", \"num_attention_heads\": 64}", arena, &arch);
    assert_int_equal(arch.attention->n_kv_heads, 32);
    cs_test_arch_text("{\"model_type\": \"qwen2\", \"num_attention_heads\": 64, "
                      "\"num_key_value_heads\": null}",
                      arena, &arch);
    assert_int_equal(arch.attention->n_kv_heads, 64);
    assert_int_equal(arch.ffn_width, 22016);
    assert_int_equal(arch.vocab, 151936);
    cs_test_arch_text("{\"model_type\": \"siglip_vision_model\"}", arena, &arch);
    assert_int_equal(arch.width, 768);
    assert_int_equal(cs_arch_item_rows(&arch), 196);
    /* the rest of a picture that fills no patch is cut off: 384 / 14 = 27 */
    cs_test_arch_text("{\"model_type\": \"siglip\", \"vision_config\": {\"hidden_size\": 1152, "
                      "\"num_attention_heads\": 16, \"image_size\": 384, \"patch_size\": 14}}",
                      arena, &arch);
    assert_int_equal(cs_arch_item_rows(&arch), 729);
    assert_int_equal(arch.attention->head_dim, 72);
    cs_arena_free(arena);
}

/* Whatever nothing gave is said, with the value that is taken and where it is from. */
static void defaults_that_are_taken_are_said(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    struct cs_arch arch;
    struct cs_err err;
    bool is_said = false;
    (void)state;
    json_t *config = cs_test_config("llama");
    json_object_del(config, "rms_norm_eps");
    assert_int_equal(cs_arch_read(&(struct cs_config_source){"config.json", "", config, &findings},
                                  arena, &arch, &err),
                     CS_OK);
    for (int i = 0; i < findings.n; i++) {
        assert_int_equal(findings.items[i].kind, CS_FINDING_DEFAULT);
        is_said |=
            strcmp(findings.items[i].text,
                   "config.json: rms_norm_eps is not given: 1e-06, the default of llama") == 0;
    }
    assert_true(is_said);
    json_decref(config);
    cs_arena_free(arena);
}

/* Every configuration that transformers wrote is known to the last key. */
static void goldens_hold_no_key_that_nothing_reads(void **state)
{
    static const char *const names[] = {"siglip",       "llama",   "llama3-tied", "qwen2",
                                        "qwen2-window", "qwen3",   "gemma4",      "phi3",
                                        "ministral3",   "mixtral", "qwen3-moe",   "qwen3.5"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_findings findings = {.arena = arena};
        struct cs_arch arch;
        struct cs_err err;
        json_t *config = cs_test_config(names[i]);
        assert_int_equal(
            cs_arch_read(&(struct cs_config_source){"config.json", "", config, &findings}, arena,
                         &arch, &err),
            CS_OK);
        for (int f = 0; f < findings.n; f++)
            if (findings.items[f].kind != CS_FINDING_DEFAULT)
                fail_msg("%s: %s", names[i], findings.items[f].text);
        json_decref(config);
        cs_arena_free(arena);
    }
}

#define GEMMA4 "\"model_type\": \"gemma4_text\", \"hidden_size_per_layer_input\": 0"

/* Which halves blocks have, and the tensors that follow from them. */
static void blocks_have_the_halves_that_the_config_says(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_tensor_info *infos;
    struct cs_arch arch;
    (void)state;
    cs_test_arch_text("{\"model_type\": \"qwen3_5_text\", \"num_hidden_layers\": 8}", arena, &arch);
    for (int32_t i = 0; i < 8; i++)
        assert_int_equal(cs_arch_block_mixer(&arch, i),
                         i % 4 == 3 ? CS_MIXER_ATTENTION : CS_MIXER_DELTA);
    assert_int_equal(arch.attention[0].rope.dims, 64); /* a quarter of 256 */
    assert_int_equal(arch.n_attentions, 1);
    assert_int_equal(cs_recurrent_product_width(&arch.recurrent), 8192 + 4096 + 64);
    /* embedding, norm and head; what a block of either kind has */
    assert_int_equal(cs_arch_tensors(&arch, arena, &infos), 3 + 6 * (9 + 5) + 2 * (6 + 5));
    cs_test_arch_text(
        "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 6, \"num_experts\": 4, "
        "\"num_experts_per_tok\": 2, "
        "\"decoder_sparse_step\": 2, \"mlp_only_layers\": [3], "
        "\"router_aux_loss_coef\": 0.5}",
        arena, &arch);
    for (int32_t i = 0; i < 6; i++)
        assert_int_equal(cs_arch_block_ffn(&arch, i),
                         i == 1 || i == 5 ? CS_FFN_EXPERTS : CS_FFN_DENSE);
    assert_true(!(arch.experts.balance > 0)); /* nobody asked for the router's logits */
    assert_int_equal(cs_arch_expert_blocks(&arch), 2);
    int n = cs_arch_tensors(&arch, arena, &infos), n_up = 0;
    assert_int_equal(n, 3 + 6 * 8 + 4 * 3 + 2 * (1 + 3 * 4));
    for (int i = 0; i < n; i++) {
        if (infos[i].role != CS_PARAM_EXPERT_UP_W || infos[i].layer != 5)
            continue;
        assert_int_equal(infos[i].part, n_up);
        assert_string_equal(infos[i].whole, "model.layers.5.mlp.experts.gate_up_proj");
        assert_int_equal(infos[i].whole_at, (2 * n_up + 1) * 768 * 2048);
        n_up++;
    }
    assert_int_equal(n_up, 4);
    cs_arena_free(arena);
}

static void bad_configs_are_refused_by_name(void **state)
{
    static const struct {
        const char *text;
        enum cs_status status;
        const char *message;
    } rows[] = {
        {"[]",                                                                                   CS_INVALID,     "the config is not a JSON object"                                        },
        {"{}",                                                                                   CS_INVALID,     "model_type is missing"                                                  },
        {"{\"model_type\": \"lama\"}",                                                           CS_UNSUPPORTED,
         "model_type \"lama\" is not supported (did you mean \"llama\"?); these are: "
         "siglip_vision_model, siglip, siglip2_vision_model, "                                                                                                                            },
        {"{\"model_type\": \"gpt_bigcode\"}",                                                    CS_UNSUPPORTED,
         "model_type \"gpt_bigcode\" is not supported; these are"                                                                                                                         },
        {"{\"model_type\": \"llama\", \"hidden_size\": \"x\"}",                                  CS_INVALID,
         "config.json: hidden_size is \"x\"; it must be a whole number from 1 to"                                                                                                         },
        {"{\"model_type\": \"llama\", \"hidden_size\": 0}",                                      CS_INVALID,
         "hidden_size is 0; it must be"                                                                                                                                                   },
        {"{\"model_type\": \"llama\", \"hidden_size\": 100}",                                    CS_INVALID,
         "hidden_size 100 does not divide by num_attention_heads 32"                                                                                                                      },
        {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}",                              CS_INVALID,
         "num_attention_heads 32 is not a multiple of num_key_value_heads 5"                                                                                                              },
        {"{\"model_type\": \"llama\", \"head_dim\": 15}",                                        CS_INVALID,     "head_dim 15 is odd"                                                     },
        {"{\"model_type\": \"llama\", \"rms_norm_eps\": -1}",                                    CS_INVALID,
         "rms_norm_eps is -1; it must be a number above 0 up to 1"                                                                                                                        },
        {"{\"model_type\": \"llama\", \"tie_word_embeddings\": 1}",                              CS_INVALID,
         "tie_word_embeddings is 1; it must be true or false"                                                                                                                             },
        {"{\"model_type\": \"llama\", \"hidden_act\": \"silo\"}",                                CS_UNSUPPORTED,
         "hidden_act \"silo\" is not supported (did you mean \"silu\"?)"                                                                                                                  },
        {"{\"model_type\": \"phi3\", \"resid_pdrop\": 0.1}",                                     CS_UNSUPPORTED,
         "resid_pdrop is 0.1: "                                                                                                                                                           },
        {"{\"model_type\": \"gemma2\", \"use_bidirectional_attention\": true}",                  CS_UNSUPPORTED,
         "use_bidirectional_attention is true: "                                                                                                                                          },
        {"{\"model_type\": \"gemma3_text\", \"attn_logit_softcapping\": 50}",                    CS_UNSUPPORTED,
         "attn_logit_softcapping is 50: "                                                                                                                                                 },
        {"{\"model_type\": \"gemma4_text\"}",                                                    CS_UNSUPPORTED, "hidden_size_per_layer_input is 256"                                     },
        {"{" GEMMA4 ", \"enable_moe_block\": true}",                                             CS_UNSUPPORTED, "enable_moe_block is true: "                                             },
        {"{" GEMMA4 ", \"num_kv_shared_layers\": 2}",                                            CS_UNSUPPORTED,
         "num_kv_shared_layers is 2: "                                                                                                                                                    },
        {"{" GEMMA4 ", \"rope_scaling\": {\"factor\": 2}}",                                      CS_UNSUPPORTED, "rope_scaling beside"                                                    },
        {"{" GEMMA4 ", \"rope_parameters\": {\"sliding_attention\": {\"rope_theta\": 5}}}",
         CS_INVALID,                                                                                             "rope_parameters.full_attention is missing"                              },
        {"{" GEMMA4 ", \"per_layer_config\": {\"5\": {\"hidden_size\": 4}}}",                    CS_UNSUPPORTED,
         "per_layer_config.5.hidden_size is not supported"                                                                                                                                },
        {"{" GEMMA4 ", \"per_layer_config\": {\"5\": {\"head_dim\": 4}}}",                       CS_UNSUPPORTED,
         "per_layer_config gives layer 11 other heads"                                                                                                                                    },
        {"{" GEMMA4 ", \"per_layer_config\": {\"05\": {\"head_dim\": 4}}}",                      CS_UNSUPPORTED,
         "per_layer_config gives layer 11 other heads"                                                                                                                                    },
        {"{" GEMMA4 ", \"per_layer_config\": {\"5\": {}, \"05\": {}}}",                          CS_INVALID,
         "per_layer_config has layer 5 as 5 and as 05"                                                                                                                                    },
        {"{" GEMMA4 ", \"per_layer_config\": {\"5 \": {}}}",                                     CS_INVALID,
         "per_layer_config.5  is not an object of one of the layers 0 to 29"                                                                                                              },
        {"{" GEMMA4 ", \"per_layer_config\": {\"30\": {}}}",                                     CS_INVALID,
         "per_layer_config.30 is not an object of one of the layers 0 to 29"                                                                                                              },
        {"{\"model_type\": \"qwen2_vl_text\", \"rope_scaling\": {\"type\": \"mrope\", "
         "\"mrope_section\": [1, 2, 3]}}",                                              CS_INVALID,     "rope_scaling.mrope_section must be three numbers whose sum is 64"       },
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"mrope\"}}",                 CS_UNSUPPORTED,
         "rope_type \"mrope\" is not supported in a model whose positions are one number"                                                                                                 },
        {"{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
         CS_UNSUPPORTED,                                                                                         "whose class takes default and longrope"                                 },
        {"{\"model_type\": \"phi3\", \"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1], "
         "\"long_factor\": [1]}}",                                                      CS_INVALID,     "rope_scaling.short_factor must be 48 numbers above 0"                   },
        {"{\"model_type\": \"llama\", \"attention_dropout\": 0.1}",                              CS_UNSUPPORTED,
         "attention_dropout is 0.1: "                                                                                                                                                     },
        {"{\"model_type\": \"llama\", \"quantization_config\": {}}",                             CS_UNSUPPORTED,
         "quantization_config"                                                                                                                                                            },
        {"{\"model_type\": \"qwen2\", \"use_sliding_window\": 1}",                               CS_INVALID,
         "use_sliding_window is 1; it must be true or false"                                                                                                                              },
        {"{\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"sliding_window\": -1}",
         CS_INVALID,                                                                                             "sliding_window is -1; it must be a whole number from 0 to"              },
        {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\"]}",                   CS_INVALID,
         "layer_types does not list num_hidden_layers = 32 types"                                                                                                                         },
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": "
         "[\"chunked_attention\"]}",                                                    CS_UNSUPPORTED,
         "layer_types[0] \"chunked_attention\" is not supported; full_attention, "
         "sliding_attention and linear_attention are"                                                                                                                                     },
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": "
         "[\"linear_attention\"]}",                                                     CS_UNSUPPORTED, "layer_types[0] is linear_attention: this family has no recurrent layers"},
        {"{\"model_type\": \"qwen3_5_text\", \"linear_num_value_heads\": 3, "
         "\"linear_num_key_heads\": 2}",                                                CS_INVALID,     "linear_num_value_heads 3 is not a multiple of linear_num_key_heads 2"   },
        {"{\"model_type\": \"qwen3_5_text\", \"linear_conv_kernel_dim\": 9}",                    CS_INVALID,
         "linear_conv_kernel_dim"                                                                                                                                                         },
        {"{\"model_type\": \"mixtral\", \"num_experts_per_tok\": 9}",                            CS_INVALID,
         "num_experts_per_tok 9 is more than the 8 experts"                                                                                                                               },
        {"{\"model_type\": \"mixtral\", \"router_jitter_noise\": 0.1}",                          CS_UNSUPPORTED,
         "noise on the router's input is not supported"                                                                                                                                   },
        {"{\"model_type\": \"qwen3_moe\", \"num_experts\": 1024}",                               CS_INVALID,     "num_experts"                                                            },
        {"{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [0, -1]}",                        CS_INVALID,
         "mlp_only_layers[1] is not the index of a layer"                                                                                                                                 },
        {"{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": "
         "[\"sliding_attention\"]}",                                                    CS_INVALID,     "layer_types[0] is sliding_attention, but there is no window"            },
        {"{\"model_type\": \"qwen3_vl_text\", \"rope_scaling\": {\"type\": \"dynamic\", "
         "\"factor\": 4}}",                                                             CS_UNSUPPORTED,
         "rope_type \"dynamic\" is not supported in a model whose positions are three numbers"                                                                                            },
        {"{\"model_type\": \"ministral3\", \"rope_parameters\": {\"rope_type\": \"default\", "
         "\"llama_4_scaling_beta\": 0.1}}",                                             CS_INVALID,
         "rope_parameters.original_max_position_embeddings is missing: llama_4_scaling_beta needs "
         "it"                                                                                                                                                                             },
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}",
         CS_INVALID,                                                                                             "rope_scaling.factor is 0; it must be a number above 0"                  },
        {"{\"model_type\": \"llama\", \"rms_norm_eps\": 0}",                                     CS_INVALID,
         "rms_norm_eps is 0; it must be a number above 0"                                                                                                                                 },
        {"{\"model_type\": \"llama\", \"num_attention_heads\": -4}",                             CS_INVALID,
         "num_attention_heads is -4; it must be"                                                                                                                                          },
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"default\"}, "
         "\"rope_scaling\": {\"rope_type\": \"ntk\"}}",                                 CS_UNSUPPORTED, "rope_scaling.rope_type \"ntk\" is not supported"                        },
        {"{\"model_type\": \"llama\", \"partial_rotary_factor\": 0.5}",                          CS_UNSUPPORTED,
         "partial_rotary_factor is 0.5: "                                                                                                                                                 },
        {"{\"model_type\": \"siglip\", \"vision_config\": {\"num_hidden_layers\": \"3\"}}",
         CS_INVALID,                                                                                             "config.json: vision_config.num_hidden_layers is \"3\"; it must be"      },
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}}",                CS_INVALID,
         "rope_scaling.factor is missing"                                                                                                                                                 },
        {"{\"model_type\": \"llama\", \"rope_scaling\": 4}",                                     CS_INVALID,
         "rope_scaling is 4; it must be an object"                                                                                                                                        },
        {"{\"model_type\": \"llama\", \"rope_theta\": 0}",                                       CS_INVALID,
         "config.json: rope_theta is 0; it must be a number above 0"                                                                                                                      },
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"full_attention\": {}}}",
         CS_UNSUPPORTED,                                                                                         "rope_parameters.full_attention is {}: one rope for each kind of layer"  },
        {"{\"model_type\": \"siglip\"}",                                                         CS_INVALID,     "has no vision_config object"                                            },
        {"{\"model_type\": \"siglip\", \"vision_config\": {\"model_type\": \"clip\"}}",
         CS_UNSUPPORTED,                                                                                         "vision_config.model_type \"clip\" is not \"siglip_vision_model\""       },
        {"{\"model_type\": \"siglip_vision_model\", \"patch_size\": 300}",                       CS_INVALID,
         "patch_size 300 is larger than image_size 224"                                                                                                                                   },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        struct cs_arch arch;
        json_t *config = json_loads(rows[i].text, 0, NULL);
        assert_non_null(config);
        enum cs_status status = cs_arch_from_config(config, arena, &arch, &err);
        if (status != rows[i].status || strstr(err.text, rows[i].message) == NULL)
            fail_msg("%s gave %s: %s", rows[i].text, cs_status_slug(status), err.text);
        json_decref(config);
        cs_arena_free(arena);
    }
}

static void projectors_have_their_shapes(void **state)
{
    struct cs_projector
        mlp = {.family = "mlp", .n_layers = 2, .activation = "gelu", .has_bias = true},
        linear = {.family = "linear", .n_layers = 1, .activation = "gelu", .has_bias = true};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    struct cs_tensor_info *infos = NULL;
    struct cs_err err = {.text = ""};
    (void)state;
    assert_int_equal(cs_arch_projector(&mlp, 5, 7, &arch, &err), CS_OK);
    assert_int_equal(cs_arch_tensors(&arch, arena, &infos), 4);
    assert_string_equal(infos[0].name, "linear_1.weight");
    assert_string_equal(infos[0].alt, "multi_modal_projector.linear_1.weight");
    assert_int_equal(infos[0].dim[0], 7);
    assert_int_equal(infos[0].dim[1], 5);
    assert_int_equal(infos[2].dim[1], 7);
    assert_int_equal(infos[3].init, CS_INIT_ZERO);
    assert_int_equal(cs_arch_projector(&linear, 5, 7, &arch, &err), CS_OK);
    assert_int_equal(cs_arch_tensors(&arch, arena, &infos), 2);
    assert_int_equal(arch.act, CS_ARCH_ACT_NONE);
    assert_int_equal(infos[0].dim[1], 5);
    linear.n_layers = 2;
    assert_int_equal(cs_arch_projector(&linear, 5, 7, &arch, &err), CS_INVALID);
    assert_string_equal(err.text, "a projector of family linear has 1 layer, not 2");
    linear.family = "qformer";
    assert_int_equal(cs_arch_projector(&linear, 5, 7, &arch, &err), CS_INVALID);
    mlp.has_bias = false;
    assert_int_equal(cs_arch_projector(&mlp, 5, 7, &arch, &err), CS_OK);
    assert_int_equal(cs_arch_tensors(&arch, arena, &infos), 2);
    assert_string_equal(infos[1].name, "linear_2.weight");
    cs_arena_free(arena);
}

static void fresh_values_and_names_follow_the_role(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    struct cs_tensor_info *infos = NULL;
    (void)state;
    json_t *config = cs_test_config("siglip");
    cs_test_arch(config, arena, &arch);
    int n = cs_arch_tensors(&arch, arena, &infos);
    assert_string_equal(infos[0].alt, "vision_model.embeddings.patch_embedding.weight");
    for (int i = 0; i < n; i++) {
        bool is_bias = strstr(infos[i].name, ".bias") != NULL;
        bool is_norm = strstr(infos[i].name, "norm") != NULL && !is_bias;
        assert_int_equal(infos[i].init, is_bias   ? CS_INIT_ZERO
                                        : is_norm ? CS_INIT_ONE
                                                  : CS_INIT_NORMAL);
        assert_int_equal(infos[i].is_decayed, !is_bias && !is_norm);
        if (i > 0)
            assert_true(infos[i].layer_kind > infos[i - 1].layer_kind ||
                        infos[i].layer >= infos[i - 1].layer);
    }
    assert_string_equal(cs_param_role_name(CS_PARAM_Q_W), "q_w");
    assert_string_equal(cs_param_role_name(CS_PARAM_PROJ_B), "proj_b");
    assert_string_equal(cs_param_role_name(CS_PARAM_GATE_W), "gate_w");
    json_decref(config);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_those_of_the_files),
        cmocka_unit_test(composite_is_tower_projector_and_language_model),
        cmocka_unit_test(golden_options_are_read),
        cmocka_unit_test(absent_keys_mean_the_class_defaults),
        cmocka_unit_test(defaults_that_are_taken_are_said),
        cmocka_unit_test(goldens_hold_no_key_that_nothing_reads),
        cmocka_unit_test(bad_configs_are_refused_by_name),
        cmocka_unit_test(blocks_have_the_halves_that_the_config_says),
        cmocka_unit_test(projectors_have_their_shapes),
        cmocka_unit_test(fresh_values_and_names_follow_the_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
