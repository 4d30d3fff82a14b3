/* The module graph: layers, rules, what needs gradients. */
#include "core/model/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/model/build/parts.h"
#include "core/model/keeps.h"
#include "support/spec.h"

struct fixture {
    struct cs_arena *arena;
    json_t *root;
    struct cs_graph *graph;
};

static void open_graph(struct fixture *f, const struct cs_test_spec *options)
{
    f->arena = cs_arena_new(0);
    f->graph = cs_test_graph(options, f->arena, &f->root);
}

static void close_graph(struct fixture *f)
{
    json_decref(f->root);
    cs_arena_free(f->arena);
}

static const struct cs_layer *layer_at(const struct cs_graph *graph, const char *path)
{
    for (int i = 0; i < graph->n_layers; i++) {
        if (strcmp(graph->layers[i].path, path) == 0)
            return &graph->layers[i];
    }
    fail_msg("no layer %s", path);
    return NULL;
}

/* One letter a layer: '.' neither, 'i' input gradient only, 'w' weight only, 'b' both. */
static const char *needs_text(const struct cs_graph *graph, char out[64])
{
    assert_true(graph->n_layers < 64);
    for (int i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        out[i] = layer->needs_input_grad    ? layer->needs_weight_grad ? 'b' : 'i'
                 : layer->needs_weight_grad ? 'w'
                                            : '.';
    }
    out[graph->n_layers] = '\0';
    return out;
}

static void chain_needs_equal_the_goldens(void **state)
{
    static const struct {
        const char *frozen, *input; /* T and F */
    } rows[] = {
        {"TTFTT", "FFFTT"},
        {"FTT",   "FTT"  },
        {"TTTT",  "FFFF" },
        {"F",     "F"    },
        {"FFFF",  "FTTT" },
    };

    (void)state;
    for (size_t r = 0; r < CS_ARRAY_LEN(rows); r++) {
        bool frozen[8], input[8], weight[8];
        int n = (int)strlen(rows[r].frozen);
        for (int i = 0; i < n; i++)
            frozen[i] = rows[r].frozen[i] == 'T';
        cs_graph_needs(frozen, n, input, weight);
        for (int i = 0; i < n; i++) {
            assert_int_equal(input[i], rows[r].input[i] == 'T');
            assert_int_equal(weight[i], !frozen[i]);
        }
    }
    cs_graph_needs(NULL, 0, NULL, NULL);
}

/* vision: embed, 2 blocks, norm; projector; llm: embed, 2 blocks, head */
static void trainable_sets_decide_what_needs_gradients(void **state)
{
    static const struct {
        const char *rules, *needs;
    } rows[] = {
  /* everything frozen: no backward anywhere */
        {"",                                              "........."},
        {"train:* freeze:*",                              "........."},
 /* alignment pretraining: projector weights, then input gradients through the whole LLM */
        {"train:vision.projector",                        "....wiiii"},
        {"train:*",                                       "wbbbbbbbb"},
        {"train:vision.projector train:llm",              "....wbbbb"},
 /* a trainable encoder layer: what is before it stays without */
        {"train:vision.encoder.layers.1",                 "..wiiiiii"},
        {"train:vision.encoder.norm",                     "...wiiiii"},
        {"train:vision.encoder.embed",                    "wiiiiiiii"},
 /* LLM only: its first trainable layer needs no input gradient */
        {"train:llm.layers",                              "......wbi"},
        {"train:llm.layers.1",                            ".......wi"},
        {"train:llm.head",                                "........w"},
        {"train:llm",                                     ".....wbbb"},
 /* a trainable embedding makes the first block need its input gradient */
        {"train:llm.embed",                               ".....wiii"},
 /* the last rule that matches holds */
        {"train:* freeze:llm train:llm.layers.0-0",       "wbbbbibii"},
        {"freeze:* train:*.layers.1",                     "..wiiiibi"},
 /* one tensor of a layer is enough */
        {"train:llm/model.layers.1.mlp.down_proj.weight", ".......wi"},
        {"train:llm.layers.1 freeze:llm/*",               "........."},
        {"train:* freeze:llm/*.mlp.* freeze:*/*norm*",    "wbbibbbbb"},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct fixture f;
        char text[64];
        open_graph(&f, &(struct cs_test_spec){
                           .vision_layers = 2, .llm_layers = 2, .rules = rows[i].rules});
        if (strcmp(needs_text(f.graph, text), rows[i].needs) != 0)
            fail_msg("\"%s\" needs %s, not %s", rows[i].rules, text, rows[i].needs);
        close_graph(&f);
    }
}

