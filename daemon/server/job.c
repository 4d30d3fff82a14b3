/* See job.h. What a job may do in which state is one table; orders ask for states, runners report
 * them (job_life.c). */
#include "server/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/model/spec.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "server/conn.h"
#include "server/job_parts.h"
#include "server/node.h"
#include "server/runner_link.h"

enum order { ORDER_PAUSE = 1, ORDER_RESUME = 2, ORDER_STOP = 4, ORDER_CHECKPOINT = 8 };

static const struct state_row {
    const char *name;
    bool is_live; /* a runner should exist */
    bool is_over; /* waiters are answered */
    unsigned orders;
} states[] = {
    {"QUEUED",    false, false, ORDER_STOP                                 },
    {"STARTING",  true,  false, ORDER_STOP                                 },
    {"RUN",       true,  false, ORDER_PAUSE | ORDER_STOP | ORDER_CHECKPOINT},
    {"PAUSING",   true,  false, ORDER_STOP                                 },
    {"PAUSED",    false, true,  ORDER_RESUME | ORDER_STOP                  },
    {"STOPPING",  true,  false, ORDER_STOP                                 },
    {"DONE",      false, true,  0                                          },
    {"FAILED",    false, true,  ORDER_RESUME                               },
    {"CANCELLED", false, true,  ORDER_RESUME                               },
    {"LOST",      false, true,  ORDER_RESUME                               },
};

static const struct state_row *state_of(const struct cs_job *job)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(states); i++)
        if (strcmp(states[i].name, job->row.state) == 0)
            return &states[i];
    return &states[CS_ARRAY_LEN(states) - 1];
}

bool cs_job_is_state(const char *name, bool *is_over)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(states); i++)
        if (strcmp(states[i].name, name) == 0) {
            *is_over = states[i].is_over;
            return true;
        }
    return false;
}

bool cs_job_is_live(const struct cs_job *job)
{
    return state_of(job)->is_live;
}

bool cs_job_is_over(const struct cs_job *job)
{
    return state_of(job)->is_over;
}

struct cs_job *cs_job_find(struct cs_server *server, int64_t id)
{
    for (size_t i = server->n_jobs; i-- > 0;)
        if (server->jobs[i]->row.id == id)
            return server->jobs[i];
    return NULL;
}

struct cs_job *cs_job_add(struct cs_server *server, const struct cs_job_row *row)
{
    if (server->n_jobs == server->cap_jobs) {
        server->cap_jobs = server->cap_jobs ? 2 * server->cap_jobs : 64;
        server->jobs = realloc(server->jobs, server->cap_jobs * sizeof(struct cs_job *));
        CS_ASSERT(server->jobs != NULL);
    }
    struct cs_job *job = calloc(1, sizeof(*job));
    CS_ASSERT(job != NULL);
    job->server = server;
    job->row = *row;
    server->jobs[server->n_jobs++] = job;
    return job;
}

/* --- what others see -------------------------------------------------------------------------- */

static void set_positive(json_t *object, const char *key, int64_t value)
{
    if (value > 0)
        cs_msg_set_int(object, key, value);
}

json_t *cs_job_object(const struct cs_job *job)
{
    const struct cs_job_row *row = &job->row;
    json_t *o = json_object();
    cs_msg_set_int(o, "id", row->id);
    cs_msg_set_str(o, "name", row->name);
    cs_msg_set_str(o, "state", row->state);
    cs_msg_set_int(o, "step", row->step);
    cs_msg_set_int(o, "steps", row->steps);
    if (row->step > 0)
        cs_msg_set_num(o, "loss", row->loss);
    cs_msg_set_str(o, "owner", row->owner);
    set_positive(o, "submitted_ns", row->submitted_ns);
    set_positive(o, "started_ns", row->started_ns);
    set_positive(o, "ended_ns", row->ended_ns);
    if (row->reason[0])
        cs_msg_set_str(o, "reason", row->reason);
    if (cs_job_is_over(job))
        cs_msg_set_int(o, "exit", row->exit_code);
    cs_msg_set_str(o, "spec_hash", row->spec_hash);
    cs_msg_set_str(o, "plan_hash", row->plan_hash);
    cs_msg_set_str(o, "dir", row->dir);
    cs_msg_set_int(o, "generation", row->generation);
    cs_msg_set_int(o, "checkpoint_step", row->checkpoint_step);
    set_positive(o, "predicted_step_ns", row->predicted_step_ns);
    set_positive(o, "step_ns", row->step_ns);
    if (!isnan(row->exact_match))
        cs_msg_set_num(o, "exact_match", row->exact_match);
    if (row->energy_steps > 0) {
        cs_msg_set_int(o, "energy_mj", row->energy_mj);
        cs_msg_set_int(o, "step_energy_mj", row->energy_mj / row->energy_steps);
    }
    if (row->energy_mj > 0)
        cs_msg_set_num(o, "tokens_per_j",
                       (double)row->energy_tokens / ((double)row->energy_mj / 1000));
    return o;
}

