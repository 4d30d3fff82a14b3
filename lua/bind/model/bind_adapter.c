/* model:lora: adapters beside frozen matrices of a module, fresh or from a directory of PEFT's. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lua/bind/bind.h"
#include "lua/bind/preview_document.h"
#include "store/hf/peft.h"

/* clang-format off */
static const struct cs_arg args[] = {
    {"module", CS_ARG_STRING, false, NULL, 0, 0, 0, "\"llm\"", "which module: llm, X.encoder"},
    {"rank", CS_ARG_INT, false, NULL, 1, 4096, 0, "8", "columns between the two factors"},
    {"alpha", CS_ARG_NUMBER, false, NULL, 0, 1e6, 0, "the rank", "what is added is scaled by alpha / rank"},
    {"rslora", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "scaled by alpha / sqrt(rank) instead"},
    {"targets", CS_ARG_STRING, false, NULL, 0, 0, 0, "\"all-linear\"", "which matrices of its blocks: the last parts of their names, \"q_proj|v_proj\", or globs"},
    {"from", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "directory of PEFT's with trained values, which also says what stands above but the module; what it holds whole (modules_to_save) trains on"},
};
static const struct cs_lua_function function = {"model:lora", "", "", args, CS_ARRAY_LEN(args), NULL, NULL};

/* clang-format on */

static void add_fresh(lua_State *L, const char *module, json_t *adapters)
{
    const lua_Integer rank = cs_lua_args_int(L, "rank", 8);
    json_array_append_new(
        adapters, json_pack("{s:s, s:s, s:I, s:f, s:b}", "module", module, "targets",
                            cs_lua_args_string(L, "targets", "all-linear"), "rank",
                            (json_int_t)rank, "alpha", cs_lua_args_number(L, "alpha", (double)rank),
                            "rslora", (int)cs_lua_args_bool(L, "rslora", false)));
}

/* Adapters of a directory, and rules for what was trained whole beside them. */
static enum cs_status add_saved(const char *dir, const char *module, json_t *adapters,
                                json_t *rules, struct cs_err *err)
{
    struct cs_peft *peft = NULL;
    json_t *rows = NULL;
    CS_TRY(cs_peft_open(dir, &peft, err));
    const enum cs_status status = cs_peft_rows(peft, module, &rows, err);
    if (status == CS_OK) {
        json_array_extend(adapters, rows);
        cs_peft_rules(peft, module, rules);
    }
    cs_peft_close(peft);
    json_decref(rows);
    return status;
}

/* What the directory says cannot be said by the script too. */
static void refuse_said_twice(lua_State *L)
{
    static const char *const said[] = {"rank", "alpha", "rslora", "targets"};
    for (size_t i = 0; i < CS_ARRAY_LEN(said); i++)
        if (cs_lua_args_has(L, said[i]))
            cs_lua_error(L, "model:lora: %s is said by the directory of from: leave it away",
                         said[i]);
}

int cs_lua_model_lora(lua_State *L)
{
    char dir[PATH_MAX];
    struct cs_err err;
    const struct cs_lua_value *model = cs_lua_value_test(L, 1);
    if (!model || model->kind != CS_LUA_MODEL || !lua_istable(L, 2))
        return cs_lua_error(L, "call it with a colon and a table: model:lora { rank = 8 }");
    cs_lua_args_check_method(L, &function);
    const char *module = cs_lua_args_string(L, "module", "llm"),
               *from = cs_lua_args_string(L, "from", NULL);
    struct cs_lua_value *out = cs_lua_value_new(L, CS_LUA_MODEL, NULL);
    out->json = json_deep_copy(model->json);
    if (!json_object_get(out->json, "adapters"))
        json_object_set_new(out->json, "adapters", json_array());
    json_t *adapters = json_object_get(out->json, "adapters"),
           *rules = json_object_get(out->json, "rules");
    json_array_append_new(rules, json_pack("{s:s, s:s}", "op", "freeze", "glob", module));
    if (from && !realpath(from, dir))
        return cs_lua_error(L, "model:lora: directory '%s' not found", from);
    if (from)
        refuse_said_twice(L);
    if (from && add_saved(dir, module, adapters, rules, &err) != CS_OK)
        return cs_lua_error(L, "model:lora: %s", err.text);
    if (!from)
        add_fresh(L, module, adapters);
    struct cs_lua_value *check = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    check->json = cs_lua_preview_document(out->json, NULL);
    cs_lua_build_graph(L, "model:lora", check, true);
    lua_pop(L, 1);
    return 1;
}
