/* Writes the model of a checkpoint of a job directory. */
#include "console/cli/command/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/cli/shared/export/export_verify.h"
#include "core/base/say.h"
#include "core/base/system/cores.h"
#include "core/base/units.h"
#include "core/wire/job_state.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "store/ckpt/checkpoint.h"
#include "store/hf/export.h"
#include "store/hf/hfdir.h"

struct exporter {
    json_t *document;
    struct cs_arena *arena;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_ckpt *ckpt;
    struct cs_hfdir *source[CS_MAX_MODULES]; /* opened when first needed */
    char ckpt_path[CS_PATH_CAP];
};

static enum cs_status read_document(const char *path, json_t **out, struct cs_err *err)
{
    struct cs_buf text = {0};
    enum cs_status status = cs_read_file(path, CS_LINE_MAX, &text, err);
    if (status == CS_OK)
        status = cs_line_parse(cs_buf_str(&text), text.len, out, err);
    cs_buf_free(&text);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "reading %s", path);
}

static enum cs_status find_value(void *user, const struct cs_param *param, float *out,
                                 struct cs_err *err)
{
    struct exporter *ex = user;
    const struct cs_module *module = &ex->graph->modules[param->module];
    if (param->is_trainable)
        return cs_ckpt_read(ex->ckpt, param, "master", out, err);
    if (strcmp(module->spec->init, "random") == 0) {
        cs_param_fill_fresh(module, ex->spec->seed, param, cs_cores_each(1), out);
        return CS_OK;
    }
    struct cs_hfdir **dir = &ex->source[param->module];
    if (!*dir)
        CS_TRY(cs_hfdir_open_kind(module->spec->dir, module->kind, dir, err));
    const struct cs_st_tensor *tensor = cs_hfdir_tensor(*dir, param->tensor, param->alt);
    if (!tensor)
        return cs_fail(err, CS_NOT_FOUND, "tensor %s is not in %s any more", param->tensor,
                       module->spec->dir);
    if (!cs_hfdir_fits(tensor, param->role, param->dim, param->n_dims))
        return cs_fail(err, CS_INVALID, "tensor %s in %s has another shape than the job had",
                       param->tensor, module->spec->dir);
    return cs_hfdir_read(tensor, param->role, param->dim, param->n_dims, cs_cores_each(1), out,
                         err);
}

static void on_skip(void *user, int64_t step, const struct cs_err *why)
{
    (void)user;
    cs_say(stderr, "cornstarch-console: skipping the checkpoint of step %lld: %s\n",
           (long long)step, why->text);
}

static enum cs_status open_checkpoint(struct exporter *ex, const char *job_dir, const char *ckpt,
                                      struct cs_err *err)
{
    char dir[CS_PATH_CAP];
    int64_t step;
    if (ckpt) {
        CS_TRY(cs_path(ex->ckpt_path, err, "%s", ckpt));
    } else {
        if (ex->spec->checkpoint_dir[0])
            CS_TRY(cs_path(dir, err, "%s", ex->spec->checkpoint_dir));
        else
            CS_TRY(cs_path(dir, err, "%s/ckpt", job_dir));
        const struct cs_ckpt_search search = {.is_deep = true, .on_skip = on_skip};
        CS_TRY(cs_ckpt_latest(dir, &search, &step, ex->ckpt_path, err));
    }
    CS_TRY(cs_ckpt_open(ex->ckpt_path, &ex->ckpt, err));
    /* the job may have been resumed under another layout since */
    const char *trained = cs_msg_str(cs_ckpt_info(ex->ckpt), "trained_hash", "");
    const char *hash = trained[0] ? trained : cs_msg_str(cs_ckpt_info(ex->ckpt), "spec_hash", "");
    if (hash[0] && strcmp(hash, trained[0] ? ex->spec->trained_hash : ex->spec->hash) != 0)
        return cs_fail(err, CS_INVALID, "%s belongs to another job than the spec.json beside it",
                       ex->ckpt_path);
    return CS_OK;
}

/* The model of a job that failed may not be worth it. */
static void warn(const char *job_dir)
{
    char path[CS_PATH_CAP];
    json_t *state = NULL;
    if (cs_path(path, NULL, "%s/state.json", job_dir) == CS_OK &&
        read_document(path, &state, NULL) == CS_OK &&
        cs_job_state_mood(cs_msg_str(state, "state", "")) == CS_MOOD_BAD)
        cs_say(stderr, "warning: the job is %s: %s\n", cs_msg_str(state, "state", ""),
               cs_msg_str(state, "reason", "no reason is known"));
    json_decref(state);
}

static enum cs_status export_all(struct exporter *ex, const char *job_dir, const char *ckpt,
                                 const char *dir, const struct cs_cmd_exporting *how,
                                 struct cs_buf *report, struct cs_err *err)
{
    const char *dtype = how->dtype;
    char spec_path[CS_PATH_CAP];
    CS_TRY(cs_export_try(dir, err)); /* before a checkpoint of any size is read */
    CS_TRY(cs_path(spec_path, err, "%s/spec.json", job_dir));
    CS_TRY(read_document(spec_path, &ex->document, err));
    CS_TRY(cs_spec_read(ex->document, ex->arena, &ex->spec, err));
    CS_TRY(cs_graph_build(ex->spec, true, ex->arena, &ex->graph, err));
    CS_TRY(open_checkpoint(ex, job_dir, ckpt, err));
    warn(job_dir);
    struct cs_export_report made;
    CS_TRY(cs_export_model(ex->spec, ex->graph, find_value, ex, dtype, dir, &made, err));
    cs_buf_addf(report, "wrote %s from %s (step %lld, %s)\n", dir, ex->ckpt_path,
                (long long)cs_ckpt_step(ex->ckpt), dtype);
    if (made.no_whole)
        cs_buf_addf(report, "no directory of the whole model: %s\n", made.no_whole);
    if (made.n_not_finite > 0)
        cs_buf_addf(report,
                    "warning: %d of %d tensors %s values that are no numbers (the first: %s); "
                    "nothing can be done with this model, export an earlier checkpoint\n",
                    made.n_not_finite, made.n_params, CS_NOUN(made.n_not_finite, "holds", "hold"),
                    made.not_finite);
    if (how->rows == NULL)
        return CS_OK;
    const struct cs_exported exported = {ex->document, ex->ckpt_path, dir,
                                         made.no_whole ? NULL : made.whole, dtype};
    return cs_cmd_verify_export(&exported, report, how->rows, err);
}

enum cs_status cs_cmd_export_dir(const char *job_dir, const char *ckpt, const char *dir,
                                 const struct cs_cmd_exporting *how, struct cs_buf *report,
                                 struct cs_err *err)
{
    struct exporter ex = {.arena = cs_arena_new(0)};
    enum cs_status status = export_all(&ex, job_dir, ckpt, dir, how, report, err);
    for (int i = 0; i < CS_MAX_MODULES; i++)
        cs_hfdir_close(ex.source[i]);
    cs_ckpt_close(ex.ckpt);
    cs_arena_free(ex.arena);
    json_decref(ex.document);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "export");
}
