/* Leads jobs through their life with their runners: adoption at a start of the daemon, the end of
 * children, the tick. */
#include "server/life/job_life.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "net/conn.h"
#include "server/life/ending.h"
#include "server/life/history.h"
#include "server/life/queue.h"
#include "server/life/removal.h"
#include "server/life/resume_check.h"
#include "server/life/runner_link.h"

static void child_ended(struct cs_job *job, int status)
{
    job->runner_pid = 0;
    if (job->link != NULL)
        cs_conn_drain(job->link);
    cs_conn_free(job->link);
    job->link = NULL;
    if (cs_job_is_live(job))
        cs_job_settle(job, status);
    else
        cs_job_import(job);
}

void cs_jobs_reap(struct cs_server *server)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < server->n_jobs; i++) {
            if (server->jobs[i]->runner_pid == pid)
                child_ended(server->jobs[i], status);
            else if (server->jobs[i]->check_pid == pid)
                cs_resume_check_ended(server->jobs[i], status);
            else
                continue;
            break;
        }
    cs_jobs_start_queued(server);
}

/* The history says that it is over, and somebody is at work in its directory: it is an old copy. A job
 * that waits may have its last runner still ending, and is left alone. */
static void adopt_running(struct cs_job *job)
{
    json_t *state = cs_job_read_state_file(job);
    const struct cs_job_state_row *row = cs_job_state_find(cs_msg_str(state, "state", ""));
    const bool is_live = row != NULL && row->phase == CS_PHASE_LIVE;
    job->row.ended_ns = 0;
    cs_job_set_state(job, &(struct cs_job_change){.state = is_live ? row->state : CS_STATE_STARTING,
                                                  .is_in_journal = is_live});
    json_decref(state);
}

enum cs_status cs_jobs_load(struct cs_server *server, struct cs_err *err)
{
    CS_TRY(cs_history_load(server, err));
    cs_removal_sweep(server);
    for (size_t i = 0; i < server->n_jobs; i++) {
        struct cs_job *job = server->jobs[i];
        cs_job_import(job); /* rows that came while nobody listened, also of jobs that have ended */
        if (cs_job_is_over(job) && cs_runner_is_alive(job))
            adopt_running(job);
        if (!cs_job_is_live(job))
            continue;
        job->deadline_ns = cs_now_ns();    /* a living runner answers, or holds its lock */
        if (job->row.stop != CS_STOP_NONE) /* the daemon before us may not have told it */
            cs_job_send_stop(job);
        cs_log(server->log, CS_INFO, "job.adopt", CS_KV("job", job->row.id));
        cs_runner_connect(job);
    }
    return CS_OK;
}

static void drain(struct cs_job *job)
{
    struct cs_err ignored;
    if (!job->is_pause_sent && cs_job_is(job, CS_STATE_RUN))
        job->is_pause_sent = cs_job_pause(job, &ignored) == CS_OK;
}

static void take_rows(struct cs_job *job)
{
    const int64_t before = job->row.journal_offset;
    cs_job_import(job);
    if (job->row.journal_offset != before)
        cs_job_publish(job);
}

void cs_jobs_tick(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs; i++) {
        struct cs_job *job = server->jobs[i];
        if (job->is_unsaved)
            cs_job_save(job);
        cs_job_notes_retry(job);
        cs_resume_check_tick(job);
        if (cs_job_is_live(job))
            cs_job_end_runner(job);
        if (cs_job_is_live(job) && !job->link)
            cs_runner_connect(job);
        if (cs_job_is_live(job) || job->is_behind)
            take_rows(job);
        if (cs_job_is_live(job) && server->is_draining)
            drain(job);
    }
    cs_jobs_start_queued(server);
}

void cs_jobs_free(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs; i++)
        cs_job_free(server->jobs[i]);
    free(server->jobs);
    server->jobs = NULL;
    server->n_jobs = 0;
}
