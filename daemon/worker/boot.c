/* See boot.h. */
#include "worker/boot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plan/plan_json.h"
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

static enum cs_status read_values(struct cs_boot *b, struct cs_err *err)
{
    const int64_t ranks = cs_msg_int(b->msg, "ranks", 0);
    b->rank = (int)cs_msg_int(b->msg, "rank", -1);
    b->arena = cs_arena_new(0);
    CS_TRY(cs_spec_read(cs_msg_obj(b->msg, "spec"), b->arena, &b->spec, err));
    CS_TRY(cs_graph_build(b->spec, true, b->arena, &b->graph, err));
    CS_TRY(cs_plan_read(cs_msg_obj(b->msg, "plan"), b->graph, b->arena, &b->plan, err));
    const int world = cs_plan_world(b->plan);
    if (ranks != world || b->rank < 0 || b->rank >= world)
        return cs_fail(err, CS_INVALID, "worker.boot: rank %d of %lld, but the plan has %d ranks",
                       b->rank, (long long)ranks, world);
    const char *elsewhere = b->spec->checkpoint_dir;
    const char *job_dir = cs_msg_str(b->msg, "job_dir", "");
    const bool is_elsewhere = elsewhere != NULL && *elsewhere != '\0';
    const size_t room = strlen(job_dir) + sizeof "/ckpt";
    b->ckpt_dir = is_elsewhere ? strdup(elsewhere) : malloc(room);
    if (b->ckpt_dir == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a path");
    if (!is_elsewhere)
        snprintf(b->ckpt_dir, room, "%s/ckpt", job_dir);
    return CS_OK;
}

static enum cs_status connect_peers(struct cs_boot *b, struct cs_err *err)
{
    const int n = cs_plan_world(b->plan);
    json_t *peers = cs_msg_arr(b->msg, "peers"), *peer;
    size_t i;
    if (n == 1)
        return CS_OK;
    int *fds = malloc((size_t)n * sizeof *fds);
    if (fds == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d peers", n);
    for (int r = 0; r < n; r++)
        fds[r] = -1;
    enum cs_status status = CS_OK;
    json_array_foreach(peers, i, peer)
    {
        const json_int_t rank = json_integer_value(json_array_get(peer, 0));
        const json_int_t fd = json_integer_value(json_array_get(peer, 1));
        if (rank < 0 || rank >= n || rank == b->rank || fds[rank] != -1 || fd < 3 || fd > 65535) {
            status = cs_fail(err, CS_INVALID, "worker.boot: peers[%zu] is rank %lld on %lld", i,
                             (long long)rank, (long long)fd);
            break;
        }
        fds[rank] = (int)fd;
    }
    if (status == CS_OK)
        status = cs_comm_socket_new(b->rank, n, fds, &b->comm, err);
    free(fds);
    return status;
}

static enum cs_status map_memory(struct cs_boot *b, struct cs_err *err)
{
    const int ring_fd = (int)cs_msg_int(b->msg, "ring_fd", -1);
    const int pool_fd = (int)cs_msg_int(b->msg, "pool_fd", -1);
    CS_TRY(map_fd(ring_fd, "event ring", &b->ring_memory, &b->ring_bytes, err));
    CS_TRY(map_fd(pool_fd, "slot pool", &b->pool_memory, &b->pool_bytes, err));
    if (b->ring_memory != NULL)
        CS_TRY(cs_ring_attach(b->ring_memory, b->ring_bytes, &b->ring, err));
    if (b->pool_memory == NULL)
        return cs_fail(err, CS_INVALID, "worker.boot: without a slot pool there is nothing to do");
    return cs_pool_attach(b->pool_memory, b->pool_bytes, &b->plan->budget, b->rank, &b->pool, err);
}

/* plans of matrix products: those that the job has measured before */
static enum cs_status keep_plans(struct cs_boot *b, struct cs_err *err)
{
    const char *job_dir = cs_msg_str(b->msg, "job_dir", "");
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
    CS_TRY(cs_device_open(cs_msg_str(b->msg, "device", "cpu:0"),
                          cs_msg_str(b->msg, "precision", NULL), &b->device, err));
    CS_TRY(keep_plans(b, err));
    if (b->device.mem != NULL && b->plan->n_ranks > 1)
        CS_TRY(cs_channels_new(&b->device, b->plan, b->rank, b->comm, 0, &b->channels, err));
    return cs_replicas_new(&b->device, b->plan, b->rank, b->comm,
                           (int)cs_msg_int(b->msg, "deadline_ms", 0), &b->replicas, err);
}

/* Fresh or source weights first, then what the checkpoint holds of them. */
static enum cs_status load_weights(struct cs_boot *b, struct cs_err *err)
{
    const char *resume = cs_msg_str(b->msg, "resume", "");
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_params_load(b->trainer->params, b->spec->seed, err));
    if (*resume == '\0')
        return CS_OK;
    CS_TRY(cs_ckpt_open(resume, &ckpt, err));
    const enum cs_status status = cs_params_resume(b->trainer->params, ckpt, NULL, err);
    b->trainer->optim->n_skipped = cs_msg_int(cs_ckpt_trainer(ckpt), "skipped", 0);
    cs_ckpt_close(ckpt);
    return status;
}

static enum cs_status open_all(struct cs_boot *b, struct cs_err *err)
{
    CS_TRY(read_values(b, err));
    CS_TRY(map_memory(b, err));
    CS_TRY(connect_peers(b, err));
    CS_TRY(open_device(b, err));
    const struct cs_trainer_config config = {
        .spec = b->spec,
        .graph = b->graph,
        .plan = b->plan,
        .device = &b->device,
        .comm = b->comm,
        .channels = b->channels,
        .replicas = b->replicas,
        .ring = b->ring_memory != NULL ? &b->ring : NULL,
        .rank = b->rank,
        .deadline_ms = (int)cs_msg_int(b->msg, "deadline_ms", 0),
    };
    CS_TRY(cs_trainer_new(&config, &b->trainer, err));
    return load_weights(b, err);
}

enum cs_status cs_boot_open(json_t *msg, struct cs_boot *boot, struct cs_err *err)
{
    *boot = (struct cs_boot){.msg = msg, .rank = -1};
    const enum cs_status status = open_all(boot, err);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "starting rank %d", boot->rank);
}

