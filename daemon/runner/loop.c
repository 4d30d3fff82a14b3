/* Runs a job: reads it, opens its files and sockets, starts its processes, turns the event loop. */
#include "runner/runner.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/base/system/cores.h"
#include "core/base/units.h"
#include "core/data/data_threads.h"
#include "core/wire/wire.h"
#include "runner/control.h"
#include "runner/job/resume.h"
#include "runner/life.h"
#include "runner/messages.h"
#include "runner/processes/children.h"
#include "runner/processes/lost_ranks.h"
#include "runner/processes/memory.h"
#include "runner/state/alarms.h"
#include "runner/state/lost_files.h"
#include "runner/state/records.h"
#include "runner/steps/energy.h"
#include "runner/steps/events.h"
#include "runner/steps/live_board.h"
#include "runner/steps/past.h"
#include "runner/steps/predict.h"
#include "runner/steps/saves.h"
#include "runner/steps/step_reports.h"
#include "runner/steps/watch.h"

static const struct timeval tick_time = {.tv_usec = 100000}, second_time = {.tv_sec = 1};

static void on_signal(evutil_socket_t number, short what, void *user)
{
    (void)what;
    struct cs_runner *r = user;
    r->n_signals++;
    if (number == SIGINT && r->n_signals > 1)
        cs_life_ask_stop(r, true);
    else
        cs_life_ask_pause(r); /* repeated: the first one holds */
}

static void on_look(evutil_socket_t number, short what, void *user)
{
    (void)number;
    (void)what;
    cs_control_look(user);
}

static void on_tick(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    cs_events_drain(user);
}

static void on_second(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    struct cs_runner *r = user;
    cs_run_sync(r);
    cs_control_look(r);
    if (!r->is_over)
        cs_lost_files_look(r);
    cs_run_keep_state(r);
    struct cs_err err = {0};
    if (!r->is_failing && !r->is_stop_now && !r->is_over && cs_lost_ranks_look(r, &err) != CS_OK)
        cs_life_fail(r, &err);
}

static enum cs_status make_loop(struct cs_runner *r, struct cs_err *err)
{
    struct event_config *config = event_config_new();
    r->base = config ? event_base_new_with_config(config) : NULL;
    if (config)
        event_config_free(config);
    if (!r->base)
        return cs_fail(err, CS_INTERNAL, "cannot make an event loop");
    r->tick = event_new(r->base, -1, EV_PERSIST, on_tick, r);
    r->second = event_new(r->base, -1, EV_PERSIST, on_second, r);
    r->sigterm = evsignal_new(r->base, SIGTERM, on_signal, r);
    r->sigint = evsignal_new(r->base, SIGINT, on_signal, r);
    r->sigusr1 = evsignal_new(r->base, SIGUSR1, on_look, r);
    event_add(r->tick, &tick_time);
    event_add(r->second, &second_time);
    r->looked_ns = cs_now_ns();
    event_add(r->sigterm, NULL);
    event_add(r->sigint, NULL);
    event_add(r->sigusr1, NULL);
    return cs_life_begin(r, err);
}

static void free_loop(struct cs_runner *r)
{
    cs_life_end(r);
    struct event *all[] = {r->tick, r->second, r->sigterm, r->sigint, r->sigusr1};
    for (size_t i = 0; i < CS_ARRAY_LEN(all); i++)
        if (all[i])
            event_free(all[i]);
    if (r->base)
        event_base_free(r->base);
}

/* The launcher may go now; without a terminal nobody reads our output any more. */
static void tell_started(struct cs_runner *r)
{
    if (r->options->started_fd != -1) {
        if (cs_write_all(r->options->started_fd, "", 1, NULL) != CS_OK)
            cs_log(r->log, CS_WARN, "started", CS_KV("text", "the launcher is gone"));
        close(r->options->started_fd);
    }
    if (r->options->is_foreground)
        return;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null != -1; fd++)
        dup2(null, fd);
    if (null != -1)
        close(null);
}

