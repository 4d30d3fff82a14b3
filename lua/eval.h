/* Evaluate scripts: what the console calls. A script is pure and returns a job or a plan; a chunk
 * of `lua -e` may return anything. Runs in the console process only. */
#ifndef CS_LUA_EVAL_H
#define CS_LUA_EVAL_H

#include <jansson.h>

#include "core/base/buf.h"
#include "core/base/status.h"
#include "lua/base/state.h"

struct cs_lua; /* a state with the cornstarch module installed */

enum cs_script_kind {
    CS_SCRIPT_NOTHING,
    CS_SCRIPT_JOB,
    CS_SCRIPT_PLAN,
    CS_SCRIPT_SWEEP,
    CS_SCRIPT_JOBS, /* a sweep of jobs */
    CS_SCRIPT_OTHER
};

struct cs_script_result {
    enum cs_script_kind kind;
    json_t *document; /* job: the spec; plan: a preview (cs_spec_read_preview); sweep:
                       * cornstarch.plans/1; jobs: { jobs = [{ parameters, spec, ranks }] };
                       * else NULL; owned */
    int32_t ranks;    /* job: of its plan */
    json_t
        *found; /* job: the search that its plan is of, as a sweep's document; NULL: none; owned */
    int picked; /* its plan there, from 1 */
    json_t
        *defaults; /* {function: {key: value as Lua text}}: what the script left to them; owned */
};

enum cs_status cs_lua_open(const struct cs_lua_limits *limits,
                           void (*print)(void *user, const char *text), void *user,
                           struct cs_lua **out, struct cs_err *err) CS_NODISCARD;
void cs_lua_close(struct cs_lua *lua); /* accepts NULL */

/* File errors name the path; script errors read "file:line: function: what". */
enum cs_status cs_lua_run_file(struct cs_lua *lua, const char *path, struct cs_script_result *out,
                               struct cs_err *err) CS_NODISCARD;
/* chunk: shown in errors, e.g. "-e"; a bare expression is accepted. More may follow: whether all of --set was asked
 * for is known at the end (cs_lua_check_set). */
enum cs_status cs_lua_run_text(struct cs_lua *lua, const char *chunk, const char *text,
                               struct cs_script_result *out, struct cs_err *err) CS_NODISCARD;
/* Every --set must have been asked for by now. CS_USAGE names one that was not, and the nearest parameter. */
enum cs_status cs_lua_check_set(struct cs_lua *lua, struct cs_err *err) CS_NODISCARD;
/* What the last run returned, as lua/base/show.h shows it: a line or more a value; appended to a list */
enum cs_status cs_lua_results_text(struct cs_lua *lua, struct cs_buf *out,
                                   struct cs_err *err) CS_NODISCARD;
enum cs_status cs_lua_results_json(struct cs_lua *lua, json_t *list,
                                   struct cs_err *err) CS_NODISCARD;
/* Plan number n, from 1, of the search that the last run returned or made its job's plan of, as found:plan(n) has
 * it; 0: the fastest that jobs run. May be asked again. CS_INVALID: there is none, or jobs do not run it. */
enum cs_status cs_lua_pick_plan(struct cs_lua *lua, int n, struct cs_script_result *out,
                                struct cs_err *err) CS_NODISCARD;
void cs_script_result_free(struct cs_script_result *result);

/* lua/meta/cornstarch.lua: LuaLS types generated from the argument tables */
void cs_lua_meta(struct cs_buf *out);
/* the DSL part of cornstarch-lua.7 (mdoc), from the same tables */
void cs_lua_manual(struct cs_buf *out);

#endif
