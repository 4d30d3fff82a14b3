/* Types for editors (lua/meta/cornstarch.lua, LuaLS) and the reference part of cornstarch-lua.7,
 * both generated from the argument tables. */
#include <ctype.h>
#include <string.h>

#include "lua/eval.h"
#include "lua/module.h"

/* clang-format off */
static const struct cs_lua_method methods[] = {
    {"cs.mllm", "train", "...: string", "cs.mllm", "a new model in which the named modules train; globs, last match wins"},
    {"cs.mllm", "freeze", "...: string", "cs.mllm", "a new model in which the named modules are frozen"},
    {"cs.mllm", "lora", "args: table", "cs.mllm", "the model with LoRA adapters beside frozen matrices of a module: { module = \"llm\", rank = 8, alpha = 16, targets = \"q_proj|v_proj\" }, or { from = DIR } of PEFT's; the module is frozen"},
    {"cs.mllm", "params", "", "integer", "number of parameters"},
    {"cs.mllm", "trainable_params", "", "integer", "number of trained parameters"},
    {"cs.mllm", "modules", "", "table[]", "one row per layer: path, params, trained, needs_weight_grad, needs_input_grad"},
    {"cs.plan", "stages", "", "table[]", "one row per stage: name, rank, layers, times"},
    {"cs.plan", "step_ms", "", "number", "predicted time of a step"},
    {"cs.plan", "bubble", "", "number", "predicted idle share of the ranks"},
    {"cs.plan", "ranks", "", "integer", "ranks the plan needs"},
    {"cs.plan", "explain", "", "string", "why it was cut as it is"},
    {"cs.plan", "simulate", "args: table?", "table", "a step: step_ms, bubble, stages, ranks with memory over time, critical_path; args: schedule, slots, stragglers, jitter, seed, copies, share_links"},
    {"cs.plan", "hash", "", "string", "SHA-256 of the plan"},
    {"cs.sweep", "plans", "", "table[]", "one row per plan, the best first: parallel, schedule, step_ms, peak_memory_gib, bubble, ranks, why, of a search runs: whether jobs run it, and why_not_run"},
    {"cs.sweep", "blind", "", "table?", "the row that a frozen-blind planner would choose; of a search"},
    {"cs.sweep", "planners", "", "table[]", "what every planner chooses: planner, plan (its row), why_not; of a search"},
    {"cs.sweep", "explain", "", "table?", "why the first plan, and what binds: { cut = {...}, binds = {...} }; of a search"},
    {"cs.sweep", "plan", "n?: integer", "cs.plan", "plan n as a cs.plan for a job, absent: the fastest that jobs run; of a search"},
    {"cs.sweep", "json", "", "table", "the whole document that plan --json prints"},
    {"cs.job", "spec", "", "table", "the job document as a table"},
    {"cs.live", "pause", "", "cs.live", "finish the step, write a checkpoint, release the ranks"},
    {"cs.live", "resume", "", "cs.live", "go on from the newest checkpoint"},
    {"cs.live", "stop", "", "cs.live", "end the job"},
    {"cs.live", "checkpoint", "", "cs.live", "write a checkpoint after this step"},
    {"cs.live", "wait", "", "cs.live", "until it has ended or is paused"},
    {"cs.live", "show", "", "cs.live", "the job as it is now; its figures are fields: job.state, job.loss"},
    {"cs.live", "spec", "", "table", "its specification"},
    {"cs.live", "metrics", "", "table[]", "one row a step: step, loss, grad_norm, lr, step_ns ..."},
    {"cs.live", "logs", "rank: integer?", "string[]", "the last lines of a rank's log; -1 the feeder, -2 (default) the runner"},
};

/* clang-format on */

const struct cs_lua_method *cs_lua_methods(size_t *n)
{
    *n = CS_ARRAY_LEN(methods);
    return methods;
}

/* what a value may be: alternatives between bars, words of a choice without their quotes */
const char *cs_lua_arg_words(const struct cs_arg *arg)
{
    static const char *const plain[] = {"string",
                                        "integer",
                                        "number",
                                        "boolean",
                                        "table",
                                        "",
                                        "table",
                                        "function",
                                        "number|false",
                                        "string|table",
                                        "string|number|boolean"};
    if (arg->type == CS_ARG_VALUE)
        return cs_lua_kind_name(arg->kind);
    return arg->values ? arg->values : plain[arg->type];
}

static void add_type(struct cs_buf *out, const struct cs_arg *arg)
{
    if (arg->type != CS_ARG_STRING || !arg->values) {
        cs_buf_adds(out, cs_lua_arg_words(arg));
        return;
    }
    for (const char *p = arg->values; *p;) {
        size_t n = strcspn(p, "|");
        cs_buf_addf(out, "%s\"%.*s\"", p == arg->values ? "" : "|", (int)n, p);
        p += n + (p[n] == '|');
    }
}