static enum cs_status open_files(struct cs_runner *r, struct cs_err *err)
{
    char path[CS_PATH_CAP + 32];
    const struct cs_plan *plan = r->generation.plan;
    snprintf(path, sizeof path, "%s/journal", r->job.dir);
    CS_TRY(cs_journal_open(path, &r->journal, err));
    struct cs_trace_stage *stage =
        CS_NEW_ARRAY(r->job.arena, struct cs_trace_stage, plan->n_stages);
    for (int s = 0; s < plan->n_stages; s++) {
        cs_str_copy(stage[s].name, sizeof stage[s].name, plan->stages[s].name);
        stage[s].rank = cs_plan_rank(plan, s, (struct cs_rank_at){0});
    }
    struct cs_trace_head head = {.generation = (int32_t)r->generation.id,
                                 .n_ranks = cs_plan_world(plan),
                                 .n_stages = plan->n_stages,
                                 .slots = plan->slots,
                                 .predicted_ns = plan->predicted_step_ns,
                                 .stage = stage,
                                 .n_nodes = 1,
                                 .node = &r->node};
    cs_str_copy(head.spec_hash, sizeof head.spec_hash, r->job.spec->hash);
    cs_str_copy(head.plan_hash, sizeof head.plan_hash, plan->hash);
    snprintf(path, sizeof path, "%s/trace", r->job.dir);
    CS_TRY(cs_tracelog_open(path, &head, 200, &r->trace, err));
    return cs_run_predict(r, err);
}

static enum cs_status prepare(struct cs_runner *r, struct cs_err *err)
{
    r->cores = cs_usable_cores();
    r->data_threads = cs_data_threads(r->job.spec->data_threads, r->generation.device[0].is_gpu,
                                      r->generation.n_ranks, r->cores);
    r->predicted_step_ns = r->generation.plan->predicted_step_ns;
    r->last_step = r->job.first_step - 1;
    r->checkpoint_step = r->job.checkpoint_step;
    r->tokens = r->job.tokens;
    r->samples = r->job.samples;
    r->skipped = r->job.skipped;
    cs_run_alarms_read(r);
    if (gethostname(r->node.name, sizeof r->node.name - 1) == -1)
        return cs_fail_errno(err, "the name of this node is not known");
    r->child = calloc((size_t)r->generation.n_ranks + 1, sizeof *r->child);
    CS_ASSERT(r->child);
    for (int i = 0; i <= r->generation.n_ranks; i++)
        r->child[i] = (struct cs_child){.runner = r,
                                        .rank = i < r->generation.n_ranks ? i : -1,
                                        .pidfd = -1,
                                        .log_fd = -1,
                                        .error_step = -1};
    return CS_OK;
}

/* Where the job goes on, and every checkpoint that it does not go on from. */
static void tell_resume(struct cs_runner *r)
{
    const struct cs_run_job *job = &r->job;
    for (int i = 0; i < job->n_skips; i++)
        cs_run_alarm(r, CS_ALERT_CHECKPOINT_SKIPPED, CS_WARN, job->skips[i].step,
                     "the checkpoint of step %lld is not used: %s%s", (long long)job->skips[i].step,
                     job->skips[i].text,
                     job->skips[i].status == CS_CORRUPT ? "; it is kept as .bad" : "");
    if (job->room_warning[0])
        cs_run_note(r, CS_WARN, "%s", job->room_warning);
    if (job->n_before > 0)
        cs_run_note(r, CS_WARN, "beginning anew: %d %s put aside in %s", job->n_before,
                    CS_NOUN(job->n_before, "checkpoint was", "checkpoints were"), job->ckpt_dir);
    if (job->resume[0] && job->from_job > 0 && job->from_job != r->number)
        cs_run_note(r, CS_WARN, "going on from the checkpoint of step %lld, which job %lld wrote",
                    (long long)job->checkpoint_step, (long long)job->from_job);
    else if (job->resume[0])
        cs_run_note(r, CS_INFO, "going on from the checkpoint of step %lld",
                    (long long)job->checkpoint_step);
}

static const struct cs_child_calls child_calls = {cs_child_message, cs_life_ended};

static enum cs_status start(struct cs_runner *r, struct cs_err *err)
{
    CS_TRY(prepare(r, err));
    CS_TRY(make_loop(r, err));
    CS_TRY(open_files(r, err));
    CS_TRY(cs_lost_files_begin(r, err));
    CS_TRY(cs_control_open(r, err));
    cs_run_set_state(r, CS_STATE_STARTING, NULL);
    CS_TRY(cs_run_resume_settle(&r->job, err));
    tell_resume(r);
    CS_TRY(cs_past_read(r, err));
    if (cs_run_is_complete(r) && cs_past_has_weights(r)) {
        CS_TRY(cs_watch_end(r, err));
        CS_TRY(cs_saves_check_final(r, r->job.resume, err));
        cs_life_finish(r, CS_STATE_DONE, "all steps were done already");
        return CS_OK;
    }
    if (r->is_eval_first)
        cs_run_note(r, CS_INFO, "the evaluation of step %lld is still to be made",
                    (long long)r->last_step);
    else if (cs_run_is_complete(r))
        cs_run_note(r, CS_INFO, "all steps are done, weights.json is still to be written");
    if (cs_ckpt_prune(r->job.ckpt_dir, r->job.spec->checkpoint_keep, r->job.checkpoint_step, err) !=
        CS_OK)
        cs_run_note(r, CS_WARN, "old checkpoints cannot be removed: %s", err->text);
    r->calls = &child_calls;
    return cs_children_start(r, err);
}

