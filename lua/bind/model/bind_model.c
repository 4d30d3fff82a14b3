/* cs.hf, cs.projector.*, cs.mllm and the methods of a model: composing modules, freezing them,
 * asking what trains. A model's JSON is the document's "model" part: modules and rules. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "lua/bind/bind.h"
#include "lua/bind/model/bind_described.h"
#include "lua/bind/model/bind_encoder.h"
#include "lua/bind/model/bind_hf.h"
#include "lua/bind/model/bind_items.h"
#include "lua/bind/model/bind_projector.h"
#include "lua/bind/model/bind_whole.h"
#include "lua/bind/preview_document.h"

/* clang-format off */
static int call_mlp(lua_State *L);
static int call_linear(lua_State *L);
static int call_mllm(lua_State *L);

static const struct cs_arg mlp_args[] = {
    {"layers", CS_ARG_INT, false, NULL, 1, 2, 0, "2", "linear layers"},
    {"activation", CS_ARG_STRING, false, "gelu|gelu_pytorch_tanh|relu|silu|quick_gelu", 0, 0, 0, "\"gelu\"", "between the layers"},
    {"bias", CS_ARG_BOOL, false, NULL, 0, 0, 0, "true", "whether the linear layers have one"},
    {"from", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "directory with trained weights, which also says what stands above; absent: random"},
};
static const struct cs_arg linear_args[] = {
    {"bias", CS_ARG_BOOL, false, NULL, 0, 0, 0, "true", "whether the layer has one"},
    {"from", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "directory with trained weights, which also says what stands above; absent: random"},
};
static const struct cs_arg mllm_args[] = {
    {"name", CS_ARG_STRING, false, NULL, 0, 0, 0, "\"mllm\"", "shown on the screens; also of the job where it has none"},
    {"encoders", CS_ARG_TABLE, false, NULL, 0, 0, 0, "{}", "name = { from = cs.hf ..., projector = ..., token = ... }"},
    {"llm", CS_ARG_VALUE, false, NULL, 0, 0, CS_LUA_HF, NULL, "the language model, cs.hf \"DIR\"; required without from"},
    {"from", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "instead of encoders and llm: a directory that holds all of them, as LLaVA's or Qwen3-VL's"},
    {"init", CS_ARG_STRING, false, "weights|random", 0, 0, 0, "\"weights\"", "with from: read the weights, or start from random ones"},
    {"router_aux_loss_coef", CS_ARG_NUMBER, false, NULL, 0, 1e6, 0, NULL, "with from: as in cs.hf"},
    {"video", CS_ARG_TABLE, false, NULL, 0, 0, 0, NULL, "with from: reads videos as well, as in an encoder's table; {} as the directory says"},
    {"key", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "with from: the key of a sample that holds the encoder's files, as in an encoder's table"},
    {"mask", CS_ARG_STRING, false, "causal|packed|cornstarch|image_bidir|modality_bidir|item|window|prefix|image_bidir_window|image_window", 0, 0, 0, "the directory's, or \"causal\"", "who attends to whom in the language model, as in cs.lab.mask; in transformers LLaVA is causal, Gemma 3 image_bidir, Gemma 4 image_window; a model whose layers have windows of their own keeps them and takes these three"},
    {"window", CS_ARG_INT, false, NULL, 1, 16777216, 0, NULL, "tokens, with mask = \"window\""},
    {"prefix", CS_ARG_INT, false, NULL, 1, 16777216, 0, NULL, "tokens, with mask = \"prefix\""},
};
enum { HF, ENCODER, MLP, LINEAR, PROJECTOR_HF, MLLM }; /* rows */
static const struct cs_lua_function functions[] = {
    {"cs.hf", "a model directory as save_pretrained writes it", "cs.hf", cs_lua_hf_args, CS_LUA_N_HF_ARGS, cs_lua_hf, "dir"},
    {"cs.encoder", "an encoder of pictures that is described, with fresh weights; config.json of what is exported says the same", "cs.hf", cs_lua_described_args, CS_LUA_N_DESCRIBED_ARGS, cs_lua_described, NULL},
    {"cs.projector.mlp", "projector of linear layers with an activation between", "cs.projector", mlp_args, CS_ARRAY_LEN(mlp_args), call_mlp, NULL},
    {"cs.projector.linear", "projector of one linear layer", "cs.projector", linear_args, CS_ARRAY_LEN(linear_args), call_linear, NULL},
    {"cs.projector.hf", "the projector of a directory, of whatever kind it is", "cs.projector", cs_lua_projector_hf_args, CS_LUA_N_PROJECTOR_HF_ARGS, cs_lua_projector_hf, "dir"},
    {"cs.mllm", "a multimodal model: encoders with projectors, and a language model", "cs.mllm", mllm_args, CS_ARRAY_LEN(mllm_args), call_mllm, "from"},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_model(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static int call_mlp(lua_State *L)
{
    return cs_lua_make_projector(L, &functions[MLP], "mlp");
}

static int call_linear(lua_State *L)
{
    return cs_lua_make_projector(L, &functions[LINEAR], "linear");
}

static json_t *llm_module(const json_t *hf)
{
    return json_pack("{s:s s:s s:O s:O s:O s:O}", "name", "llm", "kind", "llm", "dir",
                     json_object_get(hf, "dir"), "init", json_object_get(hf, "init"), "config",
                     json_object_get(hf, "config"), "tokenizer", json_object_get(hf, "dir"));
}

/* The keys of the mask, where they are given or the directory says it, with the names that a job has. */
static void copy_mask(lua_State *L, const json_t *llm, json_t *module)
{
    static const char *const sizes[] = {"window", "prefix"};
    const char *saved = json_string_value(json_object_get(json_object_get(llm, "saved"), "mask"));
    const char *mask = cs_lua_args_string(L, "mask", saved);
    cs_lua_args_default(L, &functions[MLLM], "mask", mask ? NULL : "\"causal\"");
    if (mask)
        json_object_set_new(module, "mask", json_string(mask));
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++)
        if (cs_lua_args_int(L, sizes[i], 0) != 0)
            json_object_set_new(module, sizes[i], json_integer(cs_lua_args_int(L, sizes[i], 0)));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The encoders' table is on top of the stack. In the order of their names, so that equal scripts
 * give equal documents. */
static void add_encoders(lua_State *L, const json_t *llm, json_t *modules)
{
    const char *names[CS_MAX_ENCODERS]; /* kept alive by the table */
    size_t n = 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1))
            cs_lua_error(L, "cs.mllm: encoders = { NAME = { from = ..., projector = ... } }");
        if (n == CS_MAX_ENCODERS)
            cs_lua_error(L, "cs.mllm: at most %d encoders", CS_MAX_ENCODERS);
        if (lua_rawlen(L, -2) > 64)
            cs_lua_error(L, "cs.mllm: the name of an encoder may have 64 bytes");
        names[n++] = lua_tostring(L, -2);
    }
    qsort(names, n, sizeof(names[0]), by_name);
    for (size_t i = 0; i < n; i++) {
        lua_pushcfunction(L, cs_lua_add_encoder);
        lua_pushstring(L, names[i]);
        lua_rawget(L, -3);
        lua_pushlightuserdata(L, modules);
        lua_pushstring(L, names[i]);
        lua_pushlightuserdata(L, (void *)(uintptr_t)llm);
        lua_call(L, 4, 0);
    }
}

