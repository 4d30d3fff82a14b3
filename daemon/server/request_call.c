/* What handlers of requests share. */
#include "server/request_call.h"

#include "core/wire/wire.h"

enum cs_status cs_call_job(const struct cs_call *c, struct cs_job **job, struct cs_err *err)
{
    int64_t id = cs_msg_int(c->request, "job", 0);
    *job = cs_job_find(c->server, id);
    if (!*job)
        return cs_fail(err, CS_NOT_FOUND, "there is no job %lld", (long long)id);
    return CS_OK;
}