/* Names with a '/' are of parameters: each is decided for itself. */
static void rules_name_single_tensors(void **state)
{
    struct fixture f;
    int64_t n = 0;
    (void)state;
    open_graph(&f, &(struct cs_test_spec){
                       .rules = "train:llm.layers.1 freeze:llm/model.layers.1.mlp.down_proj.weight "
                                "train:llm/model.layers.0-0.*_layernorm.weight"});
    for (int i = 0; i < f.graph->n_params; i++) {
        const struct cs_param *p = &f.graph->params[i];
        const char *layer = f.graph->layers[p->layer].path;
        const bool is_norm = p->role == CS_PARAM_NORM1_W || p->role == CS_PARAM_NORM2_W;
        const bool want = strcmp(layer, "llm.layers.1") == 0
                              ? p->role != CS_PARAM_DOWN_W
                              : strcmp(layer, "llm.layers.0") == 0 && is_norm;
        if (p->is_trainable != want)
            fail_msg("%s %s", p->name, want ? "is frozen" : "trains");
        n += want ? p->count : 0;
    }
    assert_int_equal(f.graph->n_trained, n);
    assert_int_equal(layer_at(f.graph, "llm.layers.0")->n_trained, 2 * 48);
    close_graph(&f);
}

static void tied_head_trains_with_the_embedding(void **state)
{
    static const struct {
        const char *rules, *needs;
    } rows[] = {
        {"train:llm.embed",                 ".....wiib"},
        {"train:llm.layers.1",              ".......wi"},
        {"train:llm.head",                  "........w"}, /* its norm only */
        {"train:llm.embed freeze:llm.head", ".....wiib"},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct fixture f;
        char text[64];
        open_graph(
            &f, &(struct cs_test_spec){
                    .vision_layers = 2, .llm_layers = 2, .is_tied = true, .rules = rows[i].rules});
        if (strcmp(needs_text(f.graph, text), rows[i].needs) != 0)
            fail_msg("\"%s\" needs %s, not %s", rows[i].rules, text, rows[i].needs);
        assert_true(f.graph->is_tied);
        assert_string_equal(f.graph->params[f.graph->tied_param].tensor,
                            "model.embed_tokens.weight");
        for (int k = 0; k < f.graph->n_params; k++)
            assert_int_not_equal(f.graph->params[k].role, CS_PARAM_HEAD_W);
        close_graph(&f);
    }
}

static void branches_merge_by_or(void **state)
{
    struct fixture f;
    char text[64];
    (void)state;
    /* vision 4 + 1, depth 4 + 1, llm 4: only depth's projector trains */
    open_graph(&f, &(struct cs_test_spec){.n_encoders = 2,
                                          .vision_layers = 2,
                                          .llm_layers = 2,
                                          .rules = "train:depth.projector"});
    assert_string_equal(needs_text(f.graph, text), ".........wiiii");
    close_graph(&f);
    /* vision trains: the other branch is not upstream of anything in it */
    open_graph(&f,
               &(struct cs_test_spec){
                   .n_encoders = 2, .vision_layers = 2, .llm_layers = 2, .rules = "train:vision"});
    assert_string_equal(needs_text(f.graph, text), "wbbbb.....iiii");
    assert_int_equal(f.graph->n_branches, 3);
    assert_int_equal(f.graph->n_encoders, 2);
    assert_string_equal(f.graph->branches[1].name, "depth");
    assert_int_equal(f.graph->branches[1].encoder, 1);
    assert_int_equal(f.graph->branches[1].first_layer, 5);
    assert_string_equal(f.graph->branches[2].name, "llm");
    assert_int_equal(f.graph->branches[2].encoder, -1);
    close_graph(&f);
}

