/* Asks the runner of a resting job whether it can go on, then carries the order out. */
#include "server/life/resume_check.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "server/callers/caller.h"
#include "server/life/ending.h"
#include "server/life/job_orders.h"
#include "server/life/queue.h"
#include "server/life/runner_start.h"

/* err NULL: it went through. The order is done with. */
static void answer(struct cs_job *job, const struct cs_err *err)
{
    json_decref(job->resume);
    job->resume = NULL;
    cs_callers_resumed(job->server, job->row.id, err);
}

static void carry_out(struct cs_job *job)
{
    struct cs_err err = {0};
    const struct cs_job_relayout how = {
        .spec = cs_msg_obj(job->resume, "spec"),
        .plan_hash = cs_msg_str(job->resume, "plan_hash", ""),
        .ranks = cs_msg_int(job->resume, "ranks", 0),
        .is_replan = cs_msg_bool(job->resume, "replan", false),
        .is_from_start = cs_msg_bool(job->resume, "from_start", false),
    };
    answer(job, cs_job_resume(job, &how, &err) == CS_OK ? NULL : &err);
}

void cs_resume_check_ended(struct cs_job *job, int status)
{
    char words[900];
    struct cs_err err = {0};
    job->check_pid = 0;
    if (job->resume == NULL)
        return; /* withdrawn */
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        carry_out(job);
        return;
    }
    if (cs_job_can_resume(job, &err) != CS_OK) { /* it was removed while its runner looked */
        answer(job, &err);
        return;
    }
    cs_job_last_words(job, "check.err", words, sizeof words);
    (void)cs_fail(&err, CS_REFUSED, "job %lld cannot go on: %s", (long long)job->row.id,
                  words[0] ? words : "its runner could not look; see logs/check.err");
    answer(job, &err);
}

void cs_resume_check_withdraw(struct cs_job *job)
{
    struct cs_err err = {0};
    if (job->resume == NULL)
        return;
    (void)cs_fail(&err, CS_STATE, "job %lld was stopped before it could resume",
                  (long long)job->row.id);
    answer(job, &err);
}

void cs_resume_check_tick(struct cs_job *job)
{
    struct cs_err err = {0};
    int lock_fd;
    if (job->resume == NULL || job->check_pid != 0 || job->runner_pid != 0 || job->link != NULL ||
        !cs_job_take_lock(job, &lock_fd))
        return;
    const struct cs_runner_start start = {
        .job = job->row.id, .dir = job->row.dir, .is_check = true, .lock_fd = lock_fd};
    cs_job_forget_words(job, "check.err");
    /* a directory that was removed since the order came is not made again */
    if (cs_job_can_resume(job, &err) != CS_OK ||
        cs_runner_start(&start, &job->check_pid, &err) != CS_OK)
        answer(job, &err);
    if (lock_fd != -1)
        close(lock_fd);
}

enum cs_status cs_resume_check_begin(struct cs_job *job, struct cs_caller *caller,
                                     const json_t *request, struct cs_err *err)
{
    CS_TRY(cs_job_can_resume(job, err));
    if (job->resume != NULL)
        return cs_fail(err, CS_STATE, "job %lld: whether it can resume is looked at already",
                       (long long)job->row.id);
    CS_TRY(cs_caller_wait(caller, request, job->row.id, err));
    job->resume = json_incref((json_t *)(uintptr_t)request);
    if (cs_msg_bool(request, "from_start", false))
        carry_out(job); /* nothing that is there matters */
    else
        cs_resume_check_tick(job);
    return CS_OK;
}
