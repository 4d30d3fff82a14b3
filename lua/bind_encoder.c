/* One encoder of cs.mllm with its projector, as two modules of the document. What is saved beside the
 * weights holds; a script that says something else is refused with both values. */
#include "lua/bind_encoder.h"

#include <stdio.h>
#include <string.h>

#include "core/doc/doc.h"
#include "lua/args.h"
#include "lua/bind.h"
#include "store/fsio.h"

/* clang-format off */
static const struct cs_arg encoder_args[] = {
    {"from", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_HF, NULL, "the encoder, cs.hf \"DIR\""},
    {"projector", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_PROJECTOR, NULL, "cs.projector.mlp { ... }"},
    {"token", CS_ARG_STRING, false, NULL, 0, 0, 0, "the directory's, or \"<image>\"", "placeholder in the conversations"},
    {"key", CS_ARG_STRING, false, NULL, 0, 0, 0, "image, where it is the only encoder", "the key of a sample that holds its files, also with an s; of several encoders each has the word of its token, or its name"},
    {"feature_layer", CS_ARG_INT, false, NULL, -64, -1, 0, "the directory's, or -1", "hidden state handed on, as in LLaVA: -1 the last block's"},
    {"final_norm", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "hand on the state after the encoder's final norm instead"},
};
static const struct cs_lua_function encoder_function = {"cs.mllm: encoder", "", "", encoder_args, CS_ARRAY_LEN(encoder_args), NULL, NULL};

/* clang-format on */

json_t *cs_lua_saved_settings(const struct cs_hfdir *dir)
{
    char path[CS_PATH_CAP];
    json_t *saved = json_object(), *processor = NULL;
    const struct cs_composite *root = cs_hfdir_composite(dir);
    if (root)
        json_object_set_new(saved, "feature_layer", json_integer(root->feature_layer));
    if (cs_path(path, NULL, "%s/processor_config.json", cs_hfdir_path(dir)) == CS_OK &&
        cs_fs_exists(path) && cs_fs_read_json(path, &processor, NULL) == CS_OK) {
        const json_t *token = cs_doc_get(processor, "image_token", NULL);
        if (json_is_string(token))
            json_object_set(saved, "token", (json_t *)(uintptr_t)token);
        json_decref(processor);
    }
    return saved;
}

static bool is_given(lua_State *L, const char *key)
{
    lua_pushstring(L, key);
    bool is_there = lua_rawget(L, 1) != LUA_TNIL;
    lua_pop(L, 1);
    return is_there;
}

static void contradiction(lua_State *L, const char *key, const char *here, const json_t *saved,
                          const json_t *dir)
{
    char there[CS_DOC_SHOWN];
    cs_lua_error(
        L,
        "cs.mllm: encoder: %s is %s here and %s in %s, which the weights were trained with: "
        "leave it away, or take the parts from directories of their own",
        key, here, cs_doc_show(saved, there), json_string_value(dir));
}

/* hidden_states has n + 1 entries: -1 and n are one */
static json_int_t from_behind(json_int_t layer, const json_t *config)
{
    const json_t *n = json_object_get(config, "num_hidden_layers");
    return layer >= 0 && json_is_integer(n) ? layer - json_integer_value(n) - 1 : layer;
}

/* The hidden state that feeds the projector; NULL: that after the final norm. A new reference. */
static json_t *choose_layer(lua_State *L, const json_t *hf)
{
    char here[32];
    const json_t *saved = json_object_get(json_object_get(hf, "saved"), "feature_layer");
    json_int_t layer = (json_int_t)cs_lua_args_int(L, "feature_layer", -1);
    bool is_final = cs_lua_args_bool(L, "final_norm", false);
    if (is_final && is_given(L, "feature_layer"))
        cs_lua_error(L, "cs.mllm: encoder: feature_layer and final_norm exclude each other");
    if (!saved)
        return is_final ? NULL : json_integer(layer);
    if (is_final)
        contradiction(L, "final_norm", "true", saved, json_object_get(hf, "dir"));
    snprintf(here, sizeof here, "%lld", (long long)layer);
    if (is_given(L, "feature_layer") &&
        from_behind(json_integer_value(saved), json_object_get(hf, "config")) != layer)
        contradiction(L, "feature_layer", here, saved, json_object_get(hf, "dir"));
    return json_deep_copy(saved);
}

static const char *choose_token(lua_State *L, const json_t *hf)
{
    const json_t *saved = json_object_get(json_object_get(hf, "saved"), "token");
    const char *token = cs_lua_args_string(L, "token", NULL);
    if (!saved)
        return token ? token : "<image>";
    if (token && strcmp(token, json_string_value(saved)) != 0)
        contradiction(L, "token", token, saved, json_object_get(hf, "dir"));
    return json_string_value(saved);
}

int cs_lua_add_encoder(lua_State *L)
{
    json_t *modules = lua_touserdata(L, 2);
    char name[128];
    snprintf(name, sizeof(name), "%s", lua_tostring(L, 3));
    cs_lua_args_check(L, &encoder_function);
    const json_t *hf = cs_lua_args_value(L, "from")->json;
    const json_t *projector = cs_lua_args_value(L, "projector")->json;
    const char *token = choose_token(L, hf);
    json_t *layer = choose_layer(L, hf); /* nothing raises until it is in the document */
    json_t *encoder = json_pack(
        "{s:o s:s s:O s:O s:O s:s s:o*}", "name", json_sprintf("%s.encoder", name), "kind",
        "encoder", "dir", json_object_get(hf, "dir"), "init", json_object_get(hf, "init"), "config",
        json_object_get(hf, "config"), "token", token, "feature_layer", layer);
    if (!encoder)
        return cs_lua_error(L, "cs.mllm: encoder: the token or name is not valid UTF-8");
    if (json_object_get(hf, "processor"))
        json_object_set(encoder, "processor", json_object_get(hf, "processor"));
    if (cs_lua_args_string(L, "key", "")[0] != '\0')
        json_object_set_new(encoder, "key", json_string(cs_lua_args_string(L, "key", "")));
    json_array_append_new(modules, encoder);
    json_t *p = json_deep_copy(projector);
    json_object_set_new(p, "name", json_sprintf("%s.projector", name));
    json_object_set_new(p, "kind", json_string("projector"));
    json_array_append_new(modules, p);
    return 0;
}