static void every_encoder_feeds_the_embedding(void **state)
{
    struct fixture f;
    (void)state;
    open_graph(&f, &(struct cs_test_spec){.n_encoders = 2, .rules = "train:depth.projector"});
    assert_int_equal(f.graph->n_feeds, 2);
    assert_string_equal(f.graph->branches[f.graph->llm].name, "llm");
    for (int32_t i = 0; i < 2; i++) {
        const struct cs_feed *feed = &f.graph->feeds[i];
        assert_int_equal(feed->id, i);
        assert_int_equal(feed->from, i);
        assert_int_equal(feed->to, f.graph->llm);
        assert_string_equal(f.graph->layers[feed->from_layer].path,
                            i == 0 ? "vision.projector" : "depth.projector");
        assert_string_equal(f.graph->layers[feed->to_layer].path, "llm.embed");
        assert_int_equal(feed->width, f.graph->branches[i].out_width);
        assert_int_equal(feed->item_rows, f.graph->branches[i].item_rows);
        assert_int_equal(feed->has_grad, i == 1);
    }
    close_graph(&f);
    open_graph(&f, &(struct cs_test_spec){.n_encoders = -1});
    assert_int_equal(f.graph->n_feeds, 0);
    assert_int_equal(f.graph->llm, 0);
    close_graph(&f);
}

/* Rows that enter in the middle of the LLM want gradients from there on only. */
static void a_feed_into_a_block_starts_there(void **state)
{
    struct fixture f;
    (void)state;
    open_graph(&f, &(struct cs_test_spec){.rules = "train:vision.projector", .llm_layers = 4});
    f.graph->feeds[0].to_layer = layer_at(f.graph, "llm.layers.2")->id;
    cs_graph_mark_needs(f.graph, f.arena);
    assert_true(f.graph->feeds[0].has_grad);
    assert_false(layer_at(f.graph, "llm.embed")->needs_input_grad);
    assert_false(layer_at(f.graph, "llm.layers.1")->needs_input_grad);
    assert_true(layer_at(f.graph, "llm.layers.2")->needs_input_grad);
    assert_true(layer_at(f.graph, "llm.head")->needs_input_grad);
    close_graph(&f);
}

static void text_only_model_is_one_branch(void **state)
{
    struct fixture f;
    char text[64];
    (void)state;
    open_graph(&f, &(struct cs_test_spec){.n_encoders = -1, .llm_layers = 2});
    assert_int_equal(f.graph->n_branches, 1);
    assert_string_equal(needs_text(f.graph, text), "wbbb");
    close_graph(&f);
}

static void layers_and_parameters_are_in_dataflow_order(void **state)
{
    struct fixture f;
    (void)state;
    open_graph(&f, &(struct cs_test_spec){.rules = "train:vision.projector"});
    const struct cs_graph *g = f.graph;
    static const char *const paths[] = {"vision.encoder.embed",
                                        "vision.encoder.layers.0",
                                        "vision.encoder.layers.1",
                                        "vision.encoder.layers.2",
                                        "vision.encoder.norm",
                                        "vision.projector",
                                        "llm.embed",
                                        "llm.layers.0",
                                        "llm.layers.1",
                                        "llm.layers.2",
                                        "llm.head"};
    assert_int_equal(g->n_layers, CS_ARRAY_LEN(paths));
    int next = 0;
    int64_t elements = 0;
    for (int i = 0; i < g->n_layers; i++) {
        const struct cs_layer *layer = &g->layers[i];
        assert_string_equal(layer->path, paths[i]);
        assert_int_equal(layer->id, i);
        assert_int_equal(layer->first_param, next);
        next += layer->n_params;
        elements += layer->n_elements;
        for (int k = layer->first_param; k < next; k++) {
            assert_int_equal(g->params[k].layer, i);
            assert_int_equal(g->params[k].id, k);
            assert_int_equal(g->params[k].module, layer->module);
            assert_int_equal(g->params[k].is_trainable, i == 5);
        }
    }
    assert_int_equal(next, g->n_params);
    assert_true(elements == g->n_elements);
    assert_true(g->n_trained == 2 * (48 * 48 + 48));
    assert_string_equal(g->params[0].name, "vision.encoder/embeddings.patch_embedding.weight");
    assert_string_equal(g->params[g->n_params - 1].name, "llm/lm_head.weight");
    assert_int_equal(g->branches[0].item_rows, 16);
    assert_int_equal(g->branches[0].item_bytes, 28 * 28 * 3);
    assert_int_equal(g->branches[0].out_width, 48);
    assert_int_equal(g->branches[0].n_layers, 6);
    assert_string_equal(g->modules[1].name, "vision.projector");
    assert_int_equal(g->modules[1].arch.in_width, 48);
    close_graph(&f);
}

