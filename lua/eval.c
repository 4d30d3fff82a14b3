/* Evaluates scripts and chunks, and takes what they return. */
#include "lua/eval.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/system/io.h"
#include "lua/base/show.h"
#include "lua/module.h"

struct cs_lua {
    struct cs_lua_state state;
};

enum { MAX_SCRIPT_BYTES = 4 << 20 };

static int install(lua_State *L)
{
    cs_lua_install(L);
    return 0;
}

enum cs_status cs_lua_open(const struct cs_lua_limits *limits,
                           void (*print)(void *user, const char *text), void *user,
                           struct cs_lua **out, struct cs_err *err)
{
    struct cs_lua *lua = calloc(1, sizeof *lua);
    if (!lua)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a Lua state");
    enum cs_status status = cs_lua_state_open(&lua->state, limits, err);
    if (status != CS_OK) {
        free(lua);
        return status;
    }
    lua->state.print = print;
    lua->state.print_user = user;
    lua_pushcfunction(lua->state.L, install);
    if (lua_pcall(lua->state.L, 0, 0, 0) != LUA_OK) {
        cs_fail(err, CS_INTERNAL, "installing the module: %s", lua_tostring(lua->state.L, -1));
        cs_lua_close(lua);
        return CS_INTERNAL;
    }
    *out = lua;
    return CS_OK;
}

void cs_lua_close(struct cs_lua *lua)
{
    if (!lua)
        return;
    cs_lua_state_close(&lua->state);
    free(lua);
}

lua_State *cs_lua_raw(struct cs_lua *lua)
{
    return lua->state.L;
}

enum cs_status cs_lua_check_set(struct cs_lua *lua, struct cs_err *err)
{
    return cs_lua_param_check(lua->state.L, err);
}

static int find_value(lua_State *L) /* protected: looking allocates */
{
    lua_pushlightuserdata(L, cs_lua_value_test(L, 1));
    return 1;
}

static void take_result(struct cs_lua *lua, struct cs_script_result *out)
{
    lua_State *L = lua->state.L;
    *out = (struct cs_script_result){.kind = CS_SCRIPT_NOTHING,
                                     .defaults = json_incref(lua->state.defaults)};
    if (lua_gettop(L) == 0 || lua_isnil(L, 1) || !lua_checkstack(L, 8))
        return;
    const struct cs_lua_value *value = NULL;
    lua_pushcfunction(L, find_value);
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK)
        value = lua_touserdata(L, -1);
    lua_pop(L, 1);
    out->kind = CS_SCRIPT_OTHER;
    if (value && value->kind == CS_LUA_JOB) {
        out->kind = CS_SCRIPT_JOB;
        out->ranks = value->ranks;
        out->found = json_incref(lua->state.found);
        out->picked = lua->state.picked;
        out->document = json_deep_copy(value->json);
    } else if (value && value->kind == CS_LUA_SWEEP) {
        out->kind = json_object_get(value->json, "jobs") ? CS_SCRIPT_JOBS : CS_SCRIPT_SWEEP;
        out->document = json_deep_copy(value->json);
    } else if (value && value->kind == CS_LUA_PLAN) {
        out->kind = CS_SCRIPT_PLAN;
        out->document = json_deep_copy(json_object_get(value->json, "document"));
    }
}

enum cs_status cs_lua_run_file(struct cs_lua *lua, const char *path, struct cs_script_result *out,
                               struct cs_err *err)
{
    struct cs_buf text = {0};
    struct cs_buf chunk = {0};
    enum cs_status status = cs_read_file(path, MAX_SCRIPT_BYTES, &text, err);
    if (status != CS_OK)
        goto out;
    const char *slash = strrchr(path, '/');
    cs_buf_reset(&lua->state.folder);
    if (slash)
        cs_buf_add(&lua->state.folder, path, (size_t)(slash - path));
    else
        cs_buf_adds(&lua->state.folder, ".");
    cs_buf_addf(&chunk, "@%s", path);
    status = cs_lua_state_run(&lua->state, cs_buf_str(&chunk), cs_buf_str(&text), text.len, err);
    if (status == CS_OK)
        status = cs_lua_check_set(lua, err);
    if (status == CS_OK)
        take_result(lua, out);
out:
    cs_buf_free(&text);
    cs_buf_free(&chunk);
    return status;
}

