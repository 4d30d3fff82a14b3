/* Starts what waits, first come, first served. */
#include "server/life/queue.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "server/jobs/job_dir.h"
#include "server/life/ending.h"
#include "server/life/runner_link.h"
#include "server/life/runner_start.h"
#include "server/node/node.h"

enum { CONNECT_TIMEOUT_S = 20, SECOND_NS = 1000000000 };

bool cs_job_take_lock(const struct cs_job *job, int *fd)
{
    *fd = open(job->row.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd == -1 || flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    close(*fd);
    return false;
}

static enum cs_status start_runner(struct cs_job *job, int lock_fd, struct cs_err *err)
{
    const struct cs_here devices = cs_node_here(job->server);
    char socket[CS_PATH_CAP + 32], visible[4000], lease[8192], here[64];
    cs_runner_socket(job, socket, sizeof socket);
    cs_node_visible(job, visible, sizeof visible);
    cs_node_rank_devices(job, lease, sizeof lease);
    cs_here_print(&devices, here, sizeof here);
    const struct cs_runner_start start = {.job = job->row.id,
                                          .dir = job->row.dir,
                                          .socket = socket,
                                          .visible = visible,
                                          .lease = lease,
                                          .here = here,
                                          .lock_fd = lock_fd};
    return cs_runner_start(&start, &job->runner_pid, err);
}

/* STARTING is on disk before the fork: whatever happens to us, nobody starts a second runner. */
static void start(struct cs_job *job, int lock_fd)
{
    struct cs_err err;
    json_t *state = cs_job_read_state_file(job);
    job->row.generation = cs_msg_int(state, "generation", -1) + 1; /* as the runner counts */
    json_decref(state);
    job->deadline_ns = cs_now_ns() + (int64_t)CONNECT_TIMEOUT_S * SECOND_NS;
    job->retry_ns = 0;
    job->row.stop = CS_STOP_NONE;
    job->is_stop_untold = job->is_runner_ended = false;
    job->stop_by_ns = 0;
    job->is_pause_sent = false;
    json_decref(job->pids);
    job->pids = NULL;
    cs_node_lease(job);
    cs_job_forget_words(job, "runner.err");
    cs_job_set_state(job,
                     &(struct cs_job_change){.state = CS_STATE_STARTING, .is_in_journal = true});
    if (start_runner(job, lock_fd, &err) != CS_OK)
        cs_job_fail(job, err.text);
}

/* Says so once, and again when the figures change. */
static void tell_too_large(struct cs_job *job, int64_t offered)
{
    char reason[200];
    snprintf(reason, sizeof reason, "it needs %lld %s, this node offers %lld now",
             (long long)job->row.ranks, cs_job_is_on_gpus(job) ? "GPUs" : "CPU devices",
             (long long)offered);
    if (strcmp(reason, job->row.reason) != 0)
        cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_QUEUED, .reason = reason});
}

/* First come, first served: false when those behind it must wait. One that this node could never
 * take, since it was started with fewer devices, is passed by. */
static bool start_next(struct cs_job *job)
{
    struct cs_server *server = job->server;
    const bool is_gpu = cs_job_is_on_gpus(job);
    const int64_t offered = cs_node_offers(server, is_gpu);
    int lock_fd;
    if (job->runner_pid || job->link)
        return false;
    if (!cs_job_dir_is_there(&job->row)) {
        cs_job_fail_gone(job);
        return true;
    }
    if (job->row.ranks > offered) {
        tell_too_large(job, offered);
        return true;
    }
    /* the job's last runner may still be ending */
    if (cs_node_held(server, is_gpu) + job->row.ranks > offered || !cs_job_take_lock(job, &lock_fd))
        return false;
    start(job, lock_fd);
    if (lock_fd != -1)
        close(lock_fd);
    return true;
}

/* --- what a job in the queue waits for --------------------------------------------------------- */

struct line {
    int64_t place;              /* of the last one */
    const struct cs_job *first; /* that must start before those behind it; NULL: none waits */
};

/* "2 of 8 GPUs are free" */
static void say_free(const struct cs_job *job, char *out, size_t cap)
{
    const bool is_gpu = cs_job_is_on_gpus(job);
    const long long offered = (long long)cs_node_offers(job->server, is_gpu);
    const long long unused = offered - (long long)cs_node_held(job->server, is_gpu);
    snprintf(out, cap, "it needs %lld %s%s, %lld of %lld %s free", (long long)job->row.ranks,
             is_gpu ? "GPU" : "CPU rank", CS_PLURAL(job->row.ranks), unused, offered,
             CS_NOUN(unused, "is", "are"));
}

static void describe(const struct cs_job *job, const struct line *line, char *out, size_t cap)
{
    char unused[120];
    say_free(job, unused, sizeof unused);
    if (job->server->is_draining)
        snprintf(out, cap, "the daemon is draining: 'daemon undrain' lets jobs start again");
    else if (line->first != job)
        snprintf(out, cap, "behind job %lld; %s", (long long)line->first->row.id, unused);
    else if (job->runner_pid || job->link)
        snprintf(out, cap, "its last runner still ends");
    else
        snprintf(out, cap, "%s", unused);
}

static void set_place(struct cs_job *job, int64_t place, const char *waits)
{
    if (job->place == place && strcmp(job->waits, waits) == 0)
        return;
    job->place = place;
    cs_str_copy(job->waits, sizeof job->waits, waits);
    if (cs_job_is(job, CS_STATE_QUEUED))
        cs_job_publish(job);
}

/* A job that is too large for the node has no place: the others pass it by. */
static void tell_places(struct cs_server *server)
{
    struct line line = {0};
    for (size_t i = 0; i < server->n_jobs; i++) {
        struct cs_job *job = server->jobs[i];
        char waits[sizeof job->waits] = "";
        const bool is_in_line = cs_job_is(job, CS_STATE_QUEUED) && job->row.reason[0] == '\0';
        if (is_in_line && line.first == NULL)
            line.first = job;
        if (is_in_line)
            describe(job, &line, waits, sizeof waits);
        set_place(job, is_in_line ? ++line.place : 0, waits);
    }
}

void cs_jobs_start_queued(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs && !server->is_draining && !server->is_stopping; i++)
        if (cs_job_is(server->jobs[i], CS_STATE_QUEUED) && !start_next(server->jobs[i]))
            break;
    tell_places(server);
}
