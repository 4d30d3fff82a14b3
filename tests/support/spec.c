/* Documents of jobs with tiny models. */
#include "tests/support/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static int or_int(int value, int fallback)
{
    return value != 0 ? value : fallback;
}

static const char *or_text(const char *value, const char *fallback)
{
    return value != NULL ? value : fallback;
}

json_t *cs_test_siglip_config(int layers, int width)
{
    json_t *config =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f}", "model_type",
                  "siglip_vision_model", "hidden_size", width, "intermediate_size", 2 * width,
                  "num_hidden_layers", layers, "num_attention_heads", 4, "num_channels", 3,
                  "image_size", 28, "patch_size", 7, "hidden_act", "gelu_pytorch_tanh",
                  "layer_norm_eps", 1e-6, "initializer_range", 0.2);
    assert_non_null(config);
    return config;
}

json_t *cs_test_llm_config(int layers, int width, bool is_tied, bool is_qwen2)
{
    json_t *config = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:b, s:{s:s, s:f}}", "model_type",
        is_qwen2 ? "qwen2" : "llama", "hidden_size", width, "intermediate_size", width * 5 / 3,
        "num_hidden_layers", layers, "num_attention_heads", 4, "num_key_value_heads", 2,
        "vocab_size", 199, "max_position_embeddings", 128, "hidden_act", "silu", "rms_norm_eps",
        1e-5, "initializer_range", 0.2, "tie_word_embeddings", is_tied, "rope_parameters",
        "rope_type", "default", "rope_theta", 10000.0);
    assert_non_null(config);
    return config;
}

static void add_encoder(json_t *modules, const struct cs_test_spec *o, const char *name,
                        const char *token)
{
    char text[64];
    const char *dir = or_text(o->vision_dir, "");
    int n_linear = or_int(o->projector_layers, 2);
    snprintf(text, sizeof(text), "%s.encoder", name);
    json_t *encoder =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "name", text, "kind", "encoder", "dir", dir,
                  "init", dir[0] != '\0' ? "weights" : "random", "token", token, "config",
                  cs_test_siglip_config(or_int(o->vision_layers, 3), or_int(o->vision_width, 48)));
    assert_non_null(encoder);
    if (o->vision_keys != NULL)
        json_object_update_new(json_object_get(encoder, "config"),
                               json_loads(o->vision_keys, 0, NULL));
    if (o->has_feature_layer)
        json_object_set_new(encoder, "feature_layer", json_integer(o->feature_layer));
    json_array_append_new(modules, encoder);
    snprintf(text, sizeof(text), "%s.projector", name);
    json_array_append_new(modules, json_pack("{s:s, s:s, s:s, s:i}", "name", text, "kind",
                                             "projector", "family",
                                             n_linear == 1 ? "linear" : "mlp", "layers", n_linear));
}

/* "train:GLOB freeze:GLOB ..." */
static json_t *make_rules(const char *text)
{
    json_t *rules = json_array();
    while (*text != '\0') {
        size_t len = strcspn(text, " "), op = strcspn(text, ":");
        assert_true(op < len);
        json_array_append_new(
            rules, json_pack("{s:s%, s:s%}", "op", text, op, "glob", text + op + 1, len - op - 1));
        text += len;
        text += strspn(text, " ");
    }
    return rules;
}

static json_t *make_parallel(const struct cs_test_spec *o, int n_encoders)
{
    json_t *parallel = json_pack("{s:{s:i}}", "llm", "pp", or_int(o->llm_pp, 1));
    if (o->llm_cp > 1)
        json_object_set_new(json_object_get(parallel, "llm"), "cp", json_integer(o->llm_cp));
    if (o->llm_ep > 1)
        json_object_set_new(json_object_get(parallel, "llm"), "ep", json_integer(o->llm_ep));
    if (o->llm_tp > 1)
        json_object_set_new(json_object_get(parallel, "llm"), "tp", json_integer(o->llm_tp));
    if (o->llm_vpp > 0)
        json_object_set_new(json_object_get(parallel, "llm"), "vpp", json_integer(o->llm_vpp));
    if (o->llm_sp)
        json_object_set_new(json_object_get(parallel, "llm"), "sp", json_true());
    if (n_encoders > 0)
        json_object_set_new(
            parallel, "vision",
            json_pack("{s:i, s:i}", "pp", or_int(o->vision_pp, 1), "tp", or_int(o->vision_tp, 1)));
    if (n_encoders > 1)
        json_object_set_new(
            parallel, "depth",
            json_pack("{s:i, s:i}", "pp", or_int(o->depth_pp, 1), "tp", or_int(o->vision_tp, 1)));
    if (n_encoders > 0 && o->vision_place != NULL)
        json_object_set_new(json_object_get(parallel, "vision"), "place",
                            json_string(o->vision_place));
    json_t *row;
    const char *name;
    if (o->vision_dp > 0 && json_object_get(parallel, "vision") != NULL)
        json_object_set_new(json_object_get(parallel, "vision"), "dp", json_integer(o->vision_dp));
    if (o->depth_dp > 0 && json_object_get(parallel, "depth") != NULL)
        json_object_set_new(json_object_get(parallel, "depth"), "dp", json_integer(o->depth_dp));
    json_object_foreach(parallel, name, row)
    {
        if (o->vision_cp > 0 && strcmp(name, "llm") != 0)
            json_object_set_new(row, "cp", json_integer(o->vision_cp));
        const int zero = strcmp(name, "llm") != 0 ? or_int(o->vision_zero, o->zero) : o->zero;
        if (zero > 0)
            json_object_set_new(row, "zero", json_integer(zero));
        if (o->vision_sp && strcmp(name, "llm") != 0)
            json_object_set_new(row, "sp", json_true());
        if (o->recompute != NULL)
            json_object_set_new(row, "recompute", json_string(o->recompute));
    }
    return parallel;
}

