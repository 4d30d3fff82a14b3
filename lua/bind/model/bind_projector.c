/* cs.projector: what a projector is, from the script and from the directory its weights are in. The
 * directory holds; a script that says something else is refused. */
#include "lua/bind/model/bind_projector.h"

#include <string.h>

#include "core/arch/read/config.h"
#include "lua/bind/bind.h"
#include "lua/bind/model/bind_hf.h"
#include "store/hf/hfdir.h"

/* *out: the settings of a job's module, *saved: what the directory says beside them; new objects */
static enum cs_status read_dir(const char *dir, json_t **out, json_t **saved, struct cs_err *err)
{
    struct cs_hfdir *hf = NULL;
    CS_TRY(cs_hfdir_open_kind(dir, CS_MODULE_PROJECTOR, &hf, err));
    const enum cs_status status = cs_hfdir_projector_settings(hf, out, err);
    if (status == CS_OK)
        *saved = cs_lua_saved_settings(hf);
    cs_hfdir_close(hf);
    return status;
}

static const char *show(const json_t *value, char out[32])
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    snprintf(out, 32, "%lld", (long long)json_integer_value(value));
    return out;
}

static const char *act_word(const json_t *settings)
{
    return cs_act_word(cs_act_named(json_string_value(json_object_get(settings, "activation"))));
}

/* What both say must agree; key NULL: they do. */
static const char *differing(lua_State *L, const json_t *asked, const json_t *there)
{
    static const char *const keys[] = {"layers", "activation", "bias"};
    const bool is_one = json_integer_value(json_object_get(there, "layers")) == 1;
    if (!json_equal(json_object_get(asked, "family"), json_object_get(there, "family")))
        return "family";
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
        const bool is_act = strcmp(keys[i], "activation") == 0;
        const bool is_same =
            is_act ? is_one || act_word(asked) == act_word(there)
                   : json_equal(json_object_get(asked, keys[i]), json_object_get(there, keys[i]));
        if (cs_lua_args_has(L, keys[i]) && !is_same)
            return keys[i];
    }
    return NULL;
}

/* the projector in the directory, which must be what the script asks for */
static void settle(lua_State *L, const char *function, const char *dir, json_t *asked,
                   struct cs_lua_value *there, struct cs_lua_value *saved)
{
    struct cs_err err;
    char here_text[32], there_text[32];
    if (read_dir(dir, &there->json, &saved->json, &err) != CS_OK)
        cs_lua_error(L, "%s: %s", function, err.text);
    const char *key = differing(L, asked, there->json);
    if (key)
        cs_lua_error(
            L,
            "%s: %s is %s here and %s in %s, where the weights are from: leave it away, or "
            "take fresh weights (no from)",
            function, strcmp(key, "family") == 0 ? "the kind of projector" : key,
            show(json_object_get(asked, key), here_text),
            show(json_object_get(there->json, key), there_text), dir);
}

/* settings and saved (may be NULL): borrowed. dir: of the weights, or of the form of fresh ones; "": none */
static int push_projector(lua_State *L, json_t *settings, const char *dir, bool has_weights,
                          json_t *saved)
{
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_PROJECTOR, NULL);
    value->json = json_pack("{s:s, s:s, s:O*}", "dir", dir, "init",
                            has_weights ? "weights" : "random", "saved", saved);
    if (!value->json || json_object_update(value->json, settings) != 0)
        return cs_lua_error(L, "cs.projector: a path is not valid UTF-8");
    return 1;
}

int cs_lua_make_projector(lua_State *L, const struct cs_lua_function *function, const char *family)
{
    cs_lua_args_check(L, function);
    const char *from = cs_lua_args_string(L, "from", NULL);
    const char *dir = from ? cs_lua_dir(L, function->name, from) : "";
    const bool is_mlp = strcmp(family, "mlp") == 0;
    /* boxes: errors cannot leak what is in them */
    struct cs_lua_value *asked = cs_lua_value_new(L, CS_LUA_BOX, NULL),
                        *there = cs_lua_value_new(L, CS_LUA_BOX, NULL),
                        *saved = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    asked->json = json_pack("{s:s, s:i, s:s, s:b}", "family", family, "layers",
                            is_mlp ? (int)cs_lua_args_int(L, "layers", 2) : 1, "activation",
                            is_mlp ? cs_lua_args_string(L, "activation", "gelu") : "gelu", "bias",
                            (int)cs_lua_args_bool(L, "bias", true));
    if (!from)
        return push_projector(L, asked->json, "", false, NULL);
    settle(L, function->name, dir, asked->json, there, saved);
    for (int i = 0; i < function->n_args; i++) /* the directory says them */
        cs_lua_args_default(L, function, function->args[i].key, NULL);
    return push_projector(L, there->json, dir, true, saved->json);
}

/* clang-format off */
const struct cs_arg cs_lua_projector_hf_args[CS_LUA_N_PROJECTOR_HF_ARGS] = {
    {"dir", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "a directory with a projector: a composite, a tower that brings its own, or an exported one"},
    {"init", CS_ARG_STRING, false, "weights|random", 0, 0, 0, "\"weights\"", "read the weights; or fresh ones, which fit other encoders and language models too"},
};

/* clang-format on */

int cs_lua_projector_hf(lua_State *L)
{
    static const struct cs_lua_function function = {
        "cs.projector.hf",          "",   "",  cs_lua_projector_hf_args,
        CS_LUA_N_PROJECTOR_HF_ARGS, NULL, NULL};
    struct cs_err err;
    cs_lua_take_positional(L, "dir");
    cs_lua_args_check(L, &function);
    const char *dir = cs_lua_dir(L, function.name, cs_lua_args_string(L, "dir", ""));
    const bool has_weights = strcmp(cs_lua_args_string(L, "init", "weights"), "weights") == 0;
    struct cs_lua_value *there = cs_lua_value_new(L, CS_LUA_BOX, NULL),
                        *saved = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    if (read_dir(dir, &there->json, &saved->json, &err) != CS_OK)
        return cs_lua_error(L, "%s: %s", function.name, err.text);
    return push_projector(L, there->json, dir, has_weights, has_weights ? saved->json : NULL);
}
