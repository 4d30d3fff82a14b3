/* Leads a job through its life: STARTING until all are ready, RUN, then PAUSED, CANCELLED, DONE or
 * FAILED. Whatever ends it, the children end first and what they still say is taken. */
#include "runner/life.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "runner/processes/blame.h"
#include "runner/processes/children.h"
#include "runner/processes/guilt.h"
#include "runner/state/lost_files.h"
#include "runner/state/records.h"
#include "runner/steps/energy.h"
#include "runner/steps/live_board.h"
#include "runner/steps/past.h"
#include "runner/steps/saves.h"
#include "runner/steps/watch.h"
#include "runner/steps/weights.h"

static const struct timeval decide_time = {.tv_usec = 300000}, again_time = {.tv_usec = 100000},
                            grace_time = {.tv_sec = 2};

/* A rank that died while it saved, before anybody told the runner of the save, leaves a part. A
 * directory that could not be locked may hold what another job is writing. */
static void sweep_parts(struct cs_runner *r)
{
    struct cs_err err = {0};
    if (r->job.ckpt_lock.fd != -1 && cs_ckpt_dir_is_there(&r->job.ckpt_lock) &&
        cs_ckpt_clean(r->job.ckpt_dir, &err) != CS_OK)
        cs_run_note(r, CS_WARN, "parts of a checkpoint stay behind: %s", err.text);
}

void cs_life_finish(struct cs_runner *r, enum cs_job_state state, const char *reason)
{
    if (r->is_over)
        return;
    r->is_over = true;
    sweep_parts(r);
    cs_live_board_end(r);
    cs_run_sync(r);
    cs_run_set_state(r, state, reason);
    cs_run_sync_last(r);
    event_base_loopbreak(r->base);
}

/* Everybody shall end: politely, then not. */
static void end_children(struct cs_runner *r)
{
    cs_pool_stop(r->pool);
    cs_children_signal(r, SIGTERM);
    event_add(r->kill_timer, &grace_time);
}

static void on_kill_timer(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    struct cs_runner *r = user;
    cs_children_signal(r, r->is_finishing ? SIGTERM : SIGKILL);
    if (r->is_finishing) { /* a feeder that does not end by itself */
        r->is_finishing = false;
        event_add(r->kill_timer, &grace_time);
    }
}

void cs_life_fail(struct cs_runner *r, const struct cs_err *err)
{
    if (r->is_failing || r->is_stop_now || r->is_over)
        return;
    r->is_failing = true;
    r->failure = *err;
    cs_run_note(r, CS_ERROR, "%s", err->text);
    end_children(r);
    cs_life_check_end(r);
}

/* Nobody caused anything, or who did is known. */
static void decide(struct cs_runner *r)
{
    struct cs_err err = {0};
    if (cs_guilt_is_open(r, cs_now_ns() - r->trouble_ns)) {
        event_add(r->decide, &again_time);
        return;
    }
    r->trouble_ns = 0;
    if (cs_blame_decide(r, &err) != CS_OK)
        cs_life_fail(r, &err);
}

static bool is_ending(const struct cs_runner *r)
{
    return r->is_failing || r->is_stop_now || r->is_over || r->is_finishing;
}

static void on_decide(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    struct cs_runner *r = user;
    for (int i = 0; i <= r->generation.n_ranks; i++)
        cs_child_drain(&r->child[i]); /* what they have said by now counts */
    if (!is_ending(r))
        decide(r);
}

/* One death brings others within milliseconds, in any order: wait for them, then decide who was first. */
void cs_life_trouble(struct cs_runner *r)
{
    if (is_ending(r) || event_pending(r->decide, EV_TIMEOUT, NULL))
        return;
    r->trouble_ns = r->trouble_ns != 0 ? r->trouble_ns : cs_now_ns();
    event_add(r->decide, &decide_time);
}

static bool have_workers_finished(const struct cs_runner *r)
{
    for (int i = 0; i < r->generation.n_ranks; i++) {
        const struct cs_child *child = &r->child[i];
        if (!child->has_exited || !child->is_done || child->exit_code || child->signal)
            return false;
    }
    return true;
}

/* Why a job whose steps are all done is not DONE; of any job the last checkpoint is read back. */
static enum cs_status check_result(struct cs_runner *r, struct cs_err *err)
{
    char path[CS_PATH_CAP + 48];
    snprintf(path, sizeof path, "%s/ckpt-%lld", r->job.ckpt_dir, (long long)r->checkpoint_step);
    const bool is_complete = cs_run_is_complete(r);
    if (is_complete)
        CS_TRY(cs_watch_end(r, err));
    if (r->checkpoint_step >= 0)
        CS_TRY(cs_saves_check_final(r, path, err));
    if (!is_complete)
        return CS_OK;
    cs_lost_files_look(r);
    if (r->lost_files[0] != '\0')
        return cs_fail(err, CS_JOB_FAILED,
                       "all steps are done, but files of the job were removed meanwhile: %s; the "
                       "checkpoint of step %lld is whole and can be exported",
                       r->lost_files, (long long)r->checkpoint_step);
    return CS_OK;
}

