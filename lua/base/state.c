/* Runs a Lua state with bounds on memory, instructions and time.
 *
 * A count hook looks at the budget and at the clock. A script that is over stays over: the error is
 * raised again by everything that could have caught it (guard.c), and the hook of a state that
 * unwinds fires at each instruction, so that handlers of __close end too. What the hook cannot see,
 * a call of C that takes long, is bounded before it starts, and asks whether it shall stop
 * (core/base/system/stop.h). */
#include "lua/base/state.h"

/* One thought with guard.c, guard_calls.c, guard_strings.c, guard_words.c, show.c, value.c: a state
 * opens with its own libraries, and those ask it whether the script may go on. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/base/system/io.h"
#include "core/base/system/stop.h"
#include "lua/base/guard.h"
#include "lua/base/hint.h"

enum { HOOK_EVERY = 100, MAX_SCRIPT = 4 << 20 };

#define USUAL_TIME_NS INT64_C(30000000000)

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

/* "file:line: " of the nearest Lua code on the stack; without memory of Lua's */
static void where(lua_State *L, char *out, size_t cap)
{
    lua_Debug ar;
    out[0] = '\0';
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline > 0) {
            const char *name = ar.source[0] == '@' ? ar.source + 1 : ar.short_src;
            snprintf(out, cap, "%s:%d: ", name, ar.currentline);
            return;
        }
    }
}

int cs_lua_error(lua_State *L, const char *fmt, ...)
{
    va_list args;
    char place[CS_PATH_CAP + 32];
    where(L, place, sizeof place);
    lua_pushstring(L, place);
    va_start(args, fmt);
    lua_pushvfstring(L, fmt, args);
    va_end(args);
    lua_concat(L, 2);
    return lua_error(L);
}

int cs_lua_raise(lua_State *L, const char *function, const struct cs_err *err)
{
    cs_lua_state_of(L)->raised = *err;
    return cs_lua_error(L, "%s: %s", function, err->text);
}

/* Of a run that ended with this message: a script may have caught what was raised, and failed on. */
static enum cs_status status_of(const struct cs_lua_state *state, const char *message)
{
    const bool is_raised = state->raised.status != CS_OK && message != NULL &&
                           strstr(message, state->raised.text) != NULL;
    return is_raised ? state->raised.status : CS_INVALID;
}

static void on_count(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    cs_lua_charge(L, HOOK_EVERY);
}

/* The reason once more, from here on at every instruction of this thread. */
static void raise_why(lua_State *L)
{
    lua_sethook(L, on_count, LUA_MASKCOUNT, 1);
    lua_pushstring(L, cs_lua_state_of(L)->why);
    lua_error(L);
}

static void finish(lua_State *L, const char *reason)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    where(L, state->why, sizeof state->why);
    size_t n = strlen(state->why);
    snprintf(state->why + n, sizeof state->why - n, "%s", reason);
    state->is_over = true;
    raise_why(L);
}

void cs_lua_end(lua_State *L)
{
    if (cs_lua_state_of(L)->is_over)
        raise_why(L);
}

void cs_lua_check(lua_State *L)
{
    const struct cs_lua_state *state = cs_lua_state_of(L);
    cs_lua_end(L);
    if (state->stop && atomic_load(state->stop))
        finish(L, "stopped");
    if (state->left <= 0)
        finish(L, "the script used up its instructions; move work out of loops");
    if (cs_now_ns() > state->deadline_ns)
        finish(L, "the script used up its time; move work out of loops");
}

void cs_lua_charge(lua_State *L, int64_t instructions)
{
    cs_lua_state_of(L)->left -= instructions;
    cs_lua_check(L);
}

static int to_text(lua_State *L)
{
    /* also of numbers: reading the message must not allocate. In the hook nothing of the script may
     * run: no limit would see it. */
    if (cs_lua_state_of(L)->is_over)
        return 1;
    luaL_tolstring(L, 1, NULL);
    cs_lua_hint(L);
    return 1;
}

static void start(struct cs_lua_state *state)
{
    state->left = state->budget;
    state->is_over = false;
    state->deadline_ns = cs_now_ns() + state->time_ns;
}

enum cs_status cs_lua_state_open(struct cs_lua_state *state, const struct cs_lua_limits *limits,
                                 struct cs_err *err)
{
    *state = (struct cs_lua_state){0};
    state->limit_bytes = limits && limits->memory_bytes ? limits->memory_bytes : (size_t)64 << 20;
    state->here = limits ? limits->here : (struct cs_here){0};
    state->skips_profiles = limits && limits->skips_profiles;
    state->pick = limits ? limits->pick : 0;
    state->set = limits ? limits->set : NULL;
    state->ask = limits ? limits->ask : NULL;
    state->ask_user = limits ? limits->ask_user : NULL;
    state->stop = limits ? limits->stop : NULL;
    state->budget = limits && limits->instructions ? limits->instructions : 50000000;
    state->time_ns = limits && limits->time_ns ? limits->time_ns : USUAL_TIME_NS;
    start(state);
    state->L = lua_newstate(capped_alloc, state);
    if (!state->L)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a Lua state");
    memcpy(lua_getextraspace(state->L), &state, sizeof(struct cs_lua_state *));
    lua_pushcfunction(state->L, cs_lua_open_libraries);
    if (lua_pcall(state->L, 0, 0, 0) != LUA_OK) {
        cs_lua_state_close(state);
        return cs_fail(err, CS_NO_MEMORY, "no memory for the Lua libraries");
    }
    cs_buf_adds(&state->folder, ".");
    state->defaults = json_object();
    lua_sethook(state->L, on_count, LUA_MASKCOUNT, HOOK_EVERY);
    return CS_OK;
}

void cs_lua_state_close(struct cs_lua_state *state)
{
    if (state->L)
        lua_close(state->L);
    state->L = NULL;
    cs_buf_free(&state->folder);
    json_decref(state->defaults);
    json_decref(state->found);
    state->defaults = state->found = NULL;
}

void cs_lua_state_again(struct cs_lua_state *state)
{
    start(state);
    state->raised.status = CS_OK;
    lua_sethook(state->L, on_count, LUA_MASKCOUNT, HOOK_EVERY);
}

enum cs_status cs_lua_state_run(struct cs_lua_state *state, const char *chunk, const char *text,
                                size_t len, struct cs_err *err)
{
    lua_State *L = state->L;
    lua_settop(L, 0);
    cs_lua_state_again(state);
    if (len > MAX_SCRIPT)
        return cs_fail(err, CS_LIMIT, "%s: a script may have %d bytes, this one has %zu", chunk,
                       MAX_SCRIPT, len);
    lua_pushcfunction(L, to_text);
    const atomic_bool *before = cs_stop_set(state->stop);
    int rc = luaL_loadbufferx(L, text, len, chunk, "t");
    if (rc == LUA_OK)
        rc = lua_pcall(L, 0, LUA_MULTRET, 1);
    cs_stop_set(before);
    if (rc != LUA_OK) {
        const char *message = lua_tostring(L, -1);
        const enum cs_status status = rc == LUA_ERRMEM ? CS_NO_MEMORY : status_of(state, message);
        (void)!cs_fail(err, status, "%s", message ? message : "error without a message");
        lua_settop(L, 0);
        return status;
    }
    lua_remove(L, 1);
    return CS_OK;
}