/* Arguments: the results; the last: where to put them, a struct cs_buf or a json_t. */
static int show_text(lua_State *L)
{
    struct cs_buf *to = lua_touserdata(L, -1);
    lua_pop(L, 1);
    for (int i = 1, n = lua_gettop(L); i <= n; i++) {
        size_t len;
        cs_lua_push_shown(L, i);
        const char *text = lua_tolstring(L, -1, &len);
        cs_buf_add(to, text, len);
        cs_buf_addc(to, '\n');
        lua_pop(L, 1);
    }
    return 0;
}

static int show_json(lua_State *L)
{
    json_t *to = lua_touserdata(L, -1);
    lua_pop(L, 1);
    for (int i = 1, n = lua_gettop(L); i <= n; i++)
        json_array_append_new(to, cs_lua_shown_json(L, i));
    return 0;
}

static enum cs_status show_results(struct cs_lua *lua, lua_CFunction show, void *to,
                                   struct cs_err *err)
{
    lua_State *L = lua->state.L;
    int n = lua_gettop(L);
    if (!lua_checkstack(L, n + 8))
        return cs_fail(err, CS_LIMIT, "%d results are too many to be shown", n);
    lua_pushcfunction(L, show);
    for (int i = 1; i <= n; i++)
        lua_pushvalue(L, i);
    lua_pushlightuserdata(L, to);
    if (lua_pcall(L, n + 1, 0, 0) == LUA_OK)
        return CS_OK;
    const char *why = lua_tostring(L, -1);
    return cs_fail(err, CS_INVALID, "showing the results: %s", why ? why : "an error");
}

enum cs_status cs_lua_results_text(struct cs_lua *lua, struct cs_buf *out, struct cs_err *err)
{
    return show_results(lua, show_text, out, err);
}

enum cs_status cs_lua_results_json(struct cs_lua *lua, json_t *list, struct cs_err *err)
{
    return show_results(lua, show_json, list, err);
}

enum cs_status cs_lua_run_text(struct cs_lua *lua, const char *chunk, const char *text,
                               struct cs_script_result *out, struct cs_err *err)
{
    struct cs_buf name = {0}, expression = {0};
    cs_buf_addf(&name, "=%s", chunk);
    cs_buf_addf(&expression, "return %s", text);
    lua_State *L = lua->state.L;
    lua_settop(L, 0);
    bool is_expression = luaL_loadbufferx(L, cs_buf_str(&expression), expression.len,
                                          cs_buf_str(&name), "t") == LUA_OK;
    lua_settop(L, 0);
    const char *code = is_expression ? cs_buf_str(&expression) : text;
    enum cs_status status =
        cs_lua_state_run(&lua->state, cs_buf_str(&name), code, strlen(code), err);
    if (status == CS_OK)
        take_result(lua, out);
    cs_buf_free(&name);
    cs_buf_free(&expression);
    return status;
}

/* the search, unless the state knows one; the number */
static int pick_plan(lua_State *L)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, CS_LUA_FOUND) == LUA_TNIL) {
        lua_pushvalue(L, 1);
        lua_setfield(L, LUA_REGISTRYINDEX, CS_LUA_FOUND);
    } else {
        lua_replace(L, 1);
    }
    lua_settop(L, 2);
    lua_getfield(L, 1, "plan");
    lua_insert(L, 1);
    lua_call(L, 2, 1);
    return 1;
}

enum cs_status cs_lua_pick_plan(struct cs_lua *lua, int n, struct cs_script_result *out,
                                struct cs_err *err)
{
    lua_State *L = lua->state.L;
    if (!lua_checkstack(L, 8))
        return cs_fail(err, CS_NO_MEMORY, "no memory for a plan");
    cs_lua_state_again(&lua->state);
    lua_settop(L, 1);
    lua_pushcfunction(L, pick_plan);
    lua_insert(L, 1);
    lua_pushinteger(L, n);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
        const char *why = lua_tostring(L, -1);
        return cs_fail(err, CS_INVALID, "%s", why ? why : "an error without a message");
    }
    take_result(lua, out);
    out->picked = lua->state.picked;
    return CS_OK;
}

void cs_script_result_free(struct cs_script_result *result)
{
    json_decref(result->document);
    json_decref(result->defaults);
    json_decref(result->found);
    *result = (struct cs_script_result){0};
}
