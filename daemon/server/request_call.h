/* Private to the handlers of requests (requests.c and request_*.c). */
#ifndef CS_SERVER_REQUEST_CALL_H
#define CS_SERVER_REQUEST_CALL_H

#include "server/callers/caller.h"
#include "server/jobs/job.h"

struct cs_call {
    struct cs_server *server;
    struct cs_caller *caller;
    const json_t *request;
    json_t *reply;    /* filled by the handler */
    bool is_deferred; /* the reply comes later */
};

/* the job that the request names; CS_NOT_FOUND */
enum cs_status cs_call_job(const struct cs_call *call, struct cs_job **job,
                           struct cs_err *err) CS_NODISCARD;
enum cs_status cs_request_log(struct cs_call *call, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_request_logs(struct cs_call *call, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_request_jobs(struct cs_call *call, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_request_label(struct cs_call *call, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_request_remove(struct cs_call *call, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_request_node(struct cs_call *call, struct cs_err *err) CS_NODISCARD;

#endif