static void widths_of_neighbours_meet_in_the_projector(void **state)
{
    struct fixture f;
    (void)state;
    open_graph(&f,
               &(struct cs_test_spec){.vision_width = 32, .llm_width = 64, .projector_layers = 1});
    assert_int_equal(f.graph->modules[1].arch.in_width, 32);
    assert_int_equal(f.graph->modules[1].arch.width, 64);
    const struct cs_layer *layer = layer_at(f.graph, "vision.projector");
    assert_int_equal(layer->n_params, 2);
    assert_true(f.graph->params[layer->first_param].dim[0] == 64);
    assert_true(f.graph->params[layer->first_param].dim[1] == 32);
    close_graph(&f);
}

static void feature_layer_drops_what_feeds_nothing(void **state)
{
    static const struct {
        int feature, blocks;
    } rows[] = {
        {-1, 3},
        {-2, 2},
        {-3, 1},
        {3,  3},
        {1,  1}
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct fixture f;
        open_graph(&f, &(struct cs_test_spec){.has_feature_layer = true,
                                              .feature_layer = rows[i].feature});
        assert_int_equal(f.graph->modules[0].arch.n_layers, rows[i].blocks);
        assert_int_equal(f.graph->modules[0].n_layers, rows[i].blocks + 1);
        assert_false(f.graph->modules[0].arch.has_final_norm);
        for (int k = 0; k < f.graph->n_params; k++)
            assert_null(strstr(f.graph->params[k].name, "post_layernorm"));
        close_graph(&f);
    }
}

static void wrong_graphs_are_refused(void **state)
{
    static const struct {
        struct cs_test_spec options;
        const char *message;
    } rows[] = {
        {{.rules = "train:visoin.projector"},
         "model.rules[0].glob \"visoin.projector\" matches no layer; did you mean "
         "\"vision.projector\"?"                                                                                                      },
        {{.rules = "train:* freeze:llm.layers.3"},
         "model.rules[1].glob \"llm.layers.3\" matches no layer; did you mean \"llm.layers.0\"?"                                      },
        {{.rules = "train:llm/model.layers.1.mlp.up_prj.weight"},
         "matches no parameter; did you mean \"llm/model.layers.1.mlp.up_proj.weight\"?"                                              },
        {{.rules = "train:llm/x"},
         "matches no parameter; parameters are like \"vision.encoder/embeddings"                                                      },
        {{.rules = "train:llm/model.layers.1.self_attn.q_proj.weight"},
         "model.rules train llm/model.layers.1.self_attn.q_proj.weight and not "
         "llm/model.layers.1.self_attn.k_proj.weight"                                                                                 },
        {{.rules = "train:something.else.entirely"},
         "layers are like \"vision.encoder.embed\" and \"llm.head\""                                                                  },
        {{.rules = ""},
         "nothing trains: model.rules leave all 11 layers frozen; add "
         "model:train(\"vision.projector\") or the like"                                                                              },
        {{.rules = "train:* freeze:*"},                                                          "nothing trains"                     },
        {{.has_feature_layer = true, .feature_layer = -4},
         "model.modules[0].feature_layer is -4; vision.encoder has 3 blocks, so -3 to -1 and 1 to "
         "3 exist"                                                                                                                    },
        {{.has_feature_layer = true, .feature_layer = 0},                                        "model.modules[0].feature_layer is 0"},
        {{.has_feature_layer = true, .feature_layer = -2, .rules = "train:vision.encoder.norm"},
         "\"vision.encoder.norm\" matches no layer"                                                                                   },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        struct cs_spec *spec = NULL;
        struct cs_graph *graph = NULL;
        json_t *root = cs_test_spec_json(&rows[i].options);
        assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_OK);
        assert_int_equal(cs_graph_build(spec, false, arena, &graph, &err), CS_INVALID);
        if (strstr(err.text, rows[i].message) == NULL)
            fail_msg("row %zu: \"%s\" lacks \"%s\"", i, err.text, rows[i].message);
        json_decref(root);
        cs_arena_free(arena);
    }
}

