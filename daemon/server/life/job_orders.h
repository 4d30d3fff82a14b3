/* Orders of consoles. CS_STATE: the job's state does not allow it. */
#ifndef CS_SERVER_JOB_ORDERS_H
#define CS_SERVER_JOB_ORDERS_H

#include "server/jobs/job_labels.h"
#include "server/life/job_spec.h"

struct cs_submit {
    const json_t *spec;
    const char *plan_hash; /* of the previewed plan, "": whatever the spec says */
    bool is_replan;        /* another plan than previewed is fine */
    int64_t ranks;         /* of the previewed plan; 0: not told, the spec's request is counted */
    const char *owner;
    struct cs_labels labels;
};

enum cs_status cs_job_submit(struct cs_server *server, const struct cs_submit *submit, int64_t *id,
                             struct cs_err *err) CS_NODISCARD;
/* Whether the daemon's side allows it. CS_NOT_FOUND: the job's directory was removed. */
enum cs_status cs_job_can_resume(const struct cs_job *job, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_resume(struct cs_job *job, const struct cs_job_relayout *how,
                             struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_stop(struct cs_job *job, bool now, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_checkpoint(struct cs_job *job, struct cs_err *err) CS_NODISCARD;

#endif
