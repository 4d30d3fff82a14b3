/* Calls that catch errors, and coroutines: as Lua's, but the end of a script passes through them, and
 * none of its code runs on the way. A handler of xpcall is called inside the error: one that is
 * raised in the hook would leave it without limits. So would the handlers of __close of a coroutine
 * that ended in its hook; it is left as it is. */
#include "lua/base/guard.h"
#include "lua/base/state.h"
#include "lua/base/wrap.h"

enum { RESUME_COST = 100 }; /* instructions: what a coroutine may do before its own hook counts */

/* extra: values below the results on the stack */
static int finish_call(lua_State *L, int status, lua_KContext extra)
{
    cs_lua_end(L);
    if (status == LUA_OK || status == LUA_YIELD)
        return lua_gettop(L) - (int)extra;
    lua_pushboolean(L, 0);
    lua_pushvalue(L, -2);
    return 2;
}

static int guarded_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    cs_lua_check(L);
    lua_pushboolean(L, 1); /* the first result */
    lua_insert(L, 1);
    int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_call);
    return finish_call(L, status, 0);
}

/* upvalue: the script's handler */
static int handle_error(lua_State *L)
{
    if (cs_lua_state_of(L)->is_over)
        return 1;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int guarded_xpcall(lua_State *L)
{
    int n = lua_gettop(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    cs_lua_check(L);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, handle_error, 1);
    lua_replace(L, 2);
    lua_pushboolean(L, 1); /* the first result */
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); /* both below the arguments */
    int status = lua_pcallk(L, n - 2, LUA_MULTRET, 2, 2, finish_call);
    return finish_call(L, status, 2);
}

/* resume, close */
static int guarded_resume(lua_State *L)
{
    cs_lua_charge(L, RESUME_COST);
    int n = cs_lua_call_wrapped(L);
    cs_lua_end(L);
    return n;
}

/* What coroutine.wrap returns. Upvalues: the coroutine, resume and close as above. */
static int call_wrap(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 2);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    if (lua_toboolean(L, 1))
        return lua_gettop(L) - 1;
    lua_State *co = lua_tothread(L, lua_upvalueindex(1));
    if (lua_status(co) != LUA_OK && lua_status(co) != LUA_YIELD) { /* the error is its own */
        lua_pushvalue(L, lua_upvalueindex(3));
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_call(L, 1, 2);
    }
    if (lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int guarded_wrap(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_pushcclosure(L, call_wrap, 3);
    return 1;
}

void cs_lua_guard_calls(lua_State *L)
{
    lua_register(L, "pcall", guarded_pcall);
    lua_register(L, "xpcall", guarded_xpcall);
    cs_lua_wrap(L, "coroutine", "resume", guarded_resume, 0);
    cs_lua_wrap(L, "coroutine", "close", guarded_resume, 0);
    lua_getglobal(L, "coroutine");
    lua_getfield(L, -1, "resume");
    lua_getfield(L, -2, "close");
    lua_pushcclosure(L, guarded_wrap, 2);
    lua_setfield(L, -2, "wrap");
    lua_pop(L, 1);
}