static int call_mllm(lua_State *L)
{
    cs_lua_take_positional(L, "from");
    cs_lua_args_check(L, &functions[MLLM]);
    cs_lua_take_whole(L);
    const char *name = cs_lua_args_string(L, "name", CS_LUA_MODEL_NAME);
    const struct cs_lua_value *llm = cs_lua_args_value(L, "llm");
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_MODEL, NULL);
    int self = lua_gettop(L);
    value->json = json_pack("{s:s s:[] s:[]}", "name", name, "modules", "rules");
    json_t *modules = json_object_get(value->json, "modules");
    if (!modules)
        return cs_lua_error(L, "cs.mllm: the name is not valid UTF-8");
    lua_pushliteral(L, "encoders");
    if (lua_rawget(L, 1) == LUA_TTABLE)
        add_encoders(L, llm->json, modules);
    json_t *module = llm_module(llm->json);
    json_array_append_new(modules, module);
    copy_mask(L, llm->json, module);
    lua_settop(L, self);
    struct cs_lua_value *check = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    check->json = cs_lua_preview_document(value->json, NULL);
    cs_lua_build_graph(L, "cs.mllm", check, true);
    cs_lua_add_items(check->graph, modules);
    lua_settop(L, self);
    return 1;
}

/* Methods */

static struct cs_lua_value *self_model(lua_State *L)
{
    struct cs_lua_value *value = cs_lua_value_test(L, 1);
    if (!value || value->kind != CS_LUA_MODEL)
        cs_lua_error(L, "call it with a colon: model:method()");
    return value;
}

