/* What may follow what was typed. Looks at names and tables; runs nothing of the text. */
#include <stdio.h>
#include <string.h>

#include "lua/bind/bind.h"
#include "lua/help.h"
#include "lua/module.h"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_path(char c)
{
    return is_word(c) || c == '.' || c == ':' || c == '[' || c == ']';
}

/* the table that names are looked up in, for the value on top; replaces it, nil: there is none */
static void to_names(lua_State *L)
{
    if (lua_istable(L, -1) || !luaL_getmetafield(L, -1, "__index"))
        return;
    if (lua_iscfunction(L, -1) && lua_getupvalue(L, -1, 1))
        lua_remove(L, -2);
    lua_remove(L, -2);
}

/* Push what the path names, "cs.lab" or "job" or "jobs[1]", without a metamethod; nil: nothing. */
static void push_path(lua_State *L, const char *path, size_t n)
{
    lua_pushglobaltable(L);
    for (size_t at = 0; at < n;) {
        size_t end = at;
        while (end < n && is_word(path[end]))
            end++;
        to_names(L);
        if (!lua_istable(L, -1) || end == at) {
            lua_pop(L, 1);
            lua_pushnil(L);
            return;
        }
        lua_Integer number = 0;
        char digits[24];
        snprintf(digits, sizeof digits, "%.*s", (int)(end - at), path + at);
        if (path[at] >= '0' && path[at] <= '9' && sscanf(digits, "%lld", (long long *)&number) == 1)
            lua_pushinteger(L, number);
        else
            lua_pushlstring(L, path + at, end - at);
        lua_rawget(L, -2);
        lua_remove(L, -2);
        for (at = end; at < n && !is_word(path[at]); at++)
            ;
    }
}

static void offer(json_t *list, const char *word, size_t word_n, const char *name)
{
    if (strncmp(name, word, word_n) == 0)
        json_array_append_new(list, json_string(name));
}

/* Names of the table on top, which is popped; of a live job its figures, too. */
static void offer_names(lua_State *L, json_t *list, const char *word, size_t n)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, -1);
    const char *key;
    json_t *item;
    if (value && value->kind == CS_LUA_LIVE)
        json_object_foreach(value->json, key, item) offer(list, word, n, key);
    to_names(L);
    if (lua_istable(L, -1))
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
            if (lua_type(L, -2) == LUA_TSTRING)
                offer(list, word, n, lua_tostring(L, -2));
    lua_pop(L, 1);
}

