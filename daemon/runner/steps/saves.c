/* Commits checkpoints: the ranks write their files, the last report makes the runner commit. A save
 * that fails is told and dropped; training goes on, and the checkpoints before it stay. */
#include "runner/steps/saves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "runner/job/resume.h"
#include "runner/state/records.h"
#include "runner/steps/watch.h"
#include "store/fsio.h"

static struct cs_save *find_save(struct cs_runner *r, int64_t step)
{
    struct cs_save **at = &r->saves;
    while (*at && (*at)->step != step)
        at = &(*at)->next;
    if (!*at) {
        *at = calloc(1, sizeof **at);
        CS_ASSERT(*at);
        (*at)->step = step;
    }
    return *at;
}

static void free_save(struct cs_save *save)
{
    json_decref(save->cursor);
    free(save->files);
    free(save);
}

static void drop_save(struct cs_runner *r, struct cs_save *save)
{
    struct cs_save **at = &r->saves;
    while (*at != save)
        at = &(*at)->next;
    *at = save->next;
    free_save(save);
}

void cs_save_expect(struct cs_runner *r, const struct cs_step_report *report)
{
    struct cs_save *save = find_save(r, report->step);
    json_decref(save->cursor);
    save->cursor = json_incref(report->cursor);
}

static json_t *trainer_of(const struct cs_runner *r, const struct cs_save *save)
{
    json_t *trainer = cs_doc_new("cornstarch.trainer/1");
    cs_msg_set_int(trainer, "step", save->step);
    cs_msg_set_int(trainer, "seed", (int64_t)r->job.spec->seed);
    cs_msg_set_int(trainer, "tokens", save->tokens);
    cs_msg_set_int(trainer, "samples", save->samples);
    cs_msg_set_int(trainer, "skipped", save->skipped);
    cs_msg_set_int(trainer, "generation", r->generation.id);
    cs_msg_set(trainer, "cursor", save->cursor ? json_incref(save->cursor) : json_null());
    cs_run_resume_describe(&r->job, r->generation.cluster.device->name, r->number, trainer);
    return trainer;
}

static void tell_failed(struct cs_runner *r, int64_t step, const char *why)
{
    cs_run_alarm(r, CS_ALERT_CHECKPOINT_FAILED, CS_ERROR, step,
                 "the checkpoint of step %lld failed, training goes on: %s", (long long)step, why);
}

/* The directory may have been taken away since: a new one is locked again, and it is said. */
static enum cs_status hold_dir(struct cs_runner *r, struct cs_err *err)
{
    struct cs_ckpt_dir *lock = &r->job.ckpt_lock;
    if (cs_ckpt_dir_is_there(lock))
        return CS_OK;
    cs_ckpt_dir_leave(lock);
    CS_TRY(cs_ckpt_dir_take(r->job.ckpt_dir, lock, err));
    cs_run_alarm(
        r, CS_ALERT_FILES_LOST, CS_ERROR, r->checkpoint_step,
        "%s was removed or replaced while the job ran: the checkpoints before this one are "
        "gone",
        r->job.ckpt_dir);
    return CS_OK;
}

static enum cs_status put(struct cs_runner *r, const struct cs_save *save, struct cs_err *err)
{
    const struct cs_ckpt_origin origin = {r->job.spec->hash,        r->job.spec->trained_hash,
                                          r->generation.plan->hash, r->generation.id,
                                          r->job.graph->params,     r->job.graph->n_params};
    if (!save->cursor)
        return cs_fail(err, CS_INTERNAL, "the feeder gave no data cursor");
    CS_TRY(hold_dir(r, err));
    json_t *trainer = trainer_of(r, save);
    const enum cs_status status = cs_ckpt_commit(r->job.ckpt_dir, save->step, &origin, trainer,
                                                 save->files, save->n_files, err);
    json_decref(trainer);
    return status;
}

static void tell_saved(struct cs_runner *r, const struct cs_save *save)
{
    uint64_t bytes = 0;
    int64_t n_nonfinite = 0;
    for (int i = 0; i < save->n_files; i++) {
        bytes += save->files[i].bytes;
        n_nonfinite += save->files[i].n_nonfinite;
    }
    cs_run_note(r, CS_INFO, "checkpoint of step %lld: %d file%s, %llu byte%s",
                (long long)save->step, save->n_files, CS_PLURAL(save->n_files),
                (unsigned long long)bytes, CS_PLURAL(bytes));
    if (n_nonfinite > 0)
        cs_run_alarm(r, CS_ALERT_NONFINITE_WEIGHTS, CS_ERROR, save->step,
                     "the checkpoint of step %lld holds %lld NaN or infinite elements; the newest "
                     "finite one stays, whatever checkpoint.keep says",
                     (long long)save->step, (long long)n_nonfinite);
}

