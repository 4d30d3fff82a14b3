/* Finds the checkpoint to go on from, and refuses what would train on something else. */
#include "runner/job/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "runner/job/inputs.h"
#include "store/ckpt/checkpoint.h"
#include "store/ckpt/ckpt_training.h"

static const char from_start_text[] = "'cornstarch-console resume ID --from-start' begins anew at "
                                      "step 0 and puts aside what is there";

static bool is_from_start(const struct cs_run_job *job)
{
    char path[CS_PATH_CAP + 16];
    snprintf(path, sizeof path, "%s/" CS_RUN_FROM_START, job->dir);
    return access(path, F_OK) == 0;
}

/* --- finding ---------------------------------------------------------------------------------- */

static void add_skip(struct cs_run_job *job, int64_t step, enum cs_status status, const char *text)
{
    struct cs_run_skip *more = CS_NEW_ARRAY(job->arena, struct cs_run_skip, job->n_skips + 1);
    if (job->n_skips > 0)
        memcpy(more, job->skips, (size_t)job->n_skips * sizeof *more);
    more[job->n_skips] = (struct cs_run_skip){.step = step, .status = status};
    snprintf(more[job->n_skips].text, sizeof more[0].text, "%.690s", text);
    job->skips = more;
    job->n_skips++;
}

static void on_skip(void *user, int64_t step, const struct cs_err *why)
{
    add_skip(user, step, why->status, why->text);
}

static enum cs_status accept(void *user, const struct cs_ckpt *ckpt, struct cs_err *err)
{
    const struct cs_run_job *job = user;
    const json_t *info = cs_ckpt_info(ckpt);
    if (cs_msg_obj(cs_ckpt_trainer(ckpt), "cursor") == NULL)
        return cs_fail(
            err, CS_CORRUPT,
            "its trainer.json holds no data cursor: going on from it would repeat samples");
    /* one of another training may lack parameters of this: that is refused, not skipped */
    if (strcmp(cs_msg_str(info, "trained_hash", ""), job->spec->trained_hash) != 0)
        return CS_OK;
    return cs_ckpt_check_whole(ckpt, job->graph->params, job->graph->n_params, err);
}

/* The step of the newest checkpoint that the job has told of, -1 none. */
static int64_t promised_step(const struct cs_run_job *job)
{
    json_t *state = NULL;
    int64_t step = -1;
    if (cs_run_job_document(job, "state.json", &state, NULL) == CS_OK)
        step = cs_msg_int(state, "checkpoint_step", -1);
    json_decref(state);
    return step;
}

static enum cs_status find_newest(struct cs_run_job *job, struct cs_err *err)
{
    const struct cs_ckpt_search search = {true, accept, on_skip, job};
    const int64_t promised = promised_step(job);
    int64_t step = -1;
    struct cs_err why = {0};
    const enum cs_status status = cs_ckpt_latest(job->ckpt_dir, &search, &step, job->resume, &why);
    if (status != CS_OK)
        job->resume[0] = '\0';
    if (status == CS_NOT_FOUND && promised < 0)
        return CS_OK;
    if (status == CS_NOT_FOUND)
        return cs_fail(
            err, CS_REFUSED,
            "the job has written a checkpoint of step %lld and %.500s holds none now: put "
            "it back, or %s",
            (long long)promised, job->ckpt_dir, from_start_text);
    if (status == CS_CORRUPT)
        return cs_fail(err, CS_REFUSED, "%.750s; %s", why.text, from_start_text);
    if (status != CS_OK)
        return cs_fail(err, status, "%s", why.text);
    job->checkpoint_step = step;
    if (promised > step && (job->n_skips == 0 || job->skips[0].step < promised))
        add_skip(job, promised, CS_NOT_FOUND, "it is not there any more");
    return CS_OK;
}

/* --- what it is of ---------------------------------------------------------------------------- */

static enum cs_status check_training(const struct cs_run_job *job, const struct cs_ckpt *ckpt,
                                     struct cs_err *err)
{
    struct cs_err why = {0};
    if (cs_ckpt_check_training(ckpt, job->ckpt_dir, job->spec, job->spec_json, &why) == CS_OK)
        return CS_OK;
    return cs_fail(err, CS_REFUSED, "%.780s; or %s", why.text, from_start_text);
}

