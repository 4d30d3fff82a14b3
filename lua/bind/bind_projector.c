/* cs.projector: what a projector is, from the script and from the directory its weights are in. The
 * directory holds; a script that says something else is refused. */
#include "lua/bind/bind_projector.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/arch/config.h"
#include "lua/bind/args.h"
#include "lua/bind/bind_encoder.h"
#include "store/hf/hfdir.h"

static bool is_given(lua_State *L, const char *key)
{
    bool is_there = false;
    if (lua_istable(L, 1)) {
        is_there = lua_getfield(L, 1, key) != LUA_TNIL;
        lua_pop(L, 1);
    }
    return is_there;
}

static enum cs_status differ(const char *key, const char *here, const char *there, const char *dir,
                             struct cs_err *err)
{
    return cs_fail(err, CS_INVALID,
                   "%s is %s here and %s in %s, where the weights are from: leave it away, or take "
                   "fresh weights (no from)",
                   key, here, there, dir);
}

static const char *bool_word(bool is_true)
{
    return is_true ? "true" : "false";
}

/* Strings of out are constants. */
static enum cs_status read_dir(const char *dir, struct cs_projector *out, json_t **saved,
                               struct cs_err *err)
{
    struct cs_hfdir *hf = NULL;
    CS_TRY(cs_hfdir_open_kind(dir, CS_MODULE_PROJECTOR, &hf, err));
    enum cs_status status = cs_hfdir_projector(hf, out, err);
    if (status == CS_OK) {
        out->family = strcmp(out->family, "linear") == 0 ? "linear" : "mlp";
        out->activation = cs_act_word(cs_act_named(out->activation));
        *saved = cs_lua_saved_settings(hf);
    }
    cs_hfdir_close(hf);
    return status;
}

/* asked: what the script says, its defaults included; becomes what the directory says. *saved: what
 * it says beside that, a new object. */
static enum cs_status settle(lua_State *L, const char *dir, struct cs_projector *asked,
                             json_t **saved, struct cs_err *err)
{
    struct cs_projector there;
    char here_text[16], there_text[16];
    CS_TRY(read_dir(dir, &there, saved, err));
    snprintf(here_text, sizeof here_text, "%d", asked->n_layers);
    snprintf(there_text, sizeof there_text, "%d", there.n_layers);
    if (strcmp(asked->family, there.family) != 0)
        return differ("the kind of projector", asked->family, there.family, dir, err);
    if (is_given(L, "layers") && asked->n_layers != there.n_layers)
        return differ("layers", here_text, there_text, dir, err);
    if (is_given(L, "activation") && there.n_layers > 1 &&
        cs_act_named(asked->activation) != cs_act_named(there.activation))
        return differ("activation", asked->activation, there.activation, dir, err);
    if (is_given(L, "bias") && asked->has_bias != there.has_bias)
        return differ("bias", bool_word(asked->has_bias), bool_word(there.has_bias), dir, err);
    *asked = there;
    return CS_OK;
}

int cs_lua_make_projector(lua_State *L, const struct cs_lua_function *function, const char *family)
{
    char dir[PATH_MAX] = "";
    struct cs_err err;
    cs_lua_args_check(L, function);
    const char *from = cs_lua_args_string(L, "from", NULL);
    if (from && !realpath(from, dir))
        return cs_lua_error(
            L, "%s: directory '%s' not found; is the path relative to where you started?",
            function->name, from);
    bool is_mlp = strcmp(family, "mlp") == 0;
    struct cs_projector p = {
        .family = family,
        .n_layers = is_mlp ? (int32_t)cs_lua_args_int(L, "layers", 2) : 1,
        .activation = is_mlp ? cs_lua_args_string(L, "activation", "gelu") : "gelu",
        .has_bias = cs_lua_args_bool(L, "bias", true),
    };
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL); /* errors cannot leak it */
    if (from && settle(L, dir, &p, &box->json, &err) != CS_OK)
        return cs_lua_error(L, "%s: %s", function->name, err.text);
    for (int i = 0; from && i < function->n_args; i++) /* the directory says them */
        cs_lua_args_default(L, function, function->args[i].key, NULL);
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_PROJECTOR, NULL);
    value->json = json_pack("{s:s s:i s:s s:b s:s s:s s:O?}", "family", p.family, "layers",
                            (int)p.n_layers, "activation", p.activation, "bias", (int)p.has_bias,
                            "dir", dir, "init", from ? "weights" : "random", "saved", box->json);
    if (!value->json)
        return cs_lua_error(L, "%s: a path is not valid UTF-8", function->name);
    return 1;
}
