/* Requests about jobs as a list: which there are, what their owners say of them, which are gone. */
#include <string.h>
#include <strings.h>

#include "core/wire/wire.h"
#include "server/jobs/job_labels.h"
#include "server/life/removal.h"
#include "server/request_call.h"

enum { MAX_JOBS_BYTES = 8 << 20 /* of one answer, as encoded */ };

static bool is_in(const json_t *words, const char *word)
{
    for (size_t i = 0; i < json_array_size(words); i++)
        if (strcmp(json_string_value(json_array_get(words, i)), word) == 0)
            return true;
    return false;
}

static bool holds(const char *text, const char *part)
{
    const size_t n = strlen(part);
    for (; strlen(text) >= n; text++)
        if (strncasecmp(text, part, n) == 0)
            return true;
    return false;
}

static bool is_wanted(const struct cs_job *job, const json_t *request)
{
    const json_t *states = cs_msg_arr(request, "states");
    const char *owner = cs_msg_str(request, "owner", "");
    return (json_array_size(states) == 0 || is_in(states, job->row.state)) &&
           (owner[0] == '\0' || strcmp(owner, job->row.owner) == 0) &&
           holds(job->row.name, cs_msg_str(request, "name", "")) &&
           cs_job_has_tags(&job->row, cs_msg_arr(request, "tags"));
}

enum cs_status cs_request_jobs(struct cs_call *c, struct cs_err *err)
{
    int64_t limit = cs_msg_int(c->request, "limit", 1000);
    json_t *jobs = json_array();
    size_t bytes = 0;
    (void)err;
    for (size_t i = c->server->n_jobs; i-- > 0 && (int64_t)json_array_size(jobs) < limit;) {
        if (!is_wanted(c->server->jobs[i], c->request))
            continue;
        json_t *job = cs_job_object(c->server->jobs[i]);
        bytes += json_dumpb(job, NULL, 0, JSON_COMPACT) + 1;
        if (bytes > MAX_JOBS_BYTES) {
            json_decref(job);
            break;
        }
        json_array_append_new(jobs, job);
    }
    cs_msg_set(c->reply, "jobs", jobs);
    return CS_OK;
}

enum cs_status cs_request_label(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    const struct cs_labels labels = {.add = cs_msg_arr(c->request, "add"),
                                     .remove = cs_msg_arr(c->request, "remove"),
                                     .note = cs_msg_str(c->request, "note", NULL)};
    CS_TRY(cs_call_job(c, &job, err));
    CS_TRY(cs_job_label(&job->row, &labels, err));
    cs_job_save(job);
    cs_job_publish(job);
    cs_msg_set(c->reply, "job", cs_job_object(job));
    return CS_OK;
}

enum cs_status cs_request_remove(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(cs_call_job(c, &job, err));
    cs_msg_set_int(c->reply, "job", job->row.id);
    return cs_job_remove(job, err);
}