static void groups_of_the_optimizer_name_what_trains(void **state)
{
    static const struct {
        const char *glob, *message; /* NULL: it is taken */
    } rows[] = {
        {"vision.projector",    NULL                                                                                },
        {"vision.projector/*",  NULL                                                                                },
        {"*.bias",              NULL                                                                                },
        {"visoin.projector",    "optimizer.groups[0].glob \"visoin.projector\" matches no "
                             "parameter that trains; did you mean \"vision.projector\"?"},
        {"llm",                 "matches no parameter that trains; layers are like"                                 },
        {"llm/*up_proj.weight", "matches no parameter that trains; parameters are like"                             },
    };
    static const struct cs_test_spec options = {.rules = "train:vision.projector"};

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        struct cs_spec *spec = NULL;
        struct cs_graph *graph = NULL;
        json_t *root = cs_test_spec_json(&options);
        json_object_set_new(json_object_get(root, "optimizer"), "groups",
                            json_pack("[{s:s, s:f}]", "glob", rows[i].glob, "lr", 1e-3));
        assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_OK);
        assert_int_equal(cs_graph_build(spec, false, arena, &graph, &err),
                         rows[i].message ? CS_INVALID : CS_OK);
        if (rows[i].message != NULL && strstr(err.text, rows[i].message) == NULL)
            fail_msg("row %zu: \"%s\" lacks \"%s\"", i, err.text, rows[i].message);
        json_decref(root);
        cs_arena_free(arena);
    }
}

static void refuse_config(int module, json_t *config, enum cs_status status, const char *message)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    json_t *root = cs_test_spec_json(NULL);
    json_t *modules = json_object_get(json_object_get(root, "model"), "modules");
    json_object_set_new(json_array_get(modules, (size_t)module), "config", config);
    assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_OK);
    assert_int_equal(cs_graph_build(spec, false, arena, &graph, &err), status);
    if (strstr(err.text, message) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", err.text, message);
    json_decref(root);
    cs_arena_free(arena);
}

static void configs_must_fit_their_modules(void **state)
{
    (void)state;
    refuse_config(0, cs_test_llm_config(2, 48, false, false), CS_INVALID,
                  "model.modules[0].config (vision.encoder): family llama is an llm, the module is "
                  "an encoder");
    refuse_config(2, cs_test_siglip_config(2, 48), CS_INVALID,
                  "model.modules[2].config (llm): family siglip");
    refuse_config(
        2, json_pack("{s:s}", "model_type", "mamba"), CS_UNSUPPORTED,
        "model.modules[2].config (llm): config.json: model_type \"mamba\" is not supported");
    refuse_config(1, json_pack("{s:i}", "in_width", 64), CS_INVALID,
                  "model.modules[1].config.in_width is 64, but the encoder has width 48");
    refuse_config(1, json_pack("{s:i}", "out_width", 64), CS_INVALID,
                  "model.modules[1].config.out_width is 64, but the llm has width 48");
}

/* At the edges of halves: what makes queries, keys and values (and a gate), what reads their values; of MLPs the columns up
 * and down; experts have none. */
static void products_are(const struct cs_graph *graph, const char *path, int half, int64_t first,
                         int64_t second)
{
    const struct cs_half_products p = cs_layer_products(graph, layer_at(graph, path), half, 100);
    assert_true(p.first == 2 * 100 * 48 * first);
    assert_true(p.second == 2 * 100 * 48 * second);
}

/* Numbers by hand: siglip H 48, ffn 96, patches 147; llama H 48, Q 48, K 24, ffn 80, V 199. */
/* qwen3.5: H 48, Q 64, K 32, ffn 80; 4 heads of values of 5, 2 of keys of 6, 64 rows a chunk.
 * qwen3-moe: 2 of 5 experts of 24. */