void cs_job_publish(struct cs_job *job)
{
    json_t *message = cs_msg_new("event.job");
    cs_msg_set(message, "job", cs_job_object(job));
    cs_publish(job->server, CS_CLASS_EVENT, job->row.id, message);
    json_decref(message);
}

/* A failed write (disk full) is tried again at every tick: what we hold in memory is ahead until
 * then. */
void cs_job_save(struct cs_job *job)
{
    struct cs_err err;
    job->is_unsaved = cs_db_job_save(job->server->db, &job->row, true, &err) != CS_OK;
    if (job->is_unsaved)
        cs_log(job->server->log, CS_ERROR, "job.save", CS_KV("job", job->row.id),
               CS_KV("error", (const char *)err.text));
}

static void note(struct cs_job *job, const char *level, const char *text)
{
    struct cs_err err;
    if (cs_db_note_add(job->server->db, job->row.id, cs_wall_ns(), level, text, &err) != CS_OK)
        cs_log(job->server->log, CS_ERROR, "job.note", CS_KV("error", (const char *)err.text));
}

void cs_job_set_state(struct cs_job *job, const struct cs_job_change *to)
{
    bool was_over = cs_job_is_over(job);
    bool is_change = strcmp(job->row.state, to->state) != 0;
    snprintf(job->row.state, sizeof(job->row.state), "%s", to->state);
    snprintf(job->row.reason, sizeof(job->row.reason), "%s", to->reason ? to->reason : "");
    job->row.exit_code = to->exit_code;
    if (!job->row.started_ns && cs_job_is_live(job))
        job->row.started_ns = cs_wall_ns();
    if (cs_job_is_over(job) && !was_over)
        job->row.ended_ns = cs_wall_ns();
    cs_job_save(job);
    if (is_change) {
        char text[1100];
        bool is_bad = strcmp(to->state, "FAILED") == 0 || strcmp(to->state, "LOST") == 0;
        snprintf(text, sizeof(text), "%s%s%s", to->state, job->row.reason[0] ? ": " : "",
                 job->row.reason);
        if (!to->is_in_journal)
            note(job, is_bad ? "error" : "info", text);
        cs_log(job->server->log, CS_INFO, "job.state", CS_KV("job", job->row.id),
               CS_KV("state", to->state), CS_KV("reason", (const char *)job->row.reason));
    }
    cs_job_publish(job);
    if (cs_job_is_over(job)) {
        json_t *object = cs_job_object(job);
        cs_conn_job_ended(job->server, job->row.id, object);
        json_decref(object);
    }
}

/* --- orders ----------------------------------------------------------------------------------- */

static enum cs_status allow(const struct cs_job *job, enum order order, const char *verb,
                            struct cs_err *err)
{
    if (state_of(job)->orders & order)
        return CS_OK;
    return cs_fail(err, CS_STATE, "job %lld is %s: it cannot %s now", (long long)job->row.id,
                   job->row.state, verb);
}

static enum cs_status tell(struct cs_job *job, json_t *message, struct cs_err *err)
{
    if (!job->link) {
        json_decref(message);
        return cs_fail(err, CS_UNREACHABLE, "the runner of job %lld does not answer yet; try again",
                       (long long)job->row.id);
    }
    cs_runner_link_send(job->link, message);
    return CS_OK;
}

enum cs_status cs_job_pause(struct cs_job *job, struct cs_err *err)
{
    CS_TRY(allow(job, ORDER_PAUSE, "pause", err));
    return tell(job, cs_msg_new("runner.pause"), err);
}

enum cs_status cs_job_checkpoint(struct cs_job *job, struct cs_err *err)
{
    CS_TRY(allow(job, ORDER_CHECKPOINT, "write a checkpoint", err));
    return tell(job, cs_msg_new("runner.checkpoint"), err);
}

enum cs_status cs_job_resume(struct cs_job *job, struct cs_err *err)
{
    CS_TRY(allow(job, ORDER_RESUME, "resume", err));
    if (job->server->is_draining)
        return cs_fail(err, CS_REFUSED, "the daemon is draining and starts no jobs");
    job->row.ended_ns = 0;
    cs_job_set_state(job, &(struct cs_job_change){.state = "QUEUED"});
    cs_jobs_start_queued(job->server);
    return CS_OK;
}

/* A runner that does not answer yet is told once it does. */
enum cs_status cs_job_stop(struct cs_job *job, bool now, struct cs_err *err)
{
    CS_TRY(allow(job, ORDER_STOP, "stop", err));
    if (!cs_job_is_live(job)) {
        cs_job_set_state(job, &(struct cs_job_change){.state = "CANCELLED",
                                                      .reason = "stopped on request",
                                                      .exit_code = cs_status_exit(CS_JOB_FAILED)});
        return CS_OK;
    }
    job->pending_stop = now ? CS_STOP_NOW : CS_STOP_SAVING;
    if (job->link)
        cs_job_send_stop(job);
    return CS_OK;
}