static void commit(struct cs_runner *r, const struct cs_save *save)
{
    struct cs_err err = {0};
    if (put(r, save, &err) != CS_OK) {
        tell_failed(r, save->step, err.text);
        r->save_failure = err;
        return;
    }
    r->checkpoint_step = save->step;
    cs_watch_saved(r);
    tell_saved(r, save);
    cs_run_emit_state(r);
}

/* The other ranks' files of a save that failed: give the space back. */
static void remove_files(struct cs_runner *r, const struct cs_save *save)
{
    char path[CS_PATH_CAP + 48];
    struct cs_err err = {0};
    snprintf(path, sizeof path, "%s/ckpt-%lld.tmp", r->job.ckpt_dir, (long long)save->step);
    if (cs_fs_remove_tree(path, &err) != CS_OK)
        cs_run_note(r, CS_WARN, "a failed checkpoint stays behind: %s", err.text);
}

static void fail_save(struct cs_runner *r, const struct cs_save *save)
{
    remove_files(r, save);
    tell_failed(r, save->step, save->failure);
    (void)cs_fail(&r->save_failure, CS_IO, "%s", save->failure);
}

/* Is through when its step has been reported and every rank has spoken. */
static bool resolve(struct cs_runner *r, struct cs_save *save)
{
    struct cs_err err = {0};
    if (!save->is_step_done || save->n_saved + save->n_failed < r->generation.n_ranks)
        return false;
    if (save->n_failed)
        fail_save(r, save);
    else
        commit(r, save);
    drop_save(r, save);
    if (cs_ckpt_prune(r->job.ckpt_dir, r->job.spec->checkpoint_keep, r->checkpoint_step, &err) !=
        CS_OK)
        cs_run_note(r, CS_WARN, "old checkpoints cannot be removed: %s", err.text);
    return true;
}

bool cs_save_step_done(struct cs_runner *r, const struct cs_step_report *report)
{
    struct cs_save *save = find_save(r, report->step);
    save->is_step_done = true;
    save->tokens = r->tokens;
    save->samples = r->samples;
    save->skipped = r->skipped;
    return resolve(r, save);
}

static void add_files(struct cs_save *save, const json_t *files)
{
    size_t i;
    json_t *file;
    save->files = realloc(save->files, ((size_t)save->n_files + json_array_size(files) + 1) *
                                           sizeof *save->files);
    CS_ASSERT(save->files);
    json_array_foreach(files, i, file)
    {
        struct cs_ckpt_file *to = &save->files[save->n_files++];
        *to = (struct cs_ckpt_file){0};
        cs_str_copy(to->name, sizeof to->name, cs_msg_str(file, "path", ""));
        cs_str_copy(to->xxh3, sizeof to->xxh3, cs_msg_str(file, "hash", ""));
        to->bytes = (uint64_t)cs_msg_int(file, "bytes", 0);
        to->n_nonfinite = cs_msg_int(file, "nonfinite", 0);
    }
}

bool cs_save_reported(struct cs_runner *r, const json_t *msg, bool is_failed)
{
    struct cs_save *save = find_save(r, cs_msg_int(msg, "step", 0));
    if (is_failed) {
        const json_t *error = json_object_get(msg, "error");
        const char *text = json_is_string(error) ? json_string_value(error)
                                                 : cs_msg_str(error, "text", "no reason given");
        if (!save->n_failed)
            snprintf(save->failure, sizeof save->failure, "rank %lld: %s",
                     (long long)cs_msg_int(msg, "rank", -1), text);
        save->n_failed++;
    } else {
        add_files(save, cs_msg_arr(msg, "files"));
        save->n_saved++;
    }
    return resolve(r, save);
}

void cs_saves_abandon(struct cs_runner *r)
{
    while (r->saves) {
        struct cs_save *save = r->saves;
        snprintf(save->failure, sizeof save->failure, "%d of %d ranks reported their files",
                 save->n_saved, r->generation.n_ranks);
        fail_save(r, save);
        drop_save(r, save);
    }
}

void cs_saves_free(struct cs_runner *r)
{
    while (r->saves)
        drop_save(r, r->saves);
}

enum cs_status cs_saves_check_final(struct cs_runner *r, const char *path, struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    r->weights_hash[0] = '\0';
    CS_TRY(cs_ckpt_open(path, &ckpt, err));
    const long long n = (long long)cs_msg_int(cs_ckpt_info(ckpt), "nonfinite", 0);
    cs_ckpt_close(ckpt);
    if (n > 0)
        return cs_fail(err, CS_JOB_FAILED,
                       "the final checkpoint holds %lld NaN or infinite elements: the model is "
                       "broken; %lld of %lld updates skipped",
                       n, (long long)r->skipped, (long long)r->last_step + 1);
    if (cs_run_job_weights_hash(&r->job, path, r->weights_hash, err) == CS_OK)
        return CS_OK;
    r->weights_hash[0] = '\0';
    return cs_wrap(err, err->status, "the final checkpoint cannot be read back");
}