/* The number of a job is its directory's name. */
static int64_t number_of(const struct cs_runner_options *options, const char *dir)
{
    int64_t number = 0;
    const char *slash = strrchr(dir, '/');
    if (options->job > 0)
        return options->job;
    return slash && cs_str_to_i64(slash + 1, &number) && number > 0 ? number : 0;
}

static enum cs_status run(struct cs_runner *r, struct cs_err *err)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a full file is an error value */
    CS_TRY(cs_run_job_open(r->options->job_dir, &r->job, err));
    CS_TRY(cs_run_resume_find(&r->job, err));
    CS_TRY(cs_run_generation_make(&r->job, &r->options->members, r->options->is_replan,
                                  &r->generation, err));
    r->number = number_of(r->options, r->job.dir);
    enum cs_status status = start(r, err);
    if (status != CS_OK) {
        if (r->journal)
            cs_run_set_state(r, CS_STATE_FAILED, err->text);
        return status;
    }
    tell_started(r);
    if (!r->is_over)
        event_base_dispatch(r->base);
    if (r->state == CS_STATE_FAILED)
        return cs_fail(err, CS_JOB_FAILED, "%s", r->reason);
    return CS_OK;
}

static enum cs_status open_log(struct cs_runner *r, int *log_fd, struct cs_err *err)
{
    char dir[CS_PATH_CAP], path[CS_PATH_CAP + 16];
    CS_TRY(cs_path(dir, err, "%s/logs", r->options->job_dir));
    if (access(r->options->job_dir, W_OK | X_OK) == -1)
        return cs_fail_errno(err, "job directory %s", r->options->job_dir);
    CS_TRY(cs_mkdirs(dir, err));
    snprintf(path, sizeof path, "%s/runner.log", dir);
    *log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (*log_fd == -1)
        return cs_fail_errno(err, "cannot open %s", path);
    r->log = cs_log_new("cornstarch-runner");
    CS_TRY(cs_log_to_fd(r->log, *log_fd, CS_LOG_TEXT, CS_INFO));
    CS_TRY(cs_log_to_fn(r->log, cs_run_on_log, r, CS_LOG_TEXT, CS_INFO));
    return r->options->is_foreground ? cs_log_to_fd(r->log, 2, CS_LOG_TEXT, CS_INFO) : CS_OK;
}

enum cs_status cs_runner_check(const char *job_dir, struct cs_err *err)
{
    struct cs_run_job job;
    signal(SIGXFSZ, SIG_IGN);
    enum cs_status status = cs_run_job_open(job_dir, &job, err);
    if (status == CS_OK)
        status = cs_run_resume_find(&job, err);
    cs_run_job_close(&job);
    return status;
}

enum cs_status cs_runner_run(const struct cs_runner_options *options, struct cs_err *err)
{
    struct cs_runner *r = calloc(1, sizeof *r);
    CS_ASSERT(r);
    int log_fd = -1;
    *r = (struct cs_runner){.options = options,
                            .pool_fd = -1,
                            .exact_match = (double)NAN,
                            .checkpoint_step = -1,
                            .evaluated_step = -1,
                            .last_step = -1};
    enum cs_status status = open_log(r, &log_fd, err);
    if (status == CS_OK)
        status = run(r, err);
    if (status != CS_OK && r->log)
        cs_log(r->log, CS_ERROR, "end", CS_KV("text", (const char *)err->text));
    cs_live_board_end(r);
    cs_control_close(r);
    cs_children_free(r);
    cs_memory_free(r);
    free(r->child);
    cs_step_reports_free(r);
    cs_saves_free(r);
    cs_energy_end(r);
    free_loop(r);
    cs_journal_close(r->journal);
    cs_tracelog_close(r->trace);
    json_decref(r->culprit);
    json_decref(r->weights);
    cs_run_generation_end(&r->generation);
    cs_run_job_close(&r->job);
    cs_log_free(r->log);
    if (log_fd != -1)
        close(log_fd);
    free(r);
    return status;
}