/* Ranks a spec asks for; the daemon counts, it does not plan. */
static int64_t ranks_of(const struct cs_spec *spec)
{
    int64_t sum = 0, most = 0;
    for (int i = 0; i < spec->n_parallel; i++) {
        sum += spec->parallel[i].pp;
        most = spec->parallel[i].pp > most ? spec->parallel[i].pp : most;
    }
    /* colocated and copied encoders use the ranks of the LLM; every replica has ranks of its own */
    return spec->dp * (strcmp(spec->modality, "encoder-parallel") == 0 ? sum : most);
}

/* CPU ranks or GPUs, as the plan's cluster says; more than there are would queue forever. */
static enum cs_status choose_devices(const struct cs_server *server, const struct cs_spec *spec,
                                     struct cs_job_row *row, struct cs_err *err)
{
    struct cs_cluster cluster;
    CS_TRY(cs_cluster_read_here(spec->cluster, cs_node_here(server), &cluster, err));
    CS_TRY(cs_spec_check_precision(spec, cluster.device->name, err));
    const bool is_gpu = strcmp(cluster.device->name, "cpu") != 0;
    const long long offered = (long long)cs_node_offers(server, is_gpu);
    snprintf(row->device, sizeof(row->device), "%s", is_gpu ? "cuda" : "cpu");
    row->ranks = ranks_of(spec);
    if (is_gpu && offered == 0)
        return cs_fail(err, CS_PLAN,
                       "the plan is for %s and this node offers no GPU (%s); device = \"cpu\" runs "
                       "it on CPU cores",
                       cluster.device->name, cs_node_gpus_note(server));
    if (row->ranks > offered)
        return cs_fail(err, CS_PLAN, "the plan needs %lld ranks, this node offers %lld %s",
                       (long long)row->ranks, offered, is_gpu ? "GPUs" : "CPU devices");
    return CS_OK;
}

static enum cs_status write_spec(const struct cs_job *job, const json_t *spec, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    CS_TRY(cs_mkdirs(job->row.dir, err));
    CS_TRY(cs_path(path, err, "%s/spec.json", job->row.dir));
    cs_json_canonical(spec, &text);
    enum cs_status st = cs_write_file_atomic(path, cs_buf_str(&text), text.len, 0600, err);
    cs_buf_free(&text);
    return st;
}

enum cs_status cs_job_submit(struct cs_server *server, const json_t *document,
                             const char *plan_hash, bool replan, const char *owner, int64_t *id,
                             struct cs_err *err)
{
    struct cs_spec *spec;
    struct cs_job_row row = {
        .loss = (double)NAN, .exact_match = (double)NAN, .checkpoint_step = -1};
    if (server->is_draining)
        return cs_fail(err, CS_REFUSED, "the daemon is draining and takes no jobs");
    struct cs_arena *arena = cs_arena_new(0);
    json_t *copy = json_copy((json_t *)(uintptr_t)document);
    CS_ASSERT(copy != NULL);
    if (replan)
        json_object_set_new(copy, "plan_hash", json_string(""));
    else if (plan_hash[0])
        json_object_set_new(copy, "plan_hash", json_string(plan_hash));
    enum cs_status st = cs_spec_read(copy, arena, &spec, err);
    if (st != CS_OK)
        goto out;
    st = choose_devices(server, spec, &row, err);
    if (st != CS_OK)
        goto out;
    snprintf(row.name, sizeof(row.name), "%s", spec->name);
    snprintf(row.state, sizeof(row.state), "QUEUED");
    snprintf(row.owner, sizeof(row.owner), "%s", owner);
    snprintf(row.spec_hash, sizeof(row.spec_hash), "%s", spec->hash);
    snprintf(row.plan_hash, sizeof(row.plan_hash), "%s", spec->plan_hash);
    row.steps = spec->steps;
    row.submitted_ns = cs_wall_ns();
    st = cs_db_job_add(server->db, &row, err);
    if (st != CS_OK)
        goto out;
    struct cs_job *job = cs_job_add(server, &row);
    snprintf(job->row.dir, sizeof(job->row.dir), "%s/jobs/%lld", server->state_dir,
             (long long)row.id);
    st = write_spec(job, copy, err);
    if (st == CS_OK) /* promised to the client: on disk before the answer */
        st = cs_db_job_save(server->db, &job->row, true, err);
    if (st != CS_OK) {
        cs_job_set_state(job, &(struct cs_job_change){.state = "FAILED",
                                                      .reason = err->text,
                                                      .exit_code = cs_status_exit(CS_JOB_FAILED)});
        goto out;
    }
    *id = row.id;
    cs_jobs_start_queued(server);
    if (strcmp(job->row.state, "QUEUED") == 0)
        cs_job_publish(job);
out:
    json_decref(copy);
    cs_arena_free(arena);
    return st;
}
