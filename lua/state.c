/* Runs a Lua state with bounds on memory and instructions.
 *
 * The holes of a Lua sandbox and how they are closed: an over-budget script cannot catch the error (the hook re-arms on every instruction), finalizers are refused, library calls
 * that are one instruction for the hook (patterns, rep, table functions) are bounded before they
 * start, dangerous libraries are not opened. Random numbers start from a fixed seed: scripts are
 * pure. */
#include "lua/state.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/io.h"

enum { HOOK_EVERY = 1000, MAX_STRING = 1 << 24, MAX_SCRIPT = 4 << 20, MAX_MOVE = 1 << 24 };

static void *capped_alloc(void *ud, void *block, size_t old_bytes, size_t new_bytes)
{
    struct cs_lua_state *state = ud;
    size_t old = block ? old_bytes : 0; /* without a block, old_bytes is a type tag */
    if (new_bytes == 0) {
        free(block);
        state->used_bytes -= old;
        return NULL;
    }
    if (new_bytes > old && state->used_bytes - old + new_bytes > state->limit_bytes)
        return NULL;
    void *p = realloc(block, new_bytes);
    if (p)
        state->used_bytes = state->used_bytes - old + new_bytes;
    return p;
}

struct cs_lua_state *cs_lua_state_of(lua_State *L)
{
    struct cs_lua_state *state;
    memcpy(&state, lua_getextraspace(L), sizeof(state));
    return state;
}

static void push_where(lua_State *L)
{
    lua_Debug ar;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline > 0) {
            const char *name = ar.source[0] == '@' ? ar.source + 1 : ar.short_src;
            lua_pushfstring(L, "%s:%d: ", name, ar.currentline);
            return;
        }
    }
    lua_pushliteral(L, "");
}

int cs_lua_error(lua_State *L, const char *fmt, ...)
{
    va_list args;
    push_where(L);
    va_start(args, fmt);
    lua_pushvfstring(L, fmt, args);
    va_end(args);
    lua_concat(L, 2);
    return lua_error(L);
}

static void on_count(lua_State *L, lua_Debug *ar)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    (void)ar;
    state->left -= HOOK_EVERY;
    if (state->left > 0)
        return;
    lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
    cs_lua_error(L, "the script used up its instructions; move work out of loops");
}