static enum cs_status check_inputs(const struct cs_run_job *job, const struct cs_ckpt *ckpt,
                                   struct cs_err *err)
{
    const json_t *then = json_object_get(cs_ckpt_trainer(ckpt), "inputs");
    struct cs_err why = {0};
    if (cs_run_inputs_compare(then, job->inputs, &why) == CS_OK)
        return CS_OK;
    return cs_fail(err, CS_REFUSED, "%.750s. Put the old one back; or %s", why.text,
                   from_start_text);
}

static void take(struct cs_run_job *job, const json_t *trainer)
{
    const char *precision = cs_msg_str(trainer, "precision", "");
    job->first_step = job->checkpoint_step + 1;
    job->cursor = json_deep_copy(cs_msg_obj(trainer, "cursor"));
    job->tokens = cs_msg_int(trainer, "tokens", 0);
    job->samples = cs_msg_int(trainer, "samples", 0);
    job->skipped = cs_msg_int(trainer, "skipped", 0);
    job->from_job = cs_msg_int(trainer, "job", 0);
    /* what devices usually compute in may be another on these */
    if (job->spec->precision[0] == '\0' && precision[0] != '\0')
        job->spec->precision = cs_arena_strdup(job->arena, precision);
}

static enum cs_status take_checkpoint(struct cs_run_job *job, struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_ckpt_open(job->resume, &ckpt, err));
    enum cs_status status = check_training(job, ckpt, err);
    if (status == CS_OK)
        status = check_inputs(job, ckpt, err);
    if (status == CS_OK)
        take(job, cs_ckpt_trainer(ckpt));
    cs_ckpt_close(ckpt);
    return status;
}

enum cs_status cs_run_resume_find(struct cs_run_job *job, struct cs_err *err)
{
    const struct cs_graph *graph = job->graph;
    job->checkpoint_step = -1;
    CS_TRY(cs_ckpt_dir_take(job->ckpt_dir, &job->ckpt_lock, err));
    CS_TRY(cs_ckpt_clean(job->ckpt_dir, err));
    CS_TRY(cs_run_inputs_read(job->spec, graph, &job->inputs, err));
    if (!is_from_start(job)) {
        CS_TRY(find_newest(job, err));
        if (job->resume[0] != '\0')
            CS_TRY(take_checkpoint(job, err));
    }
    return cs_ckpt_room(job->ckpt_dir, cs_ckpt_bytes(graph->params, graph->n_params),
                        job->spec->checkpoint_keep, job->resume[0] != '\0' ? 1 : 0,
                        job->room_warning, err);
}

/* --- carrying it out -------------------------------------------------------------------------- */

static enum cs_status begin_anew(struct cs_run_job *job, struct cs_err *err)
{
    char path[CS_PATH_CAP + 16];
    CS_TRY(cs_ckpt_begin_anew(job->ckpt_dir, &job->n_before, err));
    snprintf(path, sizeof path, "%s/" CS_RUN_FROM_START, job->dir);
    return unlink(path) == -1 ? cs_fail_errno(err, "cannot remove %s", path) : CS_OK;
}

enum cs_status cs_run_resume_settle(struct cs_run_job *job, struct cs_err *err)
{
    if (is_from_start(job))
        return begin_anew(job, err);
    for (int i = 0; i < job->n_skips; i++)
        if (job->skips[i].status == CS_CORRUPT)
            CS_TRY(cs_ckpt_set_aside(job->ckpt_dir, job->skips[i].step, err));
    return CS_OK;
}

void cs_run_resume_describe(const struct cs_run_job *job, const char *device, int64_t number,
                            json_t *trainer)
{
    const char *usual = strcmp(device, "cpu") == 0 ? "fp32" : "bf16";
    cs_msg_set(trainer, "trained", cs_spec_trained(job->spec_json));
    if (job->inputs != NULL)
        cs_msg_set(trainer, "inputs", json_incref(job->inputs));
    cs_msg_set_str(trainer, "precision", job->spec->precision[0] ? job->spec->precision : usual);
    if (number > 0)
        cs_msg_set_int(trainer, "job", number);
}