static void flops_of_other_halves_equal_the_formulas(void **state)
{
    struct fixture f;
    const int64_t attention = 2 * 100 * 48 * (2 * 64 + 2 * 32) + 4 * 64 * 5050;
    const int64_t mlp = 2 * 100 * 48 * 3 * 80, conv = 2 * 12 + 20, value = 20;
    const int64_t rule = 2 * 64 * (3 * 6 + 2 * 5) + 6 * 6 * 5 + 64 * 64 / 3;
    (void)state;
    open_graph(&f, &(struct cs_test_spec){.is_recurrent = true});
    assert_true(cs_layer_fwd_flops(f.graph, layer_at(f.graph, "llm.layers.1"), 100, 5050, 0) ==
                attention + 2 * 100 * 48 * 64 + mlp);
    assert_true(cs_layer_fwd_flops(f.graph, layer_at(f.graph, "llm.layers.0"), 100, 0, 0) ==
                2 * 100 * 48 * (conv + value + 2 * 4 + value) + 100 * 4 * rule + mlp);
    products_are(f.graph, "llm.layers.1", CS_BLOCK_MIXER, 64 + 2 * 32 + 64, 64);
    products_are(f.graph, "llm.layers.0", CS_BLOCK_MIXER, conv + value + 2 * 4, value);
    products_are(f.graph, "llm.layers.0", CS_BLOCK_FFN, 2 * 80, 80);
    products_are(f.graph, "vision.encoder.layers.0", CS_BLOCK_FFN, 96, 96);
    products_are(f.graph, "llm.head", CS_BLOCK_MIXER, 0, 0);
    assert_true(cs_layer_variant(layer_at(f.graph, "llm.layers.0")) !=
                cs_layer_variant(layer_at(f.graph, "llm.layers.1")));
    close_graph(&f);
    open_graph(&f, &(struct cs_test_spec){.has_experts = true});
    assert_true(cs_layer_fwd_flops(f.graph, layer_at(f.graph, "llm.layers.1"), 100, 5050, 0) ==
                attention + mlp);
    assert_true(cs_layer_fwd_flops(f.graph, layer_at(f.graph, "llm.layers.2"), 100, 5050, 0) ==
                attention + 2 * 100 * 48 * (5 + 2 * 3 * 24));
    products_are(f.graph, "llm.layers.2", CS_BLOCK_FFN, 0, 0);
    close_graph(&f);
}

static void flops_and_bytes_equal_the_formulas(void **state)
{
    struct fixture f;
    (void)state;
    open_graph(&f, &(struct cs_test_spec){.rules = "train:vision.projector"});
    const struct cs_graph *g = f.graph;
    const struct cs_layer *patch = layer_at(g, "vision.encoder.embed");
    const struct cs_layer *vit = layer_at(g, "vision.encoder.layers.0");
    const struct cs_layer *projector = layer_at(g, "vision.projector");
    const struct cs_layer *embed = layer_at(g, "llm.embed");
    const struct cs_layer *block = layer_at(g, "llm.layers.1");
    const struct cs_layer *head = layer_at(g, "llm.head");
    assert_true(cs_layer_fwd_flops(g, patch, 16, 0, 0) == 2 * 16 * 48 * 147);
    assert_true(cs_layer_fwd_flops(g, vit, 16, 256, 0) ==
                2 * 16 * (4 * 48 * 48 + 2 * 48 * 96) + 4 * 48 * 256);
    assert_true(cs_layer_fwd_flops(g, projector, 16, 0, 0) == 2 * 16 * 2 * 48 * 48);
    assert_true(cs_layer_fwd_flops(g, embed, 100, 0, 0) == 0);
    assert_true(cs_layer_fwd_flops(g, block, 100, 5050, 0) ==
                2 * 100 * (2 * 48 * 48 + 2 * 48 * 24 + 3 * 48 * 80) + 4 * 48 * 5050);
    assert_true(cs_layer_fwd_flops(g, head, 100, 0, 30) == 2 * 30 * 48 * 199);
    assert_true(cs_layer_saved_bytes(g, patch, 16) == 0);
    assert_true(cs_layer_saved_bytes(g, vit, 16) == 0);
    assert_true(cs_layer_saved_bytes(g, projector, 16) == 4 * 16 * (48 + 2 * 48));
    assert_true(cs_layer_saved_bytes(g, block, 100) ==
                4 * 100 * (2 * 48 + 2 * 48 + 2 * 24 + 4 + 2 * 80 + 2));
    assert_true(cs_layer_saved_bytes(g, head, 100) == 4 * 100 * 97);
    close_graph(&f);
    open_graph(&f, &(struct cs_test_spec){.rules = "train:*"});
    assert_true(cs_layer_saved_bytes(f.graph, layer_at(f.graph, "vision.encoder.embed"), 16) ==
                4 * 16 * 147);
    assert_true(cs_layer_saved_bytes(f.graph, layer_at(f.graph, "vision.encoder.layers.1"), 16) ==
                4 * 16 * (4 * 48 + 4 * 48 + 4 + 2 * 96 + 4));
    assert_true(cs_layer_saved_bytes(f.graph, layer_at(f.graph, "llm.layers.1"), 100) ==
                4 * 100 * (4 * 48 + 2 * 48 + 2 * 24 + 4 + 3 * 80 + 2));
    close_graph(&f);
}