static int no_gc_setmetatable(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        lua_rawget(L, 2);
        if (!lua_isnil(L, -1))
            return cs_lua_error(L, "setmetatable: __gc is not available in scripts");
        lua_pop(L, 1);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

/* Quantifiers, and %b, that can make the matcher try again: each multiplies the cost by the
 * length. */
static int pattern_power(const char *pattern, size_t n)
{
    int power = 0;
    for (size_t i = 0; i < n; i++) {
        if (pattern[i] == '%' && i + 1 < n)
            power += pattern[++i] == 'b';
        else
            power += pattern[i] != '\0' && strchr("*+-?", pattern[i]) != NULL;
    }
    return power > 0 && pattern[0] != '^' ? power + 1 : power; /* a start at every character */
}

/* One call of find/match/gmatch/gsub is one instruction for the hook, so its cost is bounded first:
 * about length ^ power steps. Upvalues: the library's function, whether argument 4 is "plain". */
static int bounded_pattern(lua_State *L)
{
    size_t len, pattern_len;
    luaL_checklstring(L, 1, &len);
    const char *pattern = luaL_checklstring(L, 2, &pattern_len);
    bool is_plain = lua_toboolean(L, lua_upvalueindex(2)) && lua_toboolean(L, 4);
    int power = is_plain ? 0 : pattern_power(pattern, pattern_len);
    double steps = power ? pow((double)len + 1, power) : (double)len * (double)pattern_len / 16;
    if (steps > 1e9)
        return cs_lua_error(L, "the pattern '%s' is too costly on %d characters", pattern,
                            (int)len);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* insert, remove, move ...: loops in C whose length a __len or the arguments decide */
static int bounded_table(lua_State *L)
{
    int n = lua_gettop(L);
    for (int i = 1; i <= n; i++)
        if (lua_istable(L, i) && luaL_getmetafield(L, i, "__len") != LUA_TNIL)
            return cs_lua_error(L, "table functions take no tables with __len");
    if (lua_toboolean(L, lua_upvalueindex(2)) && n >= 4) {
        double first = (double)luaL_checkinteger(L, 2), last = (double)luaL_checkinteger(L, 3);
        if (last - first > MAX_MOVE)
            return cs_lua_error(L, "table.move: more than %d items", MAX_MOVE);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, n, LUA_MULTRET);
    return lua_gettop(L);
}

static int bounded_rep(lua_State *L)
{
    size_t len;
    luaL_checklstring(L, 1, &len);
    lua_Integer n = luaL_checkinteger(L, 2);
    if (n > 0 && len > 0 && (size_t)n > MAX_STRING / len)
        return cs_lua_error(L, "string.rep: the result would be larger than %d bytes", MAX_STRING);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

static int script_print(lua_State *L)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    int n = lua_gettop(L);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (int i = 1; i <= n; i++) {
        if (i > 1)
            luaL_addchar(&b, '\t');
        luaL_tolstring(L, i, NULL);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    if (state->print)
        state->print(state->print_user, lua_tostring(L, -1));
    return 0;
}

/* require "name": what is loaded already, else NAME.lua beside the script, text only. */
static int script_require(lua_State *L)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    const char *name = luaL_checkstring(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, name) != LUA_TNIL)
        return 1;
    for (const char *p = name; *p; p++)
        if (!(*p == '_' || *p == '-' || (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
              (*p >= 'A' && *p <= 'Z')))
            return cs_lua_error(L, "require: '%s' is not a module name", name);
    const char *path = lua_pushfstring(L, "%s/%s.lua", cs_buf_str(&state->folder), name);
    struct cs_buf text = {0};
    struct cs_err err;
    enum cs_status status = cs_read_file(path, MAX_SCRIPT, &text, &err);
    int rc = status == CS_OK ? luaL_loadbufferx(L, cs_buf_str(&text), text.len,
                                                lua_pushfstring(L, "@%s", path), "t")
                             : LUA_OK;
    cs_buf_free(&text);
    if (status == CS_NOT_FOUND)
        return cs_lua_error(L, "require: module '%s' not found (looked for %s)", name, path);
    if (status != CS_OK)
        return cs_lua_error(L, "require: module '%s': %s", name, err.text);
    if (rc != LUA_OK)
        return lua_error(L); /* its own file and line */
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushboolean(L, 1);
    }
    lua_pushvalue(L, -1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_insert(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1); /* the table of modules; the module is below */
    return 1;
}

/* the wrapper's upvalues: the original and a switch of its own */
static void wrap_field(lua_State *L, const char *table, const char *field, lua_CFunction wrapper,
                       bool option)
{
    lua_getglobal(L, table);
    lua_getfield(L, -1, field);
    lua_pushboolean(L, option);
    lua_pushcclosure(L, wrapper, 2);
    lua_setfield(L, -2, field);
    lua_pop(L, 1);
}

static int open_libraries(lua_State *L)
{
    static const luaL_Reg libs[] = {
        {LUA_GNAME,       luaopen_base     },
        {LUA_TABLIBNAME,  luaopen_table    },
        {LUA_STRLIBNAME,  luaopen_string   },
        {LUA_MATHLIBNAME, luaopen_math     },
        {LUA_UTF8LIBNAME, luaopen_utf8     },
        {LUA_COLIBNAME,   luaopen_coroutine},
    };
    static const char *const removed[] = {"dofile", "loadfile", "load", "collectgarbage"};
    static const char *const patterns[] = {"find", "match", "gmatch", "gsub"};
    static const char *const tables[] = {"insert", "remove", "move", "concat", "sort", "unpack"};
    for (size_t i = 0; i < CS_ARRAY_LEN(libs); i++) {
        luaL_requiref(L, libs[i].name, libs[i].func, 1);
        lua_pop(L, 1);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(removed); i++) {
        lua_pushnil(L);
        lua_setglobal(L, removed[i]);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(patterns); i++)
        wrap_field(L, "string", patterns[i], bounded_pattern, strcmp(patterns[i], "find") == 0);
    for (size_t i = 0; i < CS_ARRAY_LEN(tables); i++)
        wrap_field(L, "table", tables[i], bounded_table, strcmp(tables[i], "move") == 0);
    wrap_field(L, "string", "rep", bounded_rep, false);
    lua_getglobal(L, "math");
    lua_getfield(L, -1, "randomseed");
    lua_pushinteger(L, 0);
    lua_call(L, 1, 0);
    lua_pop(L, 1);
    lua_getglobal(L, "string");
    lua_pushnil(L);
    lua_setfield(L, -2, "dump");
    lua_pop(L, 1);
    lua_getglobal(L, "setmetatable");
    lua_pushcclosure(L, no_gc_setmetatable, 1);
    lua_setglobal(L, "setmetatable");
    lua_register(L, "print", script_print);
    lua_register(L, "require", script_require);
    return 0;
}

static int to_text(lua_State *L)
{
    luaL_tolstring(L, 1, NULL); /* also of numbers: reading the message must not allocate */
    return 1;
}

enum cs_status cs_lua_state_open(struct cs_lua_state *state, const struct cs_lua_limits *limits,
                                 struct cs_err *err)
{
    *state = (struct cs_lua_state){0};
    state->limit_bytes = limits && limits->memory_bytes ? limits->memory_bytes : (size_t)64 << 20;
    state->here = limits ? limits->here : (struct cs_here){0};
    state->skips_profiles = limits && limits->skips_profiles;
    state->budget = limits && limits->instructions ? limits->instructions : 50000000;
    state->left = state->budget;
    state->L = lua_newstate(capped_alloc, state);
    if (!state->L)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a Lua state");
    memcpy(lua_getextraspace(state->L), &state, sizeof(struct cs_lua_state *));
    lua_pushcfunction(state->L, open_libraries);
    if (lua_pcall(state->L, 0, 0, 0) != LUA_OK) {
        cs_lua_state_close(state);
        return cs_fail(err, CS_NO_MEMORY, "no memory for the Lua libraries");
    }
    cs_buf_adds(&state->folder, ".");
    lua_sethook(state->L, on_count, LUA_MASKCOUNT, HOOK_EVERY);
    return CS_OK;
}

void cs_lua_state_close(struct cs_lua_state *state)
{
    if (state->L)
        lua_close(state->L);
    state->L = NULL;
    cs_buf_free(&state->folder);
}

enum cs_status cs_lua_state_run(struct cs_lua_state *state, const char *chunk, const char *text,
                                size_t len, struct cs_err *err)
{
    lua_State *L = state->L;
    lua_settop(L, 0);
    state->left = state->budget;
    lua_sethook(L, on_count, LUA_MASKCOUNT, HOOK_EVERY);
    if (len > MAX_SCRIPT)
        return cs_fail(err, CS_LIMIT, "%s: a script may have %d bytes, this one has %zu", chunk,
                       MAX_SCRIPT, len);
    lua_pushcfunction(L, to_text);
    int rc = luaL_loadbufferx(L, text, len, chunk, "t");
    if (rc == LUA_OK)
        rc = lua_pcall(L, 0, LUA_MULTRET, 1);
    if (rc != LUA_OK) {
        const char *message = lua_tostring(L, -1);
        cs_fail(err, rc == LUA_ERRMEM ? CS_NO_MEMORY : CS_INVALID, "%s",
                message ? message : "error without a message");
        lua_settop(L, 0);
        return rc == LUA_ERRMEM ? CS_NO_MEMORY : CS_INVALID;
    }
    lua_remove(L, 1);
    return CS_OK;
}
