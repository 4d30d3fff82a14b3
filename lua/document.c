/* Builds the graph and the documents of a model or a plan before there is a job. */
#include "lua/document.h"

#include <string.h>

#include "core/model/spec.h"
#include "lua/args.h"

/* every branch on one stage: what a model is checked with before there is a plan */
static json_t *stand_in_plan(const json_t *model)
{
    json_t *parallel = json_object();
    const json_t *modules = json_object_get(model, "modules");
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const json_t *m = json_array_get(modules, i);
        const char *name = json_string_value(json_object_get(m, "name"));
        const char *dot = name ? strchr(name, '.') : NULL;
        char branch[128];
        snprintf(branch, sizeof(branch), "%.*s", dot ? (int)(dot - name) : 127, name ? name : "");
        json_object_set_new(parallel, branch, json_pack("{s:i}", "pp", 1));
    }
    return json_pack("{s:s s:i s:o}", "cluster", "here", "seq_tokens", 4096, "parallel", parallel);
}

json_t *cs_lua_preview_document(const json_t *model, const json_t *plan)
{
    json_t *body = json_pack("{s:O s:O}", "modules", json_object_get(model, "modules"), "rules",
                             json_object_get(model, "rules"));
    json_t *plan_part = plan ? json_deep_copy(plan) : stand_in_plan(model);
    return json_pack("{s:s s:O s:i s:i s:i s:o s:o s:{s:s s:s s:s} s:{s:s s:f}}", "schema",
                     "cornstarch.job/1", "name", json_object_get(model, "name"), "seed", 0, "steps",
                     1, "batch_samples", 1, "model", body, "plan", plan_part, "data", "format",
                     "llava", "json", "/preview", "images", "", "optimizer", "kind", "adamw", "lr",
                     1e-3);
}

void cs_lua_take_optimizer(lua_State *L, json_t *document)
{
    const struct cs_lua_value *optimizer = cs_lua_args_value(L, "optimizer");
    if (optimizer)
        json_object_set(document, "optimizer", optimizer->json);
}

void cs_lua_build_graph(lua_State *L, const char *function, struct cs_lua_value *value,
                        bool allow_frozen)
{
    struct cs_err err;
    if (!value->json)
        cs_lua_error(L, "%s: a name or path is not valid UTF-8", function);
    if (!value->arena)
        value->arena = cs_arena_new(0);
    enum cs_status st = cs_spec_read(value->json, value->arena, &value->spec, &err);
    if (st == CS_OK)
        st = cs_graph_build(value->spec, allow_frozen, value->arena, &value->graph, &err);
    if (st != CS_OK)
        cs_lua_error(L, "%s: %s", function, err.text);
}