/* The same shapes: what recompute drops, what a split backward holds, what a rank of tp has whole. */
static void kept_elements_follow_recompute_and_freezing(void **state)
{
    struct fixture f;
    (void)state;
    open_graph(&f, &(struct cs_test_spec){.rules = "train:*"});
    const struct cs_graph *g = f.graph;
    const struct cs_layer *vit = layer_at(g, "vision.encoder.layers.1");
    const struct cs_layer *block = layer_at(g, "llm.layers.1");
    const int64_t all = 4 * 48 + 2 * 48 + 2 * 24 + 4 + 3 * 80 + 2;
    assert_int_equal(cs_keep_elements(g, block, CS_RECOMPUTE_NONE, CS_KEEP_ALL), all);
    assert_int_equal(cs_keep_elements(g, block, CS_RECOMPUTE_NONE, CS_KEEP_WHOLE), 4 * 48 + 2);
    assert_int_equal(cs_keep_elements(g, block, CS_RECOMPUTE_SELECTIVE, CS_KEEP_ALL),
                     all - 2 * 48 - 80);
    assert_int_equal(cs_keep_elements(g, block, CS_RECOMPUTE_FULL, CS_KEEP_ALL), 48);
    assert_int_equal(cs_keep_held_elements(g, block, CS_RECOMPUTE_NONE), 3 * 48 + 2 * 24);
    assert_int_equal(cs_keep_held_elements(g, vit, CS_RECOMPUTE_NONE), 2 * 48 + 3 * 48 + 96);
    assert_int_equal(cs_keep_held_elements(g, block, CS_RECOMPUTE_FULL),
                     3 * 48 + 2 * 24 + all - 48);
    assert_int_equal(cs_keep_made_elements(g, block), 3 * 48 + 2 * 48 + 2 * 24 + 3 * 80);
    close_graph(&f);
    open_graph(&f, &(struct cs_test_spec){.rules = "train:vision.projector"});
    block = layer_at(f.graph, "llm.layers.1");
    assert_int_equal(cs_keep_elements(f.graph, block, CS_RECOMPUTE_SELECTIVE, CS_KEEP_ALL),
                     all - 2 * 48 - 80);
    assert_int_equal(cs_keep_held_elements(f.graph, block, CS_RECOMPUTE_FULL), 0);
    vit = layer_at(f.graph, "vision.encoder.layers.1");
    assert_int_equal(cs_keep_elements(f.graph, vit, CS_RECOMPUTE_NONE, CS_KEEP_ALL), 0);
    close_graph(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_needs_equal_the_goldens),
        cmocka_unit_test(trainable_sets_decide_what_needs_gradients),
        cmocka_unit_test(rules_name_single_tensors),
        cmocka_unit_test(tied_head_trains_with_the_embedding),
        cmocka_unit_test(branches_merge_by_or),
        cmocka_unit_test(every_encoder_feeds_the_embedding),
        cmocka_unit_test(a_feed_into_a_block_starts_there),
        cmocka_unit_test(text_only_model_is_one_branch),
        cmocka_unit_test(layers_and_parameters_are_in_dataflow_order),
        cmocka_unit_test(widths_of_neighbours_meet_in_the_projector),
        cmocka_unit_test(feature_layer_drops_what_feeds_nothing),
        cmocka_unit_test(wrong_graphs_are_refused),
        cmocka_unit_test(groups_of_the_optimizer_name_what_trains),
        cmocka_unit_test(configs_must_fit_their_modules),
        cmocka_unit_test(flops_and_bytes_equal_the_formulas),
        cmocka_unit_test(flops_of_other_halves_equal_the_formulas),
        cmocka_unit_test(kept_elements_follow_recompute_and_freezing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
