/* Asks the daemon before and after for its jobs. */
#include "console/cli/shared/undisturbed.h"

#include <string.h>

#include "console/link/client.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

static bool is_live(const json_t *job)
{
    return cs_job_state_is(cs_msg_str(job, "state", ""), CS_PHASE_LIVE);
}

static const json_t *job_with(const json_t *jobs, int64_t id)
{
    for (size_t i = 0; i < json_array_size(jobs); i++)
        if (cs_msg_int(json_array_get(jobs, i), "id", 0) == id)
            return json_array_get(jobs, i);
    return NULL;
}

/* It is at work, or was since: it started, or went on under a plan that it had not before. */
static bool has_worked(const json_t *was, const json_t *job, int64_t begin_ns)
{
    if (was != NULL && is_live(was))
        return false;
    return is_live(job) || cs_msg_int(job, "started_ns", 0) >= begin_ns ||
           (was != NULL && cs_msg_int(was, "generation", 0) != cs_msg_int(job, "generation", 0));
}

int32_t cs_undisturbed_by(const json_t *before, const json_t *after, const char *device,
                          int64_t begin_ns, struct cs_buf *out)
{
    int32_t n = 0;
    for (size_t i = json_array_size(after); i-- > 0;) { /* they come newest first */
        const json_t *job = json_array_get(after, i);
        const int64_t id = cs_msg_int(job, "id", 0);
        if (strcmp(cs_msg_str(job, "device", "cpu"), device) != 0 ||
            !has_worked(job_with(before, id), job, begin_ns))
            continue;
        cs_buf_addf(out, "%sjob %lld", n > 0 ? ", " : "", (long long)id);
        n++;
    }
    return n;
}

/* NULL: nobody answers */
static json_t *ask(const struct cs_cmd *cmd)
{
    static const int64_t ask_ns = 2000000000;

    struct cs_client *client = NULL;
    json_t *reply = NULL, *jobs = NULL, *request = cs_msg_new("jobs.list");
    enum cs_status status = cs_client_connect_running(NULL, cmd->socket, &client, NULL);
    if (status == CS_OK)
        status = cs_client_call_for(client, request, ask_ns, &reply, NULL);
    else
        json_decref(request);
    if (status == CS_OK)
        jobs = json_incref(cs_msg_arr(reply, "jobs"));
    json_decref(reply);
    cs_client_free(client);
    return jobs;
}

enum cs_status cs_undisturbed_begin(const struct cs_cmd *cmd, const char *device,
                                    struct cs_undisturbed *out, struct cs_err *err)
{
    struct cs_buf busy = {0};
    enum cs_status status = CS_OK;
    *out = (struct cs_undisturbed){device, cs_wall_ns(), ask(cmd)};
    const int32_t n = strcmp(device, "cpu") == 0
                          ? cs_undisturbed_by(NULL, out->before, device, INT64_MAX, &busy)
                          : 0;
    if (n > 0)
        status = cs_fail(err, CS_REFUSED,
                         "%s compute%s on CPU ranks of this machine, and what is measured beside "
                         "%s would be too slow: wait for %s ('cornstarch-console wait'), or pause "
                         "%s",
                         cs_buf_str(&busy), n == 1 ? "s" : "", n == 1 ? "it" : "them",
                         n == 1 ? "it" : "them", n == 1 ? "it" : "them");
    cs_buf_free(&busy);
    return status;
}

enum cs_status cs_undisturbed_check(const struct cs_cmd *cmd, const struct cs_undisturbed *watch,
                                    struct cs_err *err)
{
    struct cs_buf busy = {0};
    enum cs_status status = CS_OK;
    json_t *after = ask(cmd);
    const int32_t n =
        cs_undisturbed_by(watch->before, after, watch->device, watch->begin_ns, &busy);
    if (n > 0)
        status =
            cs_fail(err, CS_REFUSED,
                    "%s started meanwhile on %s of this machine: what was measured beside %s "
                    "may be too slow, and nothing is kept of it; measure again once %s "
                    "ended ('cornstarch-console wait')",
                    cs_buf_str(&busy), strcmp(watch->device, "cpu") == 0 ? "CPU ranks" : "GPUs",
                    n == 1 ? "it" : "them", n == 1 ? "it has" : "they have");
    cs_buf_free(&busy);
    json_decref(after);
    return status;
}

void cs_undisturbed_end(struct cs_undisturbed *watch)
{
    json_decref(watch->before);
    watch->before = NULL;
}
