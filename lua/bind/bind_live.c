/* cs.jobs, cs.submit: jobs of a daemon as live values. Only where somebody types (lua, the REPL): a script that
 * describes a job gives the same job everywhere, so it knows of no others. */
#include <stdio.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "lua/base/json.h"
#include "lua/bind/bind.h"

enum { ROWS = 10000, LINES = 50, MOST_JOBS = 1000 };

static int call_jobs(lua_State *L);
static int call_submit(lua_State *L);

/* clang-format off */
static const struct cs_arg jobs_args[] = {
    {"id", CS_ARG_INT, false, NULL, 1, 9e15, 0, NULL, "this job alone, not in a list; cs.jobs(41) is short for it"},
    {"state", CS_ARG_STRING, false, NULL, 0, 0, 0, "every state", "a state as jobs prints it: \"RUN\""},
    {"tag", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "that they have: \"sweep\", \"lr=0.1\""},
    {"owner", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "whose"},
    {"name", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "a part of their name"},
    {"limit", CS_ARG_INT, false, NULL, 1, MOST_JOBS, 0, "1000", "at most so many, the newest first"},
};
static const struct cs_arg submit_args[] = {
    {"job", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_JOB, NULL, "made by cs.job; cs.submit(job) is short for it"},
    {"tag", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "that it gets"},
    {"note", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "for people"},
};
static const struct cs_lua_function functions[] = {
    {"cs.jobs", "jobs of the daemon, the newest first; only in 'cornstarch-console lua'", "cs.live[]", jobs_args, CS_ARRAY_LEN(jobs_args), call_jobs, "id integer"},
    {"cs.submit", "hand a job to the daemon; only in 'cornstarch-console lua'", "cs.live", submit_args, CS_ARRAY_LEN(submit_args), call_submit, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_live(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

/* Sends the request, which is taken; the reply is in a box on the stack. */
static const json_t *ask(lua_State *L, const char *who, json_t *request)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    struct cs_err err = {.text = ""};
    json_t *reply = NULL;
    const int64_t from = cs_now_ns();
    if (state->ask == NULL) {
        json_decref(request);
        cs_lua_error(L, "%s: a script knows of no jobs; 'cornstarch-console lua' does", who);
    }
    const enum cs_status status = state->ask(state->ask_user, request, &reply, &err);
    state->deadline_ns += cs_now_ns() - from; /* waiting is not the script's time */
    if (status != CS_OK)
        cs_lua_raise(L, who, &err);
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->json = reply;
    return reply;
}

static void push_live(lua_State *L, const json_t *job)
{
    struct cs_lua_value *live = cs_lua_value_new(L, CS_LUA_LIVE, NULL);
    live->json = json_deep_copy(job);
}

static json_t *about(const char *type, int64_t id)
{
    json_t *request = cs_msg_new(type);
    cs_msg_set_int(request, "job", id);
    return request;
}

static void push_job(lua_State *L, const char *who, int64_t id)
{
    push_live(L, cs_msg_obj(ask(L, who, about("job.show", id)), "job"));
}

/* one plain argument becomes the table that the rows are about */
static void take_short_form(lua_State *L, const char *key)
{
    lua_settop(L, 1);
    if (lua_istable(L, 1))
        return;
    lua_newtable(L);
    lua_insert(L, 1);
    lua_setfield(L, 1, key);
}

static json_t *list_request(lua_State *L)
{
    static const char *const words[] = {"owner", "name"};
    json_t *request = cs_msg_new("jobs.list");
    cs_msg_set_int(request, "limit", cs_lua_args_int(L, "limit", MOST_JOBS));
    for (size_t i = 0; i < CS_ARRAY_LEN(words); i++)
        if (cs_lua_args_string(L, words[i], NULL))
            cs_msg_set_str(request, words[i], cs_lua_args_string(L, words[i], ""));
    if (cs_lua_args_string(L, "state", NULL))
        cs_msg_set(request, "states", json_pack("[s]", cs_lua_args_string(L, "state", "")));
    if (cs_lua_args_string(L, "tag", NULL))
        cs_msg_set(request, "tags", json_pack("[s]", cs_lua_args_string(L, "tag", "")));
    return request;
}

static int call_jobs(lua_State *L)
{
    take_short_form(L, "id");
    cs_lua_args_check(L, &functions[0]);
    const lua_Integer id = cs_lua_args_int(L, "id", 0);
    if (id > 0) {
        push_job(L, "cs.jobs", id);
        return 1;
    }
    const json_t *jobs = cs_msg_arr(ask(L, "cs.jobs", list_request(L)), "jobs");
    lua_createtable(L, (int)json_array_size(jobs), 0);
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        push_live(L, json_array_get(jobs, i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int call_submit(lua_State *L)
{
    take_short_form(L, "job");
    cs_lua_args_check(L, &functions[1]);
    const struct cs_lua_value *job = cs_lua_args_value(L, "job");
    json_t *request = cs_msg_new("job.submit");
    cs_msg_set_str(request, "plan_hash", cs_msg_str(job->json, "plan_hash", ""));
    cs_msg_set(request, "spec", json_deep_copy(job->json));
    if (job->ranks > 0)
        cs_msg_set_int(request, "ranks", job->ranks);
    if (cs_lua_args_string(L, "tag", NULL))
        cs_msg_set(request, "tags", json_pack("[s]", cs_lua_args_string(L, "tag", "")));
    if (cs_lua_args_string(L, "note", NULL))
        cs_msg_set_str(request, "note", cs_lua_args_string(L, "note", ""));
    push_job(L, "cs.submit", cs_msg_int(ask(L, "cs.submit", request), "job", 0));
    return 1;
}

/* --- methods ---------------------------------------------------------------------------------- */

static int64_t self_id(lua_State *L)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, 1);
    if (!value || value->kind != CS_LUA_LIVE)
        cs_lua_error(L, "call it with a colon: job:method()");
    return cs_msg_int(value->json, "id", 0);
}

/* an order, then the job as it is */
static int order(lua_State *L, const char *who, const char *type)
{
    const int64_t id = self_id(L);
    ask(L, who, about(type, id));
    push_job(L, who, id);
    return 1;
}

static int live_pause(lua_State *L)
{
    return order(L, "pause", "job.pause");
}

static int live_resume(lua_State *L)
{
    return order(L, "resume", "job.resume");
}

static int live_stop(lua_State *L)
{
    return order(L, "stop", "job.stop");
}

static int live_checkpoint(lua_State *L)
{
    return order(L, "checkpoint", "job.checkpoint");
}

static int live_wait(lua_State *L)
{
    return order(L, "wait", "job.wait");
}

static int live_show(lua_State *L)
{
    push_job(L, "show", self_id(L));
    return 1;
}

static int live_spec(lua_State *L)
{
    const json_t *reply = ask(L, "spec", about("job.show", self_id(L)));
    cs_lua_push_json(L, cs_msg_obj(reply, "spec"));
    return 1;
}

/* one table a step: { step = 0, loss = 2.1, ... } */
static int live_metrics(lua_State *L)
{
    json_t *request = about("job.metrics", self_id(L));
    cs_msg_set_int(request, "limit", ROWS);
    const json_t *reply = ask(L, "metrics", request);
    const json_t *columns = cs_msg_arr(reply, "columns"), *rows = cs_msg_arr(reply, "rows");
    lua_createtable(L, (int)json_array_size(rows), 0);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        lua_createtable(L, 0, (int)json_array_size(columns));
        for (size_t k = 0; k < json_array_size(columns); k++) {
            cs_lua_push_json(L, json_array_get(row, k));
            lua_setfield(L, -2, json_string_value(json_array_get(columns, k)));
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int live_logs(lua_State *L)
{
    const lua_Integer rank = luaL_optinteger(L, 2, -2);
    json_t *request = about("job.log", self_id(L));
    cs_msg_set_int(request, "rank", rank);
    cs_msg_set_int(request, "offset", -1);
    cs_msg_set_int(request, "limit", LINES);
    cs_lua_push_json(L, cs_msg_arr(ask(L, "logs", request), "lines"));
    return 1;
}

static int live_tostring(lua_State *L)
{
    const json_t *job = cs_lua_value_test(L, 1)->json;
    char text[256], loss[32] = "";
    const double value = cs_msg_num(job, "loss", -1);
    if (value >= 0)
        snprintf(loss, sizeof loss, "  loss %.6g", value);
    snprintf(text, sizeof text, "job %lld %.60s  %s  %lld/%lld%s",
             (long long)cs_msg_int(job, "id", 0), cs_msg_str(job, "name", "-"),
             cs_msg_str(job, "state", "-"), (long long)cs_msg_int(job, "step", 0),
             (long long)cs_msg_int(job, "steps", 0), loss);
    lua_pushstring(L, text);
    return 1;
}

/* upvalue: the methods. job.loss is what the daemon said of it last. */
static int live_index(lua_State *L)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, 1);
    const json_t *field =
        lua_type(L, 2) == LUA_TSTRING ? json_object_get(value->json, lua_tostring(L, 2)) : NULL;
    if (field)
        cs_lua_push_json(L, field);
    else
        lua_gettable(L, lua_upvalueindex(1)); /* strict: names what is near */
    return 1;
}

void cs_lua_register_live(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"pause",      live_pause     },
        {"resume",     live_resume    },
        {"stop",       live_stop      },
        {"checkpoint", live_checkpoint},
        {"wait",       live_wait      },
        {"show",       live_show      },
        {"spec",       live_spec      },
        {"metrics",    live_metrics   },
        {"logs",       live_logs      },
        {NULL,         NULL           },
    };
    cs_lua_value_register(L, CS_LUA_LIVE, methods, live_tostring);
    luaL_getmetatable(L, cs_lua_kind_name(CS_LUA_LIVE));
    lua_getfield(L, -1, "__index");
    lua_pushcclosure(L, live_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}
