/* CPU ranks: who has them, and what their processes take of the machine, from /proc. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "server/node/node_private.h"

static const int64_t apart_ns = 500000000; /* looks at a process */

/* the first text of a file of /proc; "" when it cannot be read */
static void proc_text(int64_t pid, const char *name, char *out, size_t cap)
{
    char path[64];
    struct cs_buf text = {0};
    out[0] = '\0';
    snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, name);
    if (cs_read_file(path, 4096, &text, NULL) == CS_OK)
        cs_str_copy(out, cap, cs_buf_str(&text));
    cs_buf_free(&text);
    out[strcspn(out, "\n")] = '\0';
}

/* our own processes say in their title what they are for; of others the short name is enough */
json_t *cs_node_command(int64_t pid)
{
    char text[240];
    proc_text(pid, "cmdline", text, sizeof text);
    if (!cs_str_starts(text, "cornstarch-"))
        proc_text(pid, "comm", text, sizeof text);
    return text[0] ? cs_json_bytes(text, strlen(text)) : json_null();
}

/* time on processors, of all threads; -1: there is no such process */
static int64_t used_ns(int64_t pid)
{
    char text[1024];
    long long user = 0, system = 0;
    proc_text(pid, "stat", text, sizeof text);
    const char *at = strrchr(text, ')'); /* a name may hold anything */
    if (at == NULL || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld",
                             &user, &system) != 2)
        return -1;
    return (user + system) * (1000000000 / sysconf(_SC_CLK_TCK));
}

static int64_t resident_bytes(int64_t pid)
{
    char text[128];
    long long pages = 0;
    proc_text(pid, "statm", text, sizeof text);
    return sscanf(text, "%*d %lld", &pages) == 1 ? pages * sysconf(_SC_PAGESIZE) : -1;
}

/* Load since the last look that is old enough. */
static double look(struct cs_cpu_rank *rank, int64_t pid)
{
    const int64_t now = cs_now_ns(), used = used_ns(pid);
    if (used < 0)
        return (double)NAN;
    if (rank->pid != pid)
        *rank =
            (struct cs_cpu_rank){.pid = pid, .seen_ns = now, .used_ns = used, .busy = (double)NAN};
    if (now - rank->seen_ns < apart_ns)
        return rank->busy;
    const double share = (double)(used - rank->used_ns) / (double)(now - rank->seen_ns);
    rank->busy = share < 0 ? 0 : share > 1 ? 1 : share;
    rank->seen_ns = now;
    rank->used_ns = used;
    return rank->busy;
}

static void set_process(struct cs_cpu_rank *seen, json_t *device, int64_t pid)
{
    const double busy = look(seen, pid);
    const int64_t bytes = resident_bytes(pid);
    json_t *process = json_object(), *list = json_array();
    cs_msg_set_int(process, "pid", pid);
    json_object_set_new(process, "mem_bytes", bytes < 0 ? json_null() : json_integer(bytes));
    json_object_set_new(process, "command", cs_node_command(pid));
    json_array_append_new(list, process);
    cs_msg_set(device, "processes", list);
    if (bytes >= 0)
        cs_msg_set_int(device, "mem_used_bytes", bytes);
    if (!isnan(busy))
        cs_msg_set_num(device, "busy", busy);
}

static struct cs_cpu_rank *seen_at(const struct cs_server *server, int64_t i)
{
    struct cs_node *node = server->node_devices;
    const int64_t n = server->config.cpu_devices;
    if (node->n_cpu < n) {
        node->cpu = realloc(node->cpu, (size_t)n * sizeof *node->cpu);
        CS_ASSERT(node->cpu != NULL);
        memset(node->cpu + node->n_cpu, 0, (size_t)(n - node->n_cpu) * sizeof *node->cpu);
        node->n_cpu = n;
    }
    return &node->cpu[i];
}

static json_t *cpu_json(const struct cs_server *server, int64_t i, const struct cs_job *job,
                        int64_t rank)
{
    json_t *device = json_object();
    json_object_set_new(device, "name", json_sprintf("cpu:%lld", (long long)i));
    cs_msg_set_str(device, "model", "CPU rank");
    cs_node_set_holder(device, job, rank);
    const int64_t pid = job ? json_integer_value(json_array_get(job->pids, (size_t)rank)) : 0;
    if (pid > 0)
        set_process(seen_at(server, i), device, pid);
    return device;
}

/* CPU ranks are not pinned: they go to the jobs that hold some in the order of the jobs. Beside
 * GPUs only those in use are told: the GPUs are what the node is about. */
void cs_node_add_cpu(const struct cs_server *server, json_t *devices)
{
    const bool has_gpus = cs_node_offers(server, true) > 0;
    const int64_t n = server->config.cpu_devices;
    int64_t i = 0;
    for (size_t at = 0; at < server->n_jobs && i < n; at++) {
        const struct cs_job *job = server->jobs[at];
        if (!cs_job_is_live(job) || cs_job_is_on_gpus(job))
            continue;
        for (int64_t rank = 0; rank < job->row.ranks && i < n; rank++, i++)
            json_array_append_new(devices, cpu_json(server, i, job, rank));
    }
    for (; i < n && !has_gpus; i++)
        json_array_append_new(devices, cpu_json(server, i, NULL, -1));
}
