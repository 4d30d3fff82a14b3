/* cs.optim.*, cs.lr.*, cs.job: how it is trained, and the job document itself. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/cost/links/links.h"
#include "core/plan/make/planner.h"
#include "lua/base/json.h"
#include "lua/base/paths.h"
#include "lua/bind/bind.h"
#include "lua/bind/preview_document.h"
#include "lua/bind/sweep.h"

static int call_adamw(lua_State *L);
static int call_cosine(lua_State *L);
static int call_linear(lua_State *L);
static int call_constant(lua_State *L);
static int call_job(lua_State *L);

/* clang-format off */
static const struct cs_arg adamw_args[] = {
    {"lr", CS_ARG_NUMBER, true, NULL, 0, 10, 0, NULL, "peak learning rate"},
    {"betas", CS_ARG_LIST, false, NULL, 0, 0, 0, "{ 0.9, 0.999 }", "decay of the moments"},
    {"eps", CS_ARG_NUMBER, false, NULL, 0, 1, 0, "1e-8", "added to the root of the second moment"},
    {"weight_decay", CS_ARG_NUMBER, false, NULL, 0, 1, 0, "0", "decoupled; not on biases and norms"},
    {"clip", CS_ARG_NUMBER, false, NULL, 0, 1e9, 0, "1.0", "global gradient norm; 0: no clipping"},
    {"warmup_steps", CS_ARG_INT, false, NULL, 0, 1e9, 0, "0", "linear warm-up"},
    {"groups", CS_ARG_TABLE, false, NULL, 0, 0, 0, "{}", "parameters with a learning rate or a decay of their own: { { glob = \"vision.projector\", lr = 1e-3, weight_decay = 0 } }; globs of layers or of names of parameters, of several that name one the last holds"},
    {"state", CS_ARG_STRING, false, "fp32|bf16", 0, 0, 0, "\"fp32\"", "what training keeps: fp32 masters, gradients and moments, 18 bytes for a parameter with its bf16 weight; or gradients and moments in bf16 and no masters, 8 bytes, rounded stochastically, on GPUs that compute in bf16"},
};
static const struct cs_arg decay_args[] = {
    {"final_ratio", CS_ARG_NUMBER, false, NULL, 0, 1, 0, "0", "learning rate at the end over the peak"},
};
static const struct cs_arg job_args[] = {
    {"name", CS_ARG_STRING, false, NULL, 0, 0, 0, "the model's name where it has one, else the script's", "shown on the screens"},
    {"plan", CS_ARG_VALUE, true, "cs.plan or cs.search", 0, 0, CS_LUA_PLAN, NULL, "made by cs.plan; or a cs.search: its fastest plan that jobs run, or the one that --pick names"},
    {"data", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_DATA, NULL, "what is trained on"},
    {"eval", CS_ARG_TABLE, false, NULL, 0, 0, 0, NULL, "{ data = ..., every_steps = 500, metric = \"exact_match\", max_samples = 500 }"},
    {"optimizer", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_OPTIM, NULL, "cs.optim.adamw { lr = ... }"},
    {"lr", CS_ARG_VALUE, false, NULL, 0, 0, CS_LUA_LR, "cs.lr.constant {}", "schedule of the learning rate"},
    {"batch_samples", CS_ARG_INT, true, NULL, 1, CS_SPEC_MAX_BATCH, 0, NULL, "samples of a step, as many as its 4096 slots and the memory of this machine hold"},
    {"balance", CS_ARG_STRING, false, "list2d|lpt|entrain|random|stream", 0, 0, 0, "\"list2d\"", "which slot of its step a sample sits in; stream: as they come"},
    {"slot_order", CS_ARG_STRING, false, "kept|searched", 0, 0, 0, "\"kept\"", "searched: the order of a step's slots that takes least on the simulator"},
    {"data_threads", CS_ARG_INT, false, NULL, 0, CS_SPEC_MAX_DATA_THREADS, 0, "0: as the cores of this machine allow", "threads that read samples, decode and resize their pictures; does not change what is trained"},
    {"precision", CS_ARG_STRING, false, "bf16|fp32", 0, 0, 0, "bf16 on GPUs, fp32 on CPU ranks", "what ranks compute in, with parameters updated in fp32 either way; CPU ranks compute in fp32 only"},
    {"steps", CS_ARG_INT, true, NULL, 1, 1e12, 0, NULL, "optimizer steps"},
    {"seed", CS_ARG_INT, false, NULL, 0, 9e15, 0, "0", "decides order of samples and fresh parameters"},
    {"checkpoint", CS_ARG_TABLE, false, NULL, 0, 0, 0, "{ every_steps = 0, keep = 3 }", "{ every_steps = 500, keep = 3, dir = ... }; one is always written at the end"},
    {"tensorboard", CS_ARG_STRING, false, NULL, 0, 0, 0, "none", "directory for event files of TensorBoard, of this job alone, written while it runs"},
    {"alerts", CS_ARG_TABLE, false, NULL, 0, 0, 0, "a threshold for each rule", "what raises an alarm: { divergence = 2, data_wait = false, ... }; false: off"},
};
static const struct cs_arg eval_args[] = {
    {"data", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_DATA, NULL, "held-out samples"},
    {"every_steps", CS_ARG_INT, false, NULL, 0, 1e12, 0, "0", "0: only at the end"},
    {"metric", CS_ARG_STRING, false, "exact_match", 0, 0, 0, "\"exact_match\"", "every trained token of the answer is the argmax"},
    {"max_samples", CS_ARG_INT, false, NULL, 0, 1e12, 0, "0", "0: all"},
};
static const struct cs_lua_function eval_function = {"cs.job: eval", "", "", eval_args, CS_ARRAY_LEN(eval_args), NULL, NULL};
static const struct cs_arg checkpoint_args[] = {
    {"every_steps", CS_ARG_INT, false, NULL, 0, 1e12, 0, "0", "0: only at the end"},
    {"keep", CS_ARG_INT, false, NULL, 0, 1e6, 0, "3", "newest ones kept; 0: all"},
    {"dir", CS_ARG_STRING, false, NULL, 0, 0, 0, "the job's directory", "where"},
};
static const struct cs_lua_function checkpoint_function = {"cs.job: checkpoint", "", "", checkpoint_args, CS_ARRAY_LEN(checkpoint_args), NULL, NULL};
static const struct cs_arg alert_args[] = {
#define X(id, slug, threshold, least, most, help) {slug, CS_ARG_LIMIT, false, NULL, least, most, 0, #threshold, help},
    CS_ALERTS_MEASURED(X)
#undef X
};
static const struct cs_lua_function alert_function = {"cs.job: alerts", "", "", alert_args, CS_ARRAY_LEN(alert_args), NULL, NULL};

