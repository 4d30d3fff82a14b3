/* Looks at the first samples that a job would train on and be evaluated with. */
#include "console/cli/first_look.h"

#include "input/data/early.h"

static enum cs_status look(const struct cs_spec *spec, const struct cs_graph *graph, bool is_eval,
                           struct cs_findings *findings, struct cs_buf *lines,
                           struct cs_buf *warnings, struct cs_err *err)
{
    const struct cs_spec_data *data = is_eval ? &spec->eval_data : &spec->data;
    struct cs_record_keys *keys = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_early early;
    enum cs_status status = cs_record_keys_of(graph, arena, &keys, err);
    if (status == CS_OK)
        status = cs_early_look(spec, graph, data, findings, &early, err);
    if (status == CS_OK && lines != NULL && !is_eval)
        cs_early_text(&early, keys, lines);
    if (status == CS_OK && warnings != NULL)
        cs_early_warnings(&early, data->json, warnings);
    cs_arena_free(arena);
    return status == CS_OK ? status : cs_wrap(err, status, is_eval ? "eval.data" : "data");
}

enum cs_status cs_first_look(const json_t *document, struct cs_findings *findings,
                             struct cs_buf *lines, struct cs_buf *warnings, struct cs_err *err)
{
    if (!json_is_object(json_object_get(document, "data")))
        return CS_OK;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    enum cs_status status = cs_spec_read(document, arena, &spec, err);
    if (status == CS_OK)
        status = cs_graph_build(spec, true, arena, &graph, err);
    if (status == CS_OK)
        status = look(spec, graph, false, findings, lines, warnings, err);
    if (status == CS_OK && spec->has_eval)
        status = look(spec, graph, true, findings, lines, warnings, err);
    cs_arena_free(arena);
    return status;
}
