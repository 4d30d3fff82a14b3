/* Orders of consoles: submit, resume, stop, checkpoint. Each is checked against the job's state,
 * then recorded or passed on to its runner. */
#include "server/life/job_orders.h"

#include <stdio.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/model/spec.h"
#include "core/wire/wire.h"
#include "server/jobs/job_dir.h"
#include "server/life/job_spec.h"
#include "server/life/queue.h"
#include "server/life/runner_link.h"

enum cs_status cs_job_checkpoint(struct cs_job *job, struct cs_err *err)
{
    CS_TRY(cs_job_allow(job, CS_ORDER_CHECKPOINT, "write a checkpoint", err));
    return cs_job_tell(job, cs_msg_new("runner.checkpoint"), err);
}

enum cs_status cs_job_can_resume(const struct cs_job *job, struct cs_err *err)
{
    CS_TRY(cs_job_allow(job, CS_ORDER_RESUME, "resume", err));
    if (job->server->is_draining)
        return cs_fail(err, CS_REFUSED, "the daemon is draining and starts no jobs");
    if (!cs_job_dir_is_there(&job->row))
        return cs_fail(err, CS_NOT_FOUND,
                       "the directory %.900s of job %lld was removed: there is nothing to resume; "
                       "submit the job again",
                       job->row.dir, (long long)job->row.id);
    return CS_OK;
}

enum cs_status cs_job_resume(struct cs_job *job, const struct cs_job_relayout *how,
                             struct cs_err *err)
{
    CS_TRY(cs_job_can_resume(job, err));
    CS_TRY(cs_job_spec_change(job, how, err));
    CS_TRY(cs_job_spec_begin(job, how->is_from_start, err));
    cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_QUEUED});
    cs_jobs_start_queued(job->server);
    return CS_OK;
}

/* It is on disk before it is answered: a daemon after this one tells a runner that has not heard of it. */
enum cs_status cs_job_stop(struct cs_job *job, bool now, struct cs_err *err)
{
    CS_TRY(cs_job_allow(job, CS_ORDER_STOP, "stop", err));
    if (!cs_job_is_live(job)) {
        cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_CANCELLED,
                                                      .reason = "stopped on request"});
        cs_jobs_start_queued(job->server); /* those behind it move up */
        return CS_OK;
    }
    job->row.stop = now ? CS_STOP_NOW : CS_STOP_SAVING;
    cs_job_save(job);
    cs_job_send_stop(job);
    return CS_OK;
}

/* What a daemon knows of a job that was just handed in. */
static enum cs_status make_row(const struct cs_server *server, const struct cs_submit *submit,
                               const json_t *document, struct cs_job_row *row, struct cs_err *err)
{
    struct cs_spec *spec;
    struct cs_arena *arena = cs_arena_new(0);
    cs_row_init(row);
    enum cs_status status = cs_spec_read(document, arena, &spec, err);
    if (status == CS_OK)
        status = cs_job_spec_take(server, spec, submit->ranks, row, err);
    if (status == CS_OK) {
        snprintf(row->name, sizeof(row->name), "%s", spec->name);
        snprintf(row->state, sizeof(row->state), "%s", cs_job_state_row(CS_STATE_QUEUED)->name);
        snprintf(row->owner, sizeof(row->owner), "%s", submit->owner);
        row->steps = spec->steps;
        row->submitted_ns = cs_wall_ns();
        status = cs_job_label(row, &submit->labels, err);
    }
    cs_arena_free(arena);
    return status;
}

/* The directory is the job; a history that cannot take it takes it back. */
static enum cs_status keep(struct cs_server *server, struct cs_job_row *row, const json_t *document,
                           struct cs_err *err)
{
    CS_TRY(cs_job_dir_make(server, row, document, err));
    enum cs_status status = cs_db_job_put(server->db, row, true, err);
    if (status != CS_OK)
        cs_job_dir_remove(row);
    return status;
}

enum cs_status cs_job_submit(struct cs_server *server, const struct cs_submit *submit, int64_t *id,
                             struct cs_err *err)
{
    struct cs_job_row row;
    if (server->is_draining)
        return cs_fail(err, CS_REFUSED, "the daemon is draining and takes no jobs");
    json_t *copy = json_copy((json_t *)(uintptr_t)submit->spec);
    CS_ASSERT(copy != NULL);
    cs_job_spec_expect(copy, submit->plan_hash, submit->is_replan);
    enum cs_status status = make_row(server, submit, copy, &row, err);
    if (status == CS_OK)
        status = keep(server, &row, copy, err);
    json_decref(copy);
    CS_TRY(status);
    struct cs_job *job = cs_job_add(server, &row);
    *id = row.id;
    cs_jobs_start_queued(server);
    if (cs_job_is(job, CS_STATE_QUEUED))
        cs_job_publish(job);
    return CS_OK;
}