enum { F_ADAMW, F_COSINE, F_LINEAR, F_CONSTANT, F_JOB };

static const struct cs_lua_function functions[] = {
    {"cs.optim.adamw", "AdamW with decoupled weight decay", "cs.optim", adamw_args, CS_ARRAY_LEN(adamw_args), call_adamw, NULL},
    {"cs.lr.cosine", "cosine decay after the warm-up", "cs.lr", decay_args, CS_ARRAY_LEN(decay_args), call_cosine, NULL},
    {"cs.lr.linear", "linear decay after the warm-up", "cs.lr", decay_args, CS_ARRAY_LEN(decay_args), call_linear, NULL},
    {"cs.lr.constant", "constant after the warm-up", "cs.lr", NULL, 0, call_constant, NULL},
    {"cs.job", "a training job; a script returns it", "cs.job", job_args, CS_ARRAY_LEN(job_args), call_job, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_job(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static int call_adamw(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_ADAMW];
    cs_lua_args_check(L, f);
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_OPTIM, NULL);
    int self = lua_gettop(L);
    value->json = json_pack("{s:s}", "kind", "adamw");
    cs_lua_args_copy(L, f, value->json);
    json_t *betas = cs_lua_args_json(L, "betas", f);
    if (betas)
        json_object_set(value->json, "betas", betas);
    json_t *groups = cs_lua_args_json(L, "groups", f);
    if (groups)
        json_object_set(value->json, "groups", groups);
    lua_settop(L, self);
    return 1;
}

static int make_lr(lua_State *L, int which, const char *kind)
{
    if (lua_gettop(L) == 0)
        lua_newtable(L);
    cs_lua_args_check(L, &functions[which]);
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_LR, NULL);
    value->json = json_pack("{s:s}", "kind", kind);
    cs_lua_args_copy(L, &functions[which], value->json);
    return 1;
}

static int call_cosine(lua_State *L)
{
    return make_lr(L, F_COSINE, "cosine");
}

static int call_linear(lua_State *L)
{
    return make_lr(L, F_LINEAR, "linear");
}

static int call_constant(lua_State *L)
{
    return make_lr(L, F_CONSTANT, "constant");
}

/* The nested table is at index 1, the JSON object to fill at index 2 (light userdata). */
static int fill_eval(lua_State *L)
{
    json_t *eval = lua_touserdata(L, 2);
    cs_lua_args_check(L, &eval_function);
    cs_lua_args_copy(L, &eval_function, eval);
    json_object_set(eval, "data", cs_lua_args_value(L, "data")->json);
    return 0;
}

static int fill_checkpoint(lua_State *L)
{
    json_t *checkpoint = lua_touserdata(L, 2);
    cs_lua_args_check(L, &checkpoint_function);
    cs_lua_args_copy(L, &checkpoint_function, checkpoint);
    const char *dir = cs_lua_args_string(L, "dir", "");
    if (dir[0])
        json_object_set_new(checkpoint, "dir", cs_lua_path_from_here(L, "cs.job: checkpoint", dir));
    return 0;
}

static int fill_alerts(lua_State *L)
{
    json_t *alerts = lua_touserdata(L, 2);
    cs_lua_args_check(L, &alert_function);
    cs_lua_args_copy(L, &alert_function, alerts);
    return 0;
}

