/* Which job has which GPU: the daemon hands them out by number and tells the job's processes
 * through CUDA_VISIBLE_DEVICES, so that their own cuda:0 is the first of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "core/wire/wire.h"
#include "server/node/node_private.h"

static bool is_holding(const struct cs_job *job)
{
    return cs_job_is_live(job) || job->runner_pid;
}

bool cs_job_is_on_gpus(const struct cs_job *job)
{
    return strcmp(job->row.device, "cuda") == 0;
}

int64_t cs_node_offers(const struct cs_server *server, bool is_gpu)
{
    return is_gpu ? server->node_devices->n_gpus : server->config.cpu_devices;
}

int64_t cs_node_held(const struct cs_server *server, bool is_gpu)
{
    int64_t n = 0;
    for (size_t i = 0; i < server->n_jobs; i++) {
        const struct cs_job *job = server->jobs[i];
        if (is_holding(job) && cs_job_is_on_gpus(job) == is_gpu)
            n += job->row.ranks;
    }
    return n;
}

/* the k-th number of "2,3,5", -1: there are not so many */
static int32_t leased(const struct cs_job *job, int64_t k)
{
    const char *at = job->row.gpus;
    for (; k > 0 && *at; k--) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return *at ? (int32_t)strtol(at, NULL, 10) : -1;
}

const struct cs_job *cs_node_holder(const struct cs_server *server, int32_t gpu, int64_t *rank)
{
    for (size_t i = 0; i < server->n_jobs; i++) {
        const struct cs_job *job = server->jobs[i];
        if (!is_holding(job) || !cs_job_is_on_gpus(job))
            continue;
        for (int64_t k = 0; leased(job, k) >= 0; k++)
            if (leased(job, k) == gpu) {
                *rank = k;
                return job;
            }
    }
    *rank = -1;
    return NULL;
}

void cs_node_set_holder(json_t *device, const struct cs_job *job, int64_t rank)
{
    cs_msg_set_int(device, "job", job ? job->row.id : 0);
    cs_msg_set_int(device, "rank", job ? rank : -1);
    if (!job)
        return;
    cs_msg_set_str(device, "job_name", job->row.name);
    cs_msg_set_str(device, "owner", job->row.owner);
}

void cs_node_lease(struct cs_job *job)
{
    size_t used = 0;
    int64_t n = 0, rank;
    job->row.gpus[0] = '\0';
    if (!cs_job_is_on_gpus(job))
        return;
    char text[sizeof(job->row.gpus)] = "";
    for (int32_t i = 0; i < job->server->node_devices->n_gpus && n < job->row.ranks; i++) {
        if (cs_node_holder(job->server, i, &rank) || used + 8 > sizeof(text))
            continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d", n ? "," : "", (int)i);
        n++;
    }
    cs_str_copy(job->row.gpus, sizeof(job->row.gpus), text);
}

void cs_node_visible(const struct cs_job *job, char *out, size_t cap)
{
    const struct cs_node *node = job->server->node_devices;
    size_t used = 0;
    out[0] = '\0';
    for (int64_t k = 0; leased(job, k) >= 0 && used < cap; k++) {
        int32_t i = leased(job, k);
        const struct cs_gpu *gpu = i < node->n_shown ? &node->gpu[i] : NULL;
        int n = gpu && gpu->uuid[0]
                    ? snprintf(out + used, cap - used, "%s%s", k ? "," : "", gpu->uuid)
                    : snprintf(out + used, cap - used, "%s%d", k ? "," : "",
                               gpu ? (int)gpu->index : (int)i);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* The GPUs that a job sees are those it holds, so it counts them from 0. */
void cs_node_rank_devices(const struct cs_job *job, char *out, size_t cap)
{
    const char *kind = cs_job_is_on_gpus(job) ? "cuda" : "cpu";
    size_t used = 0;
    out[0] = '\0';
    for (int64_t rank = 0; rank < job->row.ranks && used < cap; rank++)
        used += (size_t)snprintf(out + used, cap - used, "%s%s:%lld", rank > 0 ? "," : "", kind,
                                 (long long)rank);
}