/* cs.projector.mlp -> cs.projector.mlp.Args */
static void add_args_class(struct cs_buf *out, const struct cs_lua_function *f)
{
    if (f->n_args == 0)
        return;
    cs_buf_addf(out, "---@class %s.Args\n", f->name);
    for (int i = 0; i < f->n_args; i++) {
        const struct cs_arg *arg = &f->args[i];
        cs_buf_addf(out, "---@field %s%s ", arg->key, arg->is_required ? "" : "?");
        add_type(out, arg);
        cs_buf_addf(out, " %s", arg->help);
        if (arg->fallback)
            cs_buf_addf(out, " (default %s)", arg->fallback);
        cs_buf_addc(out, '\n');
    }
    cs_buf_addc(out, '\n');
}

static void add_function(struct cs_buf *out, const struct cs_lua_function *f)
{
    cs_buf_addf(out, "---%s\n", f->help);
    if (f->positional)
        cs_buf_addf(out, "---@param args string|%s.Args\n", f->name);
    else if (f->n_args)
        cs_buf_addf(out, "---@param args %s.Args\n", f->name);
    cs_buf_addf(out, "---@return %s\nfunction %s(%s) end\n\n", f->returns, f->name,
                f->n_args || f->positional ? "args" : "");
}

static void each_area(void (*visit)(struct cs_buf *, const struct cs_lua_function *),
                      struct cs_buf *out)
{
    struct cs_lua_area areas[CS_LUA_AREAS];
    cs_lua_areas(areas);
    for (size_t a = 0; a < CS_LUA_AREAS; a++)
        for (int i = 0; i < areas[a].n; i++)
            visit(out, &areas[a].functions[i]);
}

void cs_lua_meta(struct cs_buf *out)
{
    cs_buf_adds(
        out, "---@meta cornstarch\n-- Generated from the argument tables: cornstarch-console lua "
             "--meta. Do not edit.\n\nlocal cs = {}\ncs.projector = {}\ncs.data = {}\ncs.optim = "
             "{}\ncs.lr = {}\ncs.lab = {}\n\n---@type string\ncs.version = \"\"\n\n");
    for (int kind = CS_LUA_HF; kind < CS_LUA_KIND_COUNT; kind++) {
        const char *name = cs_lua_kind_name((enum cs_lua_kind)kind);
        cs_buf_addf(out, "---@class %s\nlocal %s_ = {}\n\n", name, name + 3);
        for (size_t i = 0; i < CS_ARRAY_LEN(methods); i++)
            if (strcmp(methods[i].owner, name) == 0)
                cs_buf_addf(out, "---%s\n%s%s---@return %s\nfunction %s_:%s(%s) end\n\n",
                            methods[i].help, methods[i].params[0] ? "---@param ... string" : "",
                            methods[i].params[0] ? "\n" : "", methods[i].returns, name + 3,
                            methods[i].name, methods[i].params[0] ? "..." : "");
    }
    each_area(add_args_class, out);
    each_area(add_function, out);
    cs_buf_adds(out, "return cs\n");
}

/* "a|b|c" as words, without the quotes that mdoc would take as its own */
static void manual_type(struct cs_buf *out, const struct cs_arg *arg)
{
    for (const char *p = cs_lua_arg_words(arg); *p; p++) {
        if (*p == '|')
            cs_buf_adds(out, ", ");
        else
            cs_buf_addc(out, *p);
    }
}

/* Capital and full stop, unless the text begins with a name or with code. */
static void manual_sentence(struct cs_buf *out, const char *text)
{
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    bool is_word = word > 0 && strchr(" ,;:", text[word]) && strncmp(text + word, " = ", 3) != 0;
    if (is_word)
        cs_buf_addc(out, (char)toupper((unsigned char)*text++));
    cs_buf_adds(out, text);
}

static void manual_function(struct cs_buf *out, const struct cs_lua_function *f)
{
    cs_buf_addf(out, ".Ss %s\n", f->name);
    manual_sentence(out, f->help);
    cs_buf_adds(out, ".\n");
    if (!f->n_args)
        return;
    cs_buf_adds(out, ".Bl -tag -width Ds\n");
    for (int i = 0; i < f->n_args; i++) {
        const struct cs_arg *arg = &f->args[i];
        struct cs_buf type = {0};
        manual_type(&type, arg);
        cs_buf_addf(out, ".It Cm %s Pq %s%s\n", arg->key, cs_buf_str(&type),
                    arg->is_required ? ", required" : "");
        manual_sentence(out, arg->help);
        if (arg->fallback)
            cs_buf_addf(out, "; default %s", arg->fallback);
        cs_buf_adds(out, ".\n");
        cs_buf_free(&type);
    }
    cs_buf_adds(out, ".El\n");
}

void cs_lua_manual(struct cs_buf *out)
{
    each_area(manual_function, out);
    cs_buf_adds(out, ".Ss Methods\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i < CS_ARRAY_LEN(methods); i++)
        cs_buf_addf(out, ".It %s : Ns Cm %s\n%c%s.\n", methods[i].owner, methods[i].name,
                    toupper((unsigned char)methods[i].help[0]), methods[i].help + 1);
    cs_buf_adds(out, ".El\n");
}
