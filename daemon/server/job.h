/* Jobs: the state table, starting and finding runners, importing journals. */
#ifndef CS_SERVER_JOB_H
#define CS_SERVER_JOB_H

#include "server/server.h"

struct cs_runner_link;

enum cs_stop { CS_STOP_NONE, CS_STOP_SAVING, CS_STOP_NOW };

struct cs_job {
    struct cs_server *server;
    struct cs_job_row row;
    pid_t runner_pid; /* our child, 0: none or adopted */
    struct cs_runner_link *link;
    int64_t deadline_ns; /* until when an unreachable runner may still come */
    int64_t retry_ns;    /* no connection is tried before */
    enum cs_stop pending_stop;
    bool is_pause_sent; /* while draining */
    bool is_unsaved;    /* the database is behind */
};

enum cs_status cs_jobs_load(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
void cs_jobs_free(struct cs_server *server);
struct cs_job *cs_job_find(struct cs_server *server, int64_t id); /* NULL: unknown */
enum cs_status cs_job_submit(struct cs_server *server, const json_t *spec, const char *plan_hash,
                             bool replan, const char *owner, int64_t *id,
                             struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_pause(struct cs_job *job, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_resume(struct cs_job *job, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_stop(struct cs_job *job, bool now, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_checkpoint(struct cs_job *job, struct cs_err *err) CS_NODISCARD;
json_t *cs_job_object(const struct cs_job *job);  /* the wire's job object */
bool cs_job_is_over(const struct cs_job *job);    /* nothing will happen without an order */
bool cs_job_is_on_gpus(const struct cs_job *job); /* its ranks are GPUs */
bool cs_job_is_live(const struct cs_job *job);    /* a runner should exist: it holds devices */

/* a message of the job's runner (link), its end of stream, the end of our child */
void cs_job_runner_message(struct cs_job *job, const json_t *message);
void cs_job_runner_lost(struct cs_job *job);
void cs_jobs_reap(struct cs_server *server);
/* every 250 ms: import journals, start queued jobs, retry connections, save again what failed */
void cs_jobs_tick(struct cs_server *server);

#endif