/* Keys of the function whose argument table is open at the end of text. */
static void offer_keys(lua_State *L, json_t *list, const char *text, size_t at, const char *word,
                       size_t n)
{
    int depth = 0;
    while (at > 0 && depth >= 0) {
        const char c = text[--at];
        depth += c == '}' || c == ')' ? 1 : c == '{' || c == '(' ? -1 : 0;
    }
    if (depth >= 0 || text[at] != '{')
        return;
    while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '('))
        at--;
    size_t from = at;
    while (from > 0 && is_path(text[from - 1]))
        from--;
    push_path(L, text + from, at - from);
    if (lua_iscfunction(L, -1) && lua_getupvalue(L, -1, 1)) {
        const struct cs_lua_function *f = cs_lua_function_test(lua_touserdata(L, -1));
        for (int i = 0; f && i < f->n_args; i++)
            offer(list, word, n, f->args[i].key);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* Arguments: the text, the list; returns the length of the word. Protected: it allocates. */
static int complete(lua_State *L)
{
    const char *text = lua_touserdata(L, 1);
    json_t *list = lua_touserdata(L, 2);
    const size_t n = strlen(text);
    size_t word = n, path;
    while (word > 0 && is_word(text[word - 1]))
        word--;
    for (path = word; path > 0 && is_path(text[path - 1]);)
        path--;
    const bool has_owner = word > path && (text[word - 1] == '.' || text[word - 1] == ':');
    if (!has_owner)
        offer_keys(L, list, text, word, text + word, n - word);
    push_path(L, text + path, has_owner ? word - path - 1 : 0);
    if (has_owner || n > word)
        offer_names(L, list, text + word, n - word);
    lua_pushinteger(L, (lua_Integer)(n - word));
    return 1;
}

size_t cs_lua_complete(struct cs_lua *lua, const char *text, json_t *list)
{
    lua_State *L = cs_lua_raw(lua);
    size_t n = 0;
    lua_settop(L, 0);
    lua_pushcfunction(L, complete);
    lua_pushlightuserdata(L, (void *)(uintptr_t)text);
    lua_pushlightuserdata(L, list);
    if (lua_pcall(L, 2, 1, 0) == LUA_OK)
        n = (size_t)lua_tointeger(L, -1);
    lua_settop(L, 0);
    return n;
}

/* More of it may follow: it ends where something is missing. */
static bool ends_early(lua_State *L)
{
    static const char mark[] = "<eof>";
    size_t n = 0;
    const char *why = lua_tolstring(L, -1, &n);
    return n >= sizeof mark - 1 && strcmp(why + n - (sizeof mark - 1), mark) == 0;
}

/* Argument: the text. Protected, too. As a value ("1 + (") or as statements ("for i = 1, 2 do"). */
static int find_begun(lua_State *L)
{
    const char *text = lua_touserdata(L, 1);
    const char *as_value = lua_pushfstring(L, "return %s", text);
    bool is_begun = false;
    if (luaL_loadbufferx(L, as_value, strlen(as_value), "=", "t") != LUA_OK) {
        const bool is_value = ends_early(L);
        is_begun = luaL_loadbufferx(L, text, strlen(text), "=", "t") != LUA_OK &&
                   (is_value || ends_early(L));
    }
    lua_pushboolean(L, is_begun);
    return 1;
}

bool cs_lua_is_begun(struct cs_lua *lua, const char *text)
{
    lua_State *L = cs_lua_raw(lua);
    lua_settop(L, 0);
    lua_pushcfunction(L, find_begun);
    lua_pushlightuserdata(L, (void *)(uintptr_t)text);
    const bool is_begun = lua_pcall(L, 1, 1, 0) == LUA_OK && lua_toboolean(L, -1);
    lua_settop(L, 0);
    return is_begun;
}

/* help(cs.plan), help "cs.plan", help() */
static int call_help(lua_State *L)
{
    const struct cs_lua_state *state = cs_lua_state_of(L);
    struct cs_buf out = {0};
    const struct cs_lua_function *f = NULL;
    const struct cs_lua_value *value = cs_lua_value_test(L, 1);
    if (lua_iscfunction(L, 1) && lua_getupvalue(L, 1, 1))
        f = cs_lua_function_test(lua_touserdata(L, -1));
    if (f)
        cs_lua_help_function(f, &out);
    else if (lua_isfunction(L, 1))
        cs_buf_adds(&out,
                    "a function of Lua or of the script: the tables of cs.* do not name it\n");
    else
        cs_lua_help(value ? cs_lua_kind_name(value->kind) : luaL_optstring(L, 1, ""), &out);
    if (state->print)
        state->print(state->print_user, cs_buf_str(&out));
    cs_buf_free(&out);
    return 0;
}

static int prepare(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, "cornstarch");
    lua_setglobal(L, "cs");
    lua_pushcfunction(L, call_help);
    lua_setglobal(L, "help");
    return 0;
}

enum cs_status cs_lua_prepare_typing(struct cs_lua *lua, struct cs_err *err)
{
    lua_State *L = cs_lua_raw(lua);
    lua_pushcfunction(L, prepare);
    if (lua_pcall(L, 0, 0, 0) == LUA_OK)
        return CS_OK;
    lua_settop(L, 0);
    return cs_fail(err, CS_NO_MEMORY, "no memory for a Lua state");
}
