/* Starts a worker: maps the memory that it inherits, opens the device, enters the generation. */
#include "worker/boot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plan/json/plan_json.h"
#include "core/wire/wire.h"

/* Map an inherited memfd whole; the descriptor is closed. fd -1: nothing. */
static enum cs_status map_fd(int fd, const char *what, void **memory, size_t *bytes,
                             struct cs_err *err)
{
    struct stat st;
    if (fd < 0)
        return CS_OK;
    if (fstat(fd, &st) == -1)
        return cs_fail_errno(err, "descriptor %d of the %s", fd, what);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return cs_fail_errno(err, "mapping the %s (%lld bytes)", what, (long long)st.st_size);
    close(fd);
    *memory = p;
    *bytes = (size_t)st.st_size;
    return CS_OK;
}

static enum cs_status map_memory(struct cs_boot *b, struct cs_err *err)
{
    const int ring_fd = (int)cs_msg_int(b->generation.msg, "ring_fd", -1);
    const int pool_fd = (int)cs_msg_int(b->generation.msg, "pool_fd", -1);
    CS_TRY(map_fd(ring_fd, "event ring", &b->ring_memory, &b->ring_bytes, err));
    CS_TRY(map_fd(pool_fd, "slot pool", &b->pool_memory, &b->pool_bytes, err));
    if (b->ring_memory != NULL)
        CS_TRY(cs_ring_attach(b->ring_memory, b->ring_bytes, &b->ring, err));
    if (b->pool_memory == NULL)
        return cs_fail(err, CS_INVALID, "worker.boot: without a slot pool there is nothing to do");
    return cs_pool_attach(b->pool_memory, b->pool_bytes, &b->generation.plan->budget,
                          b->generation.rank, &b->pool, err);
}

/* plans of matrix products: those that the job has measured before */
static enum cs_status keep_plans(struct cs_boot *b, struct cs_err *err)
{
    const char *job_dir = cs_msg_str(b->generation.msg, "job_dir", "");
    const size_t room = strlen(job_dir) + sizeof "/gemm-plans";
    char *path = malloc(room);
    if (path == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a path");
    snprintf(path, room, "%s/gemm-plans", job_dir);
    cs_device_tune(&b->device, *job_dir != '\0' ? path : NULL);
    free(path);
    return CS_OK;
}

static enum cs_status open_device(struct cs_boot *b, struct cs_err *err)
{
    CS_TRY(cs_device_open(cs_msg_str(b->generation.msg, "device", "cpu:0"),
                          cs_msg_str(b->generation.msg, "precision", NULL), &b->device, err));
    CS_TRY(keep_plans(b, err));
    cs_laps_take(&b->generation.laps, "device");
    return CS_OK;
}

static enum cs_status open_all(struct cs_boot *b, json_t *msg, struct cs_err *err)
{
    CS_TRY(cs_generation_read(msg, &b->generation, err));
    CS_TRY(map_memory(b, err));
    CS_TRY(open_device(b, err));
    return cs_generation_enter(&b->generation, &b->device, cs_boot_ring(b), err);
}

struct cs_ring *cs_boot_ring(struct cs_boot *boot)
{
    return boot->ring_memory != NULL ? &boot->ring : NULL;
}

enum cs_status cs_boot_open(json_t *msg, struct cs_boot *boot, struct cs_err *err)
{
    *boot = (struct cs_boot){.generation = {.rank = -1}};
    const enum cs_status status = open_all(boot, msg, err);
    return status == CS_OK ? CS_OK
                           : cs_wrap(err, status, "starting rank %d of generation %lld",
                                     boot->generation.rank, (long long)boot->generation.id);
}

void cs_boot_close(struct cs_boot *boot)
{
    cs_generation_leave(&boot->generation);
    cs_device_close(&boot->device);
    cs_pool_detach(boot->pool);
    if (boot->ring_memory != NULL)
        munmap(boot->ring_memory, boot->ring_bytes);
    if (boot->pool_memory != NULL)
        munmap(boot->pool_memory, boot->pool_bytes);
    *boot = (struct cs_boot){.generation = {.rank = -1}};
}

/* [part, microseconds] in the order of what happened */
static json_t *told_laps(const struct cs_laps *laps)
{
    json_t *list = json_array();
    for (int i = 0; i < laps->n; i++)
        json_array_append_new(
            list, json_pack("[s, I]", laps->lap[i].what, (json_int_t)(laps->lap[i].ns / 1000)));
    return list;
}

enum cs_status cs_boot_ready(struct cs_boot *boot, json_t **ready, struct cs_err *err)
{
    struct cs_generation *g = &boot->generation;
    const struct cs_program *program;
    const int slots = g->plan->slots > 0 ? cs_plan_own_slots(g->plan, g->plan->slots) : 1;
    CS_TRY(cs_trainer_program(g->trainer, slots, false, &program, err));
    cs_laps_take(&g->laps, "program");
    int64_t held = 0, trained = 0;
    for (int32_t i = 0; i < g->trainer->params->n; i++) {
        const struct cs_shard *t = &g->trainer->params->shard[i];
        held += t->is_counted ? t->param->count : 0;
        trained += t->is_counted && t->grad != NULL ? t->param->count : 0;
    }
    *ready = cs_msg_new("worker.ready");
    cs_msg_set_int(*ready, "rank", g->rank);
    cs_msg_set_str(*ready, "program_hash", program->hash);
    cs_msg_set_int(*ready, "params", held);
    cs_msg_set_int(*ready, "trained", trained);
    const struct cs_params *params = g->trainer->params;
    const struct cs_exec_memory m = cs_exec_memory(g->trainer->exec);
    cs_msg_set_int(*ready, "state_bytes", (int64_t)(params->weight_bytes + params->state_bytes));
    cs_msg_set_int(*ready, "activation_bytes", (int64_t)m.kept);
    cs_msg_set_int(*ready, "scratch_bytes", (int64_t)(m.scratch + m.boundary));
    cs_msg_set(*ready, "start", told_laps(&g->laps));
    return CS_OK;
}