static void nested(lua_State *L, const char *key, lua_CFunction fill, json_t *document)
{
    lua_pushstring(L, key);
    if (lua_rawget(L, 1) != LUA_TTABLE) {
        lua_pop(L, 1);
        return;
    }
    json_t *object = json_object();
    json_object_set_new(document, key, object);
    lua_pushcfunction(L, fill);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, object);
    lua_call(L, 2, 0);
}

static void script_name(lua_State *L, char *out, size_t cap)
{
    lua_Debug ar;
    const char *name = "job";
    if (lua_getstack(L, 1, &ar) && lua_getinfo(L, "S", &ar) && ar.source[0] == '@') {
        const char *slash = strrchr(ar.source, '/');
        name = slash ? slash + 1 : ar.source + 1;
    }
    snprintf(out, cap, "%s", name);
    char *dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = '\0';
}

/* What ranks compute in and keep must suit their devices. State that is not what cs.plan was told
 * needs other memory: its plan is made again. */
static void check_devices(lua_State *L, struct cs_lua_value *value, bool keeps_bf16)
{
    const struct cs_spec *spec = value->spec;
    struct cs_cluster cluster;
    struct cs_plan *plan;
    struct cs_err err;
    if (cs_spec_cluster(spec, &cs_lua_state_of(L)->here, value->arena, &cluster, &err) != CS_OK ||
        cs_spec_check_precision(spec, cluster.device->name, &err) != CS_OK)
        cs_lua_raise(L, "cs.job", &err);
    if (value->graph->keeps_bf16 == keeps_bf16)
        return;
    if (cs_plan_make(spec, value->graph, &cluster, value->arena, &plan, &err) != CS_OK)
        cs_lua_raise(L, "cs.job", &err);
    json_object_set_new(value->json, "plan_hash", json_string(plan->hash));
    value->ranks = cs_plan_world(plan);
    cs_lua_build_graph(L, "cs.job", value, false);
}

/* model and plan of a cs.plan as those of a job, which the rest is added to */
static json_t *job_document(const json_t *plan)
{
    return json_pack("{s:s s:o s:o}", "schema", "cornstarch.job/1", "model",
                     cs_lua_model_part(json_object_get(plan, "model")), "plan",
                     json_deep_copy(json_object_get(plan, "plan")));
}

static int call_job(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_JOB];
    char name[64];
    script_name(L, name, sizeof(name));
    cs_lua_sweep_resolve(L);
    cs_lua_args_check(L, f);
    const struct cs_lua_value *plan = cs_lua_args_value(L, "plan");
    const struct cs_lua_value *lr = cs_lua_args_value(L, "lr");
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_JOB, NULL);
    int self = lua_gettop(L);
    json_t *document = job_document(plan->json);
    value->json = document;
    const char *of_model =
        json_string_value(json_object_get(json_object_get(plan->json, "model"), "name"));
    const bool is_named = of_model && strcmp(of_model, CS_LUA_MODEL_NAME) != 0;
    json_object_set_new(document, "name", json_string(is_named ? of_model : name));
    json_object_set_new(document, "seed", json_integer(0));
    cs_lua_args_copy(L, f,
                     document); /* over these; what is absent there has the document's defaults */
    json_object_set_new(document, "plan_hash", json_string(plan->plan->hash));
    value->ranks = cs_plan_world(plan->plan);
    json_object_set(document, "data", cs_lua_args_value(L, "data")->json);
    json_object_set(document, "optimizer", cs_lua_args_value(L, "optimizer")->json);
    json_object_set_new(document, "lr",
                        lr ? json_incref(lr->json) : json_pack("{s:s}", "kind", "constant"));
    if (cs_lua_args_string(L, "tensorboard", "")[0])
        json_object_set_new(document, "tensorboard",
                            cs_lua_path_from_here(L, "cs.job: tensorboard",
                                                  cs_lua_args_string(L, "tensorboard", "")));
    nested(L, "eval", fill_eval, document);
    nested(L, "checkpoint", fill_checkpoint, document);
    nested(L, "alerts", fill_alerts, document);
    cs_lua_build_graph(L, "cs.job", value, false);
    check_devices(L, value, plan->graph->keeps_bf16);
    lua_settop(L, self);
    return 1;
}

static int job_spec(lua_State *L)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, 1);
    if (!value || value->kind != CS_LUA_JOB)
        return cs_lua_error(L, "call it with a colon: job:spec()");
    cs_lua_push_json(L, value->json);
    return 1;
}

static int job_tostring(lua_State *L)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, 1);
    lua_pushfstring(L, "job %s: %I steps of %I samples", value->spec->name,
                    (LUAI_UACINT)value->spec->steps, (LUAI_UACINT)value->spec->batch_samples);
    return 1;
}

void cs_lua_register_job(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"spec", job_spec},
        {NULL,   NULL    },
    };
    static const luaL_Reg none[] = {
        {NULL, NULL}
    };
    cs_lua_value_register(L, CS_LUA_JOB, methods, job_tostring);
    cs_lua_value_register(L, CS_LUA_DATA, none, NULL);
    cs_lua_value_register(L, CS_LUA_OPTIM, none, NULL);
    cs_lua_value_register(L, CS_LUA_LR, none, NULL);
}