static int add_rules(lua_State *L, const char *op)
{
    const struct cs_lua_value *model = self_model(L);
    int n = lua_gettop(L);
    if (n < 2)
        return cs_lua_error(L, "model:%s: which modules? e.g. model:%s(\"*.projector\")", op, op);
    struct cs_lua_value *out = cs_lua_value_new(L, CS_LUA_MODEL, NULL);
    out->json = json_deep_copy(model->json);
    for (int i = 2; i <= n; i++) {
        if (lua_type(L, i) != LUA_TSTRING)
            return cs_lua_error(L, "model:%s: a module path or glob is a string", op);
        json_array_append_new(json_object_get(out->json, "rules"),
                              json_pack("{s:s s:s}", "op", op, "glob", lua_tostring(L, i)));
    }
    lua_pushfstring(L, "model:%s", op);
    struct cs_lua_value *check = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    check->json = cs_lua_preview_document(out->json, NULL);
    cs_lua_build_graph(L, lua_tostring(L, -2), check, true);
    lua_pop(L, 2);
    return 1;
}

static int model_train(lua_State *L)
{
    return add_rules(L, "train");
}

static int model_freeze(lua_State *L)
{
    return add_rules(L, "freeze");
}

static const struct cs_graph *model_graph(lua_State *L, struct cs_lua_value *model)
{
    struct cs_lua_value *built = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    built->json = cs_lua_preview_document(model->json, NULL);
    cs_lua_build_graph(L, "model", built, true);
    return built->graph; /* alive while the box is on the stack */
}

static int model_params(lua_State *L)
{
    lua_pushinteger(L, model_graph(L, self_model(L))->n_elements);
    return 1;
}

static int model_trainable(lua_State *L)
{
    lua_pushinteger(L, model_graph(L, self_model(L))->n_trained);
    return 1;
}

static int model_modules(lua_State *L)
{
    const struct cs_graph *graph = model_graph(L, self_model(L));
    lua_createtable(L, graph->n_layers, 0);
    for (int i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        lua_createtable(L, 0, 5);
        lua_pushstring(L, layer->path);
        lua_setfield(L, -2, "path");
        lua_pushinteger(L, layer->n_elements);
        lua_setfield(L, -2, "params");
        lua_pushinteger(L, layer->n_trained);
        lua_setfield(L, -2, "trained");
        lua_pushboolean(L, layer->needs_weight_grad);
        lua_setfield(L, -2, "needs_weight_grad");
        lua_pushboolean(L, layer->needs_input_grad);
        lua_setfield(L, -2, "needs_input_grad");
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int model_tostring(lua_State *L)
{
    struct cs_lua_value *model = self_model(L);
    const struct cs_graph *graph = model_graph(L, model);
    char all[CS_UNITS_CAP], trained[CS_UNITS_CAP];
    cs_count_print(all, sizeof(all), (uint64_t)graph->n_elements);
    cs_count_print(trained, sizeof(trained), (uint64_t)graph->n_trained);
    lua_pushfstring(L, "model %s: %d module%s, %s parameters, %s trained",
                    json_string_value(json_object_get(model->json, "name")), graph->n_modules,
                    CS_PLURAL(graph->n_modules), all, trained);
    return 1;
}

void cs_lua_register_model(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"train",            model_train      },
        {"freeze",           model_freeze     },
        {"lora",             cs_lua_model_lora},
        {"params",           model_params     },
        {"trainable_params", model_trainable  },
        {"modules",          model_modules    },
        {NULL,               NULL             },
    };
    static const luaL_Reg none[] = {
        {NULL, NULL}
    };
    cs_lua_value_register(L, CS_LUA_MODEL, methods, model_tostring);
    cs_lua_value_register(L, CS_LUA_HF, none, NULL);
    cs_lua_value_register(L, CS_LUA_PROJECTOR, none, NULL);
}
