/* A Lua 5.4 state for scripts: text chunks only, a small set of libraries (guard.c), limits on
 * memory, instructions and time. Runs in the console process only. */
#ifndef CS_LUA_STATE_H
#define CS_LUA_STATE_H

#include <jansson.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/status.h"
#include "core/plan/cluster.h"
#include "core/program/options.h"

/* Asks a daemon. Takes the request, the reply is the caller's. */
typedef enum cs_status cs_lua_ask(void *user, json_t *request, json_t **reply, struct cs_err *err);

struct cs_lua_limits {
    size_t memory_bytes;  /* 0: 64 MiB; Lua's own and what values of cs.* hold */
    int64_t instructions; /* 0: 50 million */
    int64_t time_ns;      /* wall clock; 0: 30 s. What cs.search takes comes on top */
    struct cs_here here;  /* what cs.cluster "here" is; zero: CPU ranks */
    int pick; /* of a script that returns a search, or a job whose plan is one: its plan of this number; 0: the
                 search, or the fastest that jobs run */
    bool skips_profiles; /* files named as profile are not read: they are about to be measured */
    const struct cs_texts *set; /* NAME=VALUE for cs.param; NULL: none. Must outlive the state */
    cs_lua_ask *ask;            /* of cs.jobs; NULL: there is nobody to ask */
    void *ask_user;
    const atomic_bool *stop; /* the script is over soon after it has become true; NULL: never */
};

struct cs_lua_value;

#define CS_LUA_FOUND "cornstarch.found"

/* One per state, reached through the extra space of every coroutine. */
struct cs_lua_state {
    lua_State *L;
    struct cs_here here;
    bool skips_profiles;
    int pick;      /* of a search that is a job's plan; 0: the fastest that jobs run */
    json_t *found; /* that search, NULL: none; owned. As a value: CS_LUA_FOUND in the registry */
    int picked;    /* its plan that was taken, from 1 */
    const struct cs_texts *set;
    cs_lua_ask *ask;
    void *ask_user;
    const atomic_bool *stop;
    uint32_t set_used;              /* a bit each: the script has asked for it */
    size_t used_bytes, limit_bytes; /* used: with value_bytes */
    size_t value_bytes;             /* outside Lua's memory: what values hold that were counted */
    size_t swept_bytes;             /* value_bytes after garbage was last collected for them */
    uint64_t n_values;              /* that were ever made */
    struct cs_lua_value *fresh;     /* made since they were counted last */
    int64_t left, budget;           /* instructions; every run starts with the budget */
    int64_t deadline_ns, time_ns;
    bool is_over;         /* a limit was passed: nothing of the script goes on */
    char why[512];        /* with file:line */
    struct cs_buf folder; /* of the script: where require looks */
    json_t *defaults;     /* {function: {key: value}}: what the script left to them */
    void (*print)(void *user, const char *text);
    void *print_user;
    struct cs_err raised; /* by cs_lua_raise last: its status is that of a run which ends with it */
};

enum cs_status cs_lua_state_open(struct cs_lua_state *state, const struct cs_lua_limits *limits,
                                 struct cs_err *err) CS_NODISCARD;
void cs_lua_state_close(struct cs_lua_state *state);
struct cs_lua_state *cs_lua_state_of(lua_State *L);
/* the budget of a run once more, for a call from outside of a script */
void cs_lua_state_again(struct cs_lua_state *state);
/* Load and run a text chunk; leaves its results on the stack above `base`. The message of a failure
 * starts with file:line. */
enum cs_status cs_lua_state_run(struct cs_lua_state *state, const char *chunk, const char *text,
                                size_t len, struct cs_err *err) CS_NODISCARD;

/* Raises when the script is over: instructions, time. What may take long calls it first. */
void cs_lua_check(lua_State *L);
/* Takes instructions for work that the hook does not see. */
void cs_lua_charge(lua_State *L, int64_t instructions);
/* Raises when the script is over: after every call that catches errors. */
void cs_lua_end(lua_State *L);

/* Raise "file:line: text" with the place of the nearest Lua code on the stack, also when the
 * failing C function was called by another one (nested argument tables). Never returns. */
int cs_lua_error(lua_State *L, const char *fmt, ...);
/* The same of "function: err->text"; a run that it ends has the status of err, not CS_INVALID. */
int cs_lua_raise(lua_State *L, const char *function, const struct cs_err *err);

#endif
