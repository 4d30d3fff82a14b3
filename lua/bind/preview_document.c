/* Builds the graph and the documents of a model or a plan before there is a job. */
#include "lua/bind/preview_document.h"

#include "core/model/spec.h"
#include "lua/base/args.h"

json_t *cs_lua_model_part(const json_t *model)
{
    json_t *part = json_deep_copy(model);
    json_object_del(part, "name");
    return part;
}

json_t *cs_lua_preview_document(const json_t *model, const json_t *plan)
{
    json_t *document = json_pack("{s:s s:O s:o}", "schema", "cornstarch.preview/1", "name",
                                 json_object_get(model, "name"), "model", cs_lua_model_part(model));
    if (plan != NULL)
        json_object_set_new(document, "plan", json_deep_copy(plan));
    return document;
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
    enum cs_status status = cs_spec_read_preview(value->json, value->arena, &value->spec, &err);
    if (status == CS_OK)
        status = cs_graph_build(value->spec, allow_frozen, value->arena, &value->graph, &err);
    if (status != CS_OK)
        cs_lua_raise(L, function, &err);
}
