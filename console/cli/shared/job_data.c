/* Opens the data of a script's job. */
#include "console/cli/shared/job_data.h"

#include "core/plan/make/planner.h"

void cs_job_data_close(struct cs_job_data *d)
{
    cs_source_close(d->source);
    cs_arena_free(d->arena);
    cs_script_result_free(&d->script);
}

enum cs_status cs_job_data_open(const char *script, const struct cs_texts *set,
                                struct cs_job_data *d, struct cs_err *err)
{
    const struct cs_here here = {0}; /* data does not depend on it */
    *d = (struct cs_job_data){0};
    CS_TRY(cs_cmd_eval(script, true, &here, set, &d->script, err));
    d->arena = cs_arena_new(0);
    CS_TRY(cs_spec_read(d->script.document, d->arena, &d->spec, err));
    CS_TRY(cs_graph_build(d->spec, true, d->arena, &d->graph, err));
    d->has_budget = cs_plan_budget(d->spec, d->graph, &d->budget, NULL) == CS_OK;
    return CS_OK;
}

enum cs_status cs_job_data_source(struct cs_job_data *d, bool is_eval, struct cs_err *err)
{
    cs_source_close(d->source);
    d->source = NULL;
    const struct cs_source_options options = {.budget = d->has_budget ? &d->budget : NULL,
                                              .has_disk_cache = true};
    return cs_source_open(d->spec, d->graph, is_eval ? &d->spec->eval_data : &d->spec->data,
                          &options, &d->source, err);
}
