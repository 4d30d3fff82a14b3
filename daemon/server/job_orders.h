/* Orders of consoles. CS_STATE: the job's state does not allow it. */
#ifndef CS_SERVER_JOB_ORDERS_H
#define CS_SERVER_JOB_ORDERS_H

#include "server/job_spec.h"

enum cs_status cs_job_submit(struct cs_server *server, const json_t *spec, const char *plan_hash,
                             bool replan, const char *owner, int64_t *id,
                             struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_resume(struct cs_job *job, const struct cs_job_relayout *how,
                             struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_stop(struct cs_job *job, bool now, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_job_checkpoint(struct cs_job *job, struct cs_err *err) CS_NODISCARD;

#endif
