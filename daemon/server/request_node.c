/* node.show: the machine, what it offers to jobs, what to know about the daemon. */
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "server/node/node.h"
#include "server/request_call.h"

/* Value of "KEY : VALUE" in a file of /proc; "" when it is not there. */
static void proc_value(const char *path, const char *key, char *out, size_t cap)
{
    struct cs_buf text = {0};
    struct cs_err err;
    out[0] = '\0';
    if (cs_read_file(path, 4 << 20, &text, &err) == CS_OK) {
        const char *at = strstr(cs_buf_str(&text), key);
        at = at ? strchr(at, ':') : NULL;
        if (at) {
            at += 1 + strspn(at + 1, " \t");
            snprintf(out, cap, "%.*s", (int)strcspn(at, "\n"), at);
        }
    }
    cs_buf_free(&text);
}

static void set_offer(struct cs_call *c)
{
    const struct cs_here here = cs_node_here(c->server);
    char text[64];
    cs_here_print(&here, text, sizeof text);
    cs_msg_set_str(c->reply, "here", text);
    if (cs_node_driver(c->server)[0])
        cs_msg_set_str(c->reply, "driver", cs_node_driver(c->server));
    if (cs_node_gpus_note(c->server)[0])
        cs_msg_set_str(c->reply, "gpus_note", cs_node_gpus_note(c->server));
}

static size_t n_behind(const struct cs_server *server)
{
    size_t n = 0;
    for (size_t i = 0; i < server->n_jobs; i++)
        n += server->jobs[i]->is_behind || server->jobs[i]->is_unsaved ||
             json_array_size(server->jobs[i]->notes) > 0;
    return n;
}

/* What was amiss at the start, what cannot be written and who cannot be reached now. */
static void set_warning(struct cs_call *c)
{
    char text[2600];
    json_t *deaf = json_array();
    const size_t behind = n_behind(c->server);
    int used = snprintf(text, sizeof text, "%s", c->server->warning);
    if (behind > 0)
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%sthe history is behind the directories of %zu job%s and follows when it "
                         "can be written again (is the disk full?): %s",
                         used ? "; " : "", behind, CS_PLURAL(behind), c->server->write_error);
    for (size_t i = 0; i < c->server->n_jobs && used < (int)sizeof text - 200; i++) {
        const struct cs_job *job = c->server->jobs[i];
        if (!cs_job_is_deaf(job))
            continue;
        json_array_append_new(deaf, json_integer(job->row.id));
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%sthe runner of job %lld does not answer", used ? "; " : "",
                         (long long)job->row.id);
    }
    if (text[0])
        cs_msg_set_str(c->reply, "warning", text);
    cs_msg_set(c->reply, "deaf", deaf);
}

static void set_counts(struct cs_call *c)
{
    int64_t live = 0, queued = 0;
    for (size_t i = 0; i < c->server->n_jobs; i++) {
        live += cs_job_is_live(c->server->jobs[i]);
        queued += cs_job_is(c->server->jobs[i], CS_STATE_QUEUED);
    }
    cs_msg_set_int(c->reply, "live", live);
    cs_msg_set_int(c->reply, "queued", queued);
}

enum cs_status cs_request_node(struct cs_call *c, struct cs_err *err)
{
    struct sysinfo info;
    char text[256];
    int64_t available_kib;
    if (!cs_node_is_fresh(c->server)) {
        CS_TRY(cs_caller_wait(c->caller, c->request, 0, err));
        c->is_deferred = true;
        return CS_OK;
    }
    cs_msg_set_str(c->reply, "node", c->server->node);
    cs_msg_set_str(c->reply, "version", CORNSTARCH_VERSION);
    cs_msg_set_int(c->reply, "pid", getpid());
    cs_msg_set(c->reply, "devices",
               cs_node_devices(c->server, cs_msg_bool(c->request, "gpus", false)
                                              ? CS_DEVICES_GPUS
                                              : CS_DEVICES_OFFERED));
    set_offer(c);
    proc_value("/proc/cpuinfo", "model name", text, sizeof(text));
    if (text[0])
        cs_msg_set_str(c->reply, "cpu", text);
    cs_msg_set_int(c->reply, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    if (sysinfo(&info) == 0)
        cs_msg_set_int(c->reply, "mem_bytes", (int64_t)(info.totalram * info.mem_unit));
    proc_value("/proc/meminfo", "MemAvailable", text, sizeof(text));
    text[strcspn(text, " ")] = '\0';
    if (cs_str_to_i64(text, &available_kib))
        cs_msg_set_int(c->reply, "mem_free_bytes", available_kib * 1024);
    cs_msg_set_int(c->reply, "started_ns", c->server->started_ns);
    cs_msg_set_str(c->reply, "state_dir", c->server->state_dir);
    cs_msg_set_bool(c->reply, "draining", c->server->is_draining);
    set_counts(c);
    set_warning(c);
    return CS_OK;
}
