/* The trained model of a golden as directories, with what it computes of the same input beside them: who
 * loads them elsewhere can compare. */
#include <string.h>

#include "store/fsio.h"
#include "store/hf/export.h"
#include "worker/selftest/parts.h"

/* Parameters as this rank holds them. */
static enum cs_status give(void *user, const struct cs_param *param, float *out, struct cs_err *err)
{
    const struct cs_golden *g = user;
    const struct cs_shard *shard = cs_params_find(g->trainer->params, param->id);
    const float *values;
    if (shard == NULL)
        return cs_fail(err, CS_NOT_FOUND, "this rank does not have %s", param->name);
    CS_TRY(cs_params_values(g->trainer->params, shard, &values, err));
    memcpy(out, values, (size_t)param->count * sizeof *out);
    return CS_OK;
}

enum cs_status cs_golden_write(struct cs_golden *g, const char *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_export_report report;
    const struct cs_input *in = &g->trainer->inputs[0];
    struct cs_st_out out[] = {
        {.name = g->after.name, .dtype = CS_F32, .n_dims = 2, .data = g->after.values},
        {.name = "rows",        .dtype = CS_I32, .n_dims = 1, .data = in->label_rows },
    };
    memcpy(out[0].dim, g->after.dim, sizeof g->after.dim);
    out[1].dim[0] = in->n_labels;
    CS_TRY(cs_export_model(g->spec, g->graph, give, g, "float32", dir, &report, err));
    CS_TRY(cs_path(path, err, "%s/after.safetensors", dir));
    return cs_st_write(path, out, in->n_labels > 0 ? 2 : 1, NULL, NULL, err);
}
