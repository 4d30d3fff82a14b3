/* Removes jobs: directory, history, memory. */
#include "server/life/removal.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "core/wire/wire.h"
#include "server/callers/caller.h"
#include "server/jobs/job_dir.h"
#include "server/life/ending.h"
#include "store/fsio.h"

static const char suffix[] = ".gone";

static bool is_gone(const char *name)
{
    const size_t n = strlen(name), digits = strspn(name, "0123456789");
    return digits > 0 && n == digits + sizeof suffix - 1 && strcmp(name + digits, suffix) == 0;
}

/* Everything with our suffix below a path, which is freed. */
static void *sweep(void *user)
{
    char *jobs = user, path[CS_PATH_CAP];
    DIR *dir = opendir(jobs);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (is_gone(e->d_name) && cs_path(path, NULL, "%s/%s", jobs, e->d_name) == CS_OK)
            (void)!cs_fs_remove_tree(path, NULL); /* what stays is tried at the next start */
    if (dir)
        closedir(dir);
    free(jobs);
    return NULL;
}

void cs_removal_sweep(const struct cs_server *server)
{
    char path[CS_PATH_CAP];
    pthread_t thread;
    if (cs_path(path, NULL, "%s/jobs", server->state_dir) != CS_OK)
        return;
    char *jobs = strdup(path);
    CS_ASSERT(jobs != NULL);
    if (pthread_create(&thread, NULL, sweep, jobs) == 0)
        pthread_detach(thread);
    else
        sweep(jobs);
}

static void forget(struct cs_job *job)
{
    struct cs_server *server = job->server;
    for (size_t i = 0; i < server->n_jobs; i++)
        if (server->jobs[i] == job) {
            memmove(&server->jobs[i], &server->jobs[i + 1],
                    (server->n_jobs - i - 1) * sizeof(struct cs_job *));
            server->n_jobs--;
            break;
        }
    cs_job_free(job);
}

static void tell_gone(struct cs_server *server, int64_t id)
{
    json_t *message = cs_msg_new("event.gone");
    cs_msg_set_int(message, "job", id);
    cs_publish(server, CS_CLASS_EVENT, id, message);
    json_decref(message);
}

static enum cs_status set_aside(const struct cs_job *job, struct cs_err *err)
{
    char gone[CS_PATH_CAP];
    CS_TRY(cs_path(gone, err, "%s%s", job->row.dir, suffix));
    if (rename(job->row.dir, gone) == 0 ||
        errno == ENOENT) /* somebody may have removed it by hand */
        return CS_OK;
    return cs_fail_errno(err, "removing %s", job->row.dir);
}

/* The history goes first: a directory without one is taken in again at the next start, so that a job
 * that could not be removed whole is there whole. */
enum cs_status cs_job_remove(struct cs_job *job, struct cs_err *err)
{
    struct cs_server *server = job->server;
    const int64_t id = job->row.id;
    CS_TRY(cs_job_allow(job, CS_ORDER_REMOVE, "be removed", err));
    if (job->runner_pid || job->link || job->resume || cs_runner_is_alive(job))
        return cs_fail(err, CS_STATE, "the last runner of job %lld still ends; try again",
                       (long long)id);
    CS_TRY(cs_db_job_remove(server->db, id, err));
    enum cs_status status = set_aside(job, err);
    if (status != CS_OK) {
        job->row.journal_offset = 0; /* its steps are imported again */
        cs_job_save(job);
        cs_job_import(job);
        return status;
    }
    cs_log(server->log, CS_INFO, "job.removed", CS_KV("job", id));
    forget(job);
    tell_gone(server, id);
    cs_removal_sweep(server);
    return CS_OK;
}
