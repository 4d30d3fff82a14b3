#include "lua/bind/model/bind_hf.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/arch/arch.h"
#include "core/doc/doc.h"
#include "input/tok/tokenizer.h"
#include "lua/bind/bind.h"
#include "store/fsio.h"

/* clang-format off */
const struct cs_arg cs_lua_hf_args[CS_LUA_N_HF_ARGS] = {
    {"dir", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "a Hugging Face model directory"},
    {"part", CS_ARG_STRING, false, "vision|audio|llm|projector", 0, 0, 0, NULL, "component of a composite directory (LLaVA, Qwen3-VL, Voxtral ...)"},
    {"init", CS_ARG_STRING, false, "weights|random", 0, 0, 0, "\"weights\"", "read the weights, or start from random ones"},
    {"router_aux_loss_coef", CS_ARG_NUMBER, false, NULL, 0, 1e6, 0, "the directory's, where it says output_router_logits; else 0", "of a model with experts: share of the loss of their balance in what is trained"},
};
/* clang-format on */
static const struct cs_lua_function hf_function = {"cs.hf",          "",   "",  cs_lua_hf_args,
                                                   CS_LUA_N_HF_ARGS, NULL, NULL};

const char *cs_lua_dir(lua_State *L, const char *function, const char *dir)
{
    char path[PATH_MAX];
    if (!realpath(dir, path))
        cs_lua_error(L, "%s: directory '%s' not found; is the path relative to where you started?",
                     function, dir);
    return lua_pushstring(L, path);
}

void cs_lua_take_positional(lua_State *L, const char *key)
{
    if (lua_type(L, 1) != LUA_TSTRING)
        return;
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, key);
    lua_replace(L, 1);
}

/* as the processor writes it, NULL: it does not */
static json_t *token_of_processor(const struct cs_hfdir *dir)
{
    static const char *const keys[] = {"image_token", "audio_token"};
    char path[CS_PATH_CAP];
    json_t *processor = NULL, *found = NULL;
    if (cs_path(path, NULL, "%s/processor_config.json", cs_hfdir_path(dir)) != CS_OK ||
        !cs_fs_exists(path) || cs_fs_read_json(path, &processor, NULL) != CS_OK)
        return NULL;
    for (size_t i = 0; found == NULL && i < CS_ARRAY_LEN(keys); i++) {
        const json_t *token = cs_doc_get(processor, keys[i], NULL);
        if (json_is_string(token))
            found = json_string(json_string_value(token));
    }
    json_decref(processor);
    return found;
}

/* that which the composite's tokenizer has for the id at its root, NULL: none */
static json_t *token_of_composite(const struct cs_hfdir *dir)
{
    struct cs_tokenizer *tokenizer = NULL;
    struct cs_buf text = {0};
    json_t *found = NULL;
    const int32_t id = (int32_t)cs_hfdir_composite(dir)->image_token;
    if (id < 0 || !cs_tokenizer_is_in(cs_hfdir_path(dir)) ||
        cs_tokenizer_open(cs_hfdir_path(dir), &tokenizer, NULL) != CS_OK)
        return NULL;
    if (cs_tokenizer_decode(tokenizer, &id, 1, false, &text, NULL) == CS_OK && text.len > 0)
        found = json_stringn(text.data, text.len);
    cs_buf_free(&text);
    cs_tokenizer_close(tokenizer);
    return found;
}

static void save_features(const struct cs_composite *root, json_t *saved)
{
    if (root->has_final_norm)
        json_object_set_new(saved, "final_norm", json_true());
    else
        json_object_set_new(saved, "feature_layer", json_integer(root->feature_layer));
}

json_t *cs_lua_saved_settings(const struct cs_hfdir *dir)
{
    static const char *const features[] = {"feature_layer", "final_norm"};
    json_t *saved = json_object(), *token = token_of_processor(dir);
    const struct cs_composite *root = cs_hfdir_composite(dir);
    const char *mask = root ? cs_composite_mask(root->family, cs_hfdir_root_config(dir)) : NULL;
    if (root)
        save_features(root, saved);
    else if (cs_projector_is(cs_hfdir_config(dir)))
        for (size_t i = 0; i < CS_ARRAY_LEN(features); i++)
            json_object_set(saved, features[i], json_object_get(cs_hfdir_config(dir), features[i]));
    if (token == NULL && root)
        token = token_of_composite(dir);
    if (token != NULL)
        json_object_set_new(saved, "token", token);
    if (mask != NULL)
        json_object_set_new(saved, "mask", json_string(mask));
    return saved;
}

/* The share of the loss of the experts' balance, as config.json says it. */
static enum cs_status set_balance(json_t *config, double share, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    enum cs_status status = cs_arch_from_config(config, arena, &arch, err);
    if (status == CS_OK && arch.experts.n == 0)
        status = cs_fail(err, CS_INVALID, "router_aux_loss_coef: the model has no experts");
    cs_arena_free(arena);
    json_object_set_new(config, "router_aux_loss_coef", json_real(share));
    json_object_set_new(config, "output_router_logits", json_boolean(share > 0));
    return status;
}

int cs_lua_hf(lua_State *L)
{
    struct cs_err err;
    enum cs_status status = CS_OK;
    cs_lua_take_positional(L, "dir");
    cs_lua_args_check(L, &hf_function);
    const char *dir = cs_lua_dir(L, "cs.hf", cs_lua_args_string(L, "dir", ""));
    const double balance = cs_lua_args_number(L, "router_aux_loss_coef", -1);
    const char *part = cs_lua_args_string(L, "part", ""),
               *init = cs_lua_args_string(L, "init", "weights");
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_HF, NULL);
    struct cs_hfdir *hf = NULL;
    value->json = json_object();
    if (cs_hfdir_open(dir, part, &hf, &err) != CS_OK)
        return cs_lua_error(L, "cs.hf: %s", err.text);
    /* nothing raises until hf is closed */
    const json_t *processor = cs_hfdir_processor(hf);
    json_object_set_new(value->json, "dir", json_string(dir));
    json_object_set_new(value->json, "init", json_string(init));
    json_object_set_new(value->json, "config", json_deep_copy(cs_hfdir_config(hf)));
    if (balance >= 0)
        status = set_balance(json_object_get(value->json, "config"), balance, &err);
    if (processor)
        json_object_set_new(value->json, "processor", json_deep_copy(processor));
    if (cs_hfdir_video(hf))
        json_object_set_new(value->json, "video", json_deep_copy(cs_hfdir_video(hf)));
    json_object_set_new(value->json, "has_tokenizer", json_boolean(cs_hfdir_has_tokenizer(hf)));
    json_object_set_new(value->json, "saved", cs_lua_saved_settings(hf));
    if (cs_hfdir_is_tie_broken(hf) && strcmp(init, "random") == 0) /* of weights not taken */
        json_object_set_new(json_object_get(value->json, "config"), "tie_word_embeddings",
                            json_true());
    cs_hfdir_close(hf);
    if (status != CS_OK)
        return cs_lua_error(L, "cs.hf: %s", err.text);
    return 1;
}