void cs_boot_close(struct cs_boot *boot)
{
    cs_replicas_free(boot->replicas);
    cs_trainer_free(boot->trainer);
    cs_channels_free(boot->channels);
    cs_device_close(&boot->device);
    if (boot->comm != NULL)
        boot->comm->table->free(boot->comm);
    cs_pool_detach(boot->pool);
    if (boot->ring_memory != NULL)
        munmap(boot->ring_memory, boot->ring_bytes);
    if (boot->pool_memory != NULL)
        munmap(boot->pool_memory, boot->pool_bytes);
    free(boot->ckpt_dir);
    cs_arena_free(boot->arena);
    json_decref(boot->msg);
    *boot = (struct cs_boot){.rank = -1};
}

enum cs_status cs_boot_ready(struct cs_boot *boot, json_t **ready, struct cs_err *err)
{
    const struct cs_program *program;
    const int slots = boot->plan->slots > 0 ? cs_plan_own_slots(boot->plan, boot->plan->slots) : 1;
    CS_TRY(cs_trainer_program(boot->trainer, slots, false, &program, err));
    int64_t held = 0, trained = 0;
    for (int32_t i = 0; i < boot->trainer->params->n; i++) {
        const struct cs_shard *t = &boot->trainer->params->shard[i];
        held += t->is_counted ? t->param->count : 0;
        trained += t->is_counted && t->grad != NULL ? t->param->count : 0;
    }
    *ready = cs_msg_new("worker.ready");
    cs_msg_set_int(*ready, "rank", boot->rank);
    cs_msg_set_str(*ready, "program_hash", program->hash);
    cs_msg_set_int(*ready, "params", held);
    cs_msg_set_int(*ready, "trained", trained);
    const struct cs_params *params = boot->trainer->params;
    const struct cs_exec_memory m = cs_exec_memory(boot->trainer->exec);
    cs_msg_set_int(*ready, "state_bytes", (int64_t)(params->weight_bytes + params->state_bytes));
    cs_msg_set_int(*ready, "activation_bytes", (int64_t)m.kept);
    cs_msg_set_int(*ready, "scratch_bytes", (int64_t)(m.scratch + m.boundary));
    return CS_OK;
}