static void make_recurrent(json_t *config)
{
    json_t *types = json_array();
    const json_int_t n = json_integer_value(json_object_get(config, "num_hidden_layers"));
    for (json_int_t i = 0; i < n; i++)
        json_array_append_new(types, json_string(i == 1 ? "full_attention" : "linear_attention"));
    json_object_update_new(config, json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:o}",
                                             "model_type", "qwen3_5_text", "head_dim", 16,
                                             "linear_num_key_heads", 2, "linear_num_value_heads", 4,
                                             "linear_key_head_dim", 6, "linear_value_head_dim", 5,
                                             "linear_conv_kernel_dim", 3, "layer_types", types));
}

json_t *cs_test_spec_json(const struct cs_test_spec *options)
{
    static const struct cs_test_spec defaults;
    const struct cs_test_spec *o = options != NULL ? options : &defaults;
    int n_encoders = o->n_encoders < 0 ? 0 : or_int(o->n_encoders, 1);
    const char *llm_dir = or_text(o->llm_dir, "");
    json_t *modules = json_array(), *llm;
    if (n_encoders > 0)
        add_encoder(modules, o, "vision", "<image>");
    if (n_encoders > 1)
        add_encoder(modules, o, "depth", "<depth>");
    llm = json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", "llm", "kind", "llm", "dir", llm_dir,
                    "init", llm_dir[0] != '\0' ? "weights" : "random", "config",
                    cs_test_llm_config(or_int(o->llm_layers, 3), or_int(o->llm_width, 48),
                                       o->is_tied, o->is_qwen2));
    assert_non_null(llm);
    if (o->is_qwen3)
        json_object_update_new(json_object_get(llm, "config"),
                               json_pack("{s:s, s:i}", "model_type", "qwen3", "head_dim", 16));
    if (o->is_recurrent)
        make_recurrent(json_object_get(llm, "config"));
    if (o->has_experts)
        json_object_update_new(
            json_object_get(llm, "config"),
            json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:[i], s:b, s:f}", "model_type", "qwen3_moe",
                      "head_dim", 16, "num_experts", 5, "num_experts_per_tok", 2,
                      "moe_intermediate_size", 24, "norm_topk_prob", true, "mlp_only_layers", 1,
                      "output_router_logits", true, "router_aux_loss_coef", 0.1));
    if (o->sliding_window > 0)
        json_object_update_new(json_object_get(llm, "config"),
                               json_pack("{s:b, s:i, s:i}", "use_sliding_window", true,
                                         "sliding_window", o->sliding_window, "max_window_layers",
                                         1));
    if (o->llm_keys != NULL)
        json_object_update_new(json_object_get(llm, "config"), json_loads(o->llm_keys, 0, NULL));
    if (o->mask != NULL)
        json_object_set_new(llm, "mask", json_string(o->mask));
    if (o->window != 0)
        json_object_set_new(llm, "window", json_integer(o->window));
    if (o->prefix != 0)
        json_object_set_new(llm, "prefix", json_integer(o->prefix));
    json_array_append_new(modules, llm);
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:{s:o, s:o}, s:{s:s, s:s, s:s, s:o, s:i, s:i, s:i}, s:{s:s, "
        "s:s, "
        "s:s}, s:{s:s, s:f}}",
        "schema", "cornstarch.job/1", "name", "test", "seed", o->seed, "steps",
        or_int(o->steps, 10), "batch_samples", or_int(o->batch_samples, 8), "model", "modules",
        modules, "rules", make_rules(or_text(o->rules, "train:*")), "plan", "cluster", "here",
        "modality", or_text(o->modality, "encoder-parallel"), "schedule",
        or_text(o->schedule, "1f1b"), "parallel", make_parallel(o, n_encoders), "seq_tokens",
        or_int(o->seq_tokens, 128), "slots", or_int(o->slots, 4), "dp", or_int(o->dp, 1), "data",
        "format", "llava", "json", or_text(o->json, "/nowhere/train.json"), "images",
        or_text(o->images, "/nowhere/images"), "optimizer", "kind", "adamw", "lr", 1e-3);
    assert_non_null(root);
    if (o->context_rows > 0)
        json_object_set_new(json_object_get(root, "plan"), "context_rows",
                            json_integer(o->context_rows));
    if (o->stripes != NULL)
        json_object_set_new(json_object_get(root, "plan"), "stripes", json_string(o->stripes));
    if (o->context != NULL)
        json_object_set_new(json_object_get(root, "plan"), "context", json_string(o->context));
    json_object_set_new(json_object_get(root, "plan"), "context_exchange",
                        json_string(or_text(o->exchange, "keys")));
    return root;
}

struct cs_graph *cs_test_graph(const struct cs_test_spec *options, struct cs_arena *arena,
                               json_t **root)
{
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    *root = cs_test_spec_json(options);
    if (cs_spec_read(*root, arena, &spec, &err) != CS_OK ||
        cs_graph_build(spec, true, arena, &graph, &err) != CS_OK)
        fail_msg("%s", err.text);
    return graph;
}