static void finish_well(struct cs_runner *r)
{
    char text[1200];
    struct cs_err err = {0};
    cs_weights_write(r);
    if (r->checkpoint_step != r->last_step) {
        snprintf(text, sizeof text, "the final checkpoint of step %lld could not be written: %s",
                 (long long)r->last_step,
                 r->save_failure.text[0] ? r->save_failure.text : "the feeder asked for none");
        cs_life_finish(r, CS_STATE_FAILED, text);
        return;
    }
    const enum cs_status result = check_result(r, &err);
    snprintf(text, sizeof text, "%s after step %lld",
             r->state == CS_STATE_PAUSING ? "paused" : "stopped", (long long)r->last_step);
    if (result != CS_OK)
        cs_life_finish(r, CS_STATE_FAILED, err.text);
    else if (cs_run_is_complete(r))
        cs_life_finish(r, CS_STATE_DONE, NULL);
    else if (r->state == CS_STATE_STOPPING)
        cs_life_finish(r, CS_STATE_CANCELLED, text);
    else
        cs_life_finish(r, CS_STATE_PAUSED, text);
}

void cs_life_check_end(struct cs_runner *r)
{
    bool is_empty = cs_children_all_exited(r);
    if (r->is_over)
        return;
    if (r->is_failing) {
        if (is_empty)
            cs_life_finish(r, CS_STATE_FAILED, r->failure.text);
        return;
    }
    if (r->is_stop_now) {
        if (is_empty)
            cs_life_finish(r, CS_STATE_CANCELLED, "stopped without a checkpoint");
        return;
    }
    if (!have_workers_finished(r))
        return;
    cs_saves_abandon(r);
    event_del(r->decide);
    if (is_empty) {
        finish_well(r);
    } else if (!r->is_finishing) {
        r->is_finishing = true;
        event_add(r->kill_timer, &grace_time);
    }
}

void cs_life_ended(struct cs_child *child)
{
    if (child->exit_code != 0 || child->signal != 0 || !child->is_done)
        cs_life_trouble(child->runner);
    cs_life_check_end(child->runner);
}

static enum cs_status compare_programs(struct cs_runner *r, struct cs_err *err)
{
    for (int i = 1; i < r->generation.n_ranks; i++)
        if (strcmp(r->child[i].program_hash, r->child[0].program_hash) != 0)
            return cs_fail(err, CS_PLAN,
                           "rank %d lowered the plan to program %.12s, rank 0 to %.12s: are the "
                           "binaries of one version?",
                           i, r->child[i].program_hash, r->child[0].program_hash);
    if (r->generation.keys.program_hash[0] &&
        strcmp(r->generation.keys.program_hash, r->child[0].program_hash) != 0)
        cs_log(r->log, CS_WARN, "program.hash",
               CS_KV("runner", (const char *)r->generation.keys.program_hash),
               CS_KV("workers", (const char *)r->child[0].program_hash));
    return CS_OK;
}

void cs_life_ready(struct cs_runner *r)
{
    struct cs_err err = {0};
    for (int i = 0; i <= r->generation.n_ranks; i++)
        if (!r->child[i].is_ready)
            return;
    if (r->is_failing || r->is_stop_now)
        return;
    if (compare_programs(r, &err) != CS_OK) {
        cs_life_fail(r, &err);
        return;
    }
    r->go_ns = r->step_end_ns = cs_now_ns();
    cs_energy_begin(r);
    for (int i = 0; i < r->generation.n_ranks; i++)
        cs_child_send(&r->child[i], cs_msg_new("worker.go"));
    if (r->state == CS_STATE_STARTING)
        cs_run_set_state(r, CS_STATE_RUN, NULL);
}

static void ask_feeder(struct cs_runner *r, bool is_stop)
{
    json_t *msg = cs_msg_new("feeder.request");
    cs_msg_set_bool(msg, "checkpoint", true);
    cs_msg_set_bool(msg, "stop", is_stop);
    cs_child_send(&r->child[r->generation.n_ranks], msg);
}

void cs_life_ask_pause(struct cs_runner *r)
{
    if (r->is_stop_asked || r->is_failing || r->is_over)
        return;
    r->is_stop_asked = true;
    ask_feeder(r, true);
    cs_run_set_state(r, CS_STATE_PAUSING, "asked to pause");
}

void cs_life_ask_stop(struct cs_runner *r, bool is_now)
{
    if (r->is_failing || r->is_over || r->is_stop_now)
        return;
    if (!is_now && r->state == CS_STATE_STOPPING)
        return;
    if (!r->is_stop_asked && !is_now)
        ask_feeder(r, true);
    r->is_stop_asked = true;
    cs_run_set_state(r, CS_STATE_STOPPING, is_now ? "asked to stop now" : "asked to stop");
    if (is_now) {
        r->is_stop_now = true;
        end_children(r);
        cs_life_check_end(r);
    }
}

void cs_life_ask_checkpoint(struct cs_runner *r)
{
    if (!r->is_stop_asked && !r->is_failing && !r->is_over)
        ask_feeder(r, false);
}

enum cs_status cs_life_begin(struct cs_runner *r, struct cs_err *err)
{
    r->decide = evtimer_new(r->base, on_decide, r);
    r->kill_timer = evtimer_new(r->base, on_kill_timer, r);
    if (r->decide == NULL || r->kill_timer == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a timer");
    return CS_OK;
}

void cs_life_end(struct cs_runner *r)
{
    if (r->decide != NULL)
        event_free(r->decide);
    if (r->kill_timer != NULL)
        event_free(r->kill_timer);
}
