/* Makes what a rank needs for one generation, in the order of what depends on what, and takes it
 * apart again. */
#include "worker/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/plan/json/plan_json.h"
#include "core/wire/wire.h"

static enum cs_status name_checkpoints(struct cs_generation *g, struct cs_err *err)
{
    const char *elsewhere = g->spec->checkpoint_dir;
    const char *job_dir = cs_msg_str(g->msg, "job_dir", "");
    const bool is_elsewhere = elsewhere != NULL && *elsewhere != '\0';
    const size_t room = strlen(job_dir) + sizeof "/ckpt";
    g->ckpt_dir = is_elsewhere ? strdup(elsewhere) : malloc(room);
    if (g->ckpt_dir == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a path");
    if (!is_elsewhere)
        snprintf(g->ckpt_dir, room, "%s/ckpt", job_dir);
    return CS_OK;
}

static enum cs_status read_values(struct cs_generation *g, struct cs_err *err)
{
    const int64_t ranks = cs_msg_int(g->msg, "ranks", 0);
    g->rank = (int)cs_msg_int(g->msg, "rank", -1);
    g->id = cs_msg_int(g->msg, "generation", 0);
    g->deadline_ms = (int)cs_msg_int(g->msg, "deadline_ms", 0);
    g->arena = cs_arena_new(0);
    CS_TRY(cs_spec_read(cs_msg_obj(g->msg, "spec"), g->arena, &g->spec, err));
    CS_TRY(cs_graph_build(g->spec, true, g->arena, &g->graph, err));
    CS_TRY(cs_plan_read(cs_msg_obj(g->msg, "plan"), g->graph, g->arena, &g->plan, err));
    const int world = cs_plan_world(g->plan);
    if (ranks != world || g->rank < 0 || g->rank >= world)
        return cs_fail(err, CS_INVALID, "worker.boot: rank %d of %lld, but the plan has %d rank%s",
                       g->rank, (long long)ranks, world, CS_PLURAL(world));
    return name_checkpoints(g, err);
}

static enum cs_status connect_peers(struct cs_generation *g, struct cs_err *err)
{
    const int n = cs_plan_world(g->plan);
    json_t *peers = cs_msg_arr(g->msg, "peers"), *peer;
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
        if (rank < 0 || rank >= n || rank == g->rank || fds[rank] != -1 || fd < 3 || fd > 65535) {
            status = cs_fail(err, CS_INVALID, "worker.boot: peers[%zu] is rank %lld on %lld", i,
                             (long long)rank, (long long)fd);
            break;
        }
        fds[rank] = (int)fd;
    }
    if (status == CS_OK)
        status = cs_comm_socket_new(g->rank, n, fds, &g->comm, err);
    free(fds);
    return status;
}

/* Channels, those that share a stage, and replicas, in one order on all ranks. */
static enum cs_status connect_devices(struct cs_generation *g, struct cs_device *device,
                                      struct cs_err *err)
{
    if (device->mem != NULL && g->plan->n_ranks > 1)
        CS_TRY(cs_channels_new(device, g->plan, g->rank, g->comm, 0, &g->channels, err));
    CS_TRY(
        cs_context_comm_new(device, g->plan, CS_GROUP_CP, g->rank, g->comm, 0, &g->context, err));
    CS_TRY(
        cs_context_comm_new(device, g->plan, CS_GROUP_TP, g->rank, g->comm, 0, &g->sharers, err));
    CS_TRY(
        cs_context_comm_new(device, g->plan, CS_GROUP_ITEMS, g->rank, g->comm, 0, &g->items, err));
    CS_TRY(
        cs_context_comm_new(device, g->plan, CS_GROUP_EP, g->rank, g->comm, 0, &g->experts, err));
    CS_TRY(cs_context_comm_new(device, g->plan, CS_GROUP_COPIES, g->rank, g->comm, 0, &g->copies,
                               err));
    return cs_replicas_new(device, g->plan, g->rank, g->comm, g->deadline_ms, &g->replicas, err);
}

/* A checkpoint of a job that trained something else may lack what is trained now; one of the same
 * training may not. */
static enum cs_status check_whole(const struct cs_generation *g, const struct cs_ckpt *ckpt,
                                  int32_t n_missing, struct cs_err *err)
{
    const char *trained = cs_msg_str(cs_ckpt_info(ckpt), "trained_hash", "");
    if (n_missing == 0 || strcmp(trained, g->spec->trained_hash) != 0)
        return CS_OK;
    return cs_fail(err, CS_CORRUPT,
                   "the checkpoint of step %lld lacks %d trained parameters of rank %d",
                   (long long)cs_ckpt_step(ckpt), n_missing, g->rank);
}

/* Fresh or source weights first, then what the checkpoint holds of them. */
static enum cs_status load_weights(struct cs_generation *g, struct cs_err *err)
{
    const char *resume = cs_msg_str(g->msg, "resume", "");
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_params_load(g->trainer->params, g->spec->seed, err));
    if (*resume == '\0')
        return CS_OK;
    CS_TRY(cs_ckpt_open(resume, &ckpt, err));
    int32_t n_missing = 0;
    enum cs_status status = cs_params_resume(g->trainer->params, ckpt, &n_missing, err);
    if (status == CS_OK)
        status = check_whole(g, ckpt, n_missing, err);
    g->trainer->optim->n_skipped = cs_msg_int(cs_ckpt_trainer(ckpt), "skipped", 0);
    cs_ckpt_close(ckpt);
    return status;
}

enum cs_status cs_generation_read(json_t *msg, struct cs_generation *out, struct cs_err *err)
{
    *out = (struct cs_generation){.msg = msg, .rank = -1};
    cs_laps_begin(&out->laps);
    CS_TRY(read_values(out, err));
    cs_laps_take(&out->laps, "plan");
    return CS_OK;
}

enum cs_status cs_generation_enter(struct cs_generation *generation, struct cs_device *device,
                                   struct cs_ring *ring, struct cs_err *err)
{
    struct cs_generation *g = generation;
    CS_TRY(connect_peers(g, err));
    CS_TRY(connect_devices(g, device, err));
    cs_laps_take(&g->laps, "communicators");
    const struct cs_trainer_config config = {
        .spec = g->spec,
        .graph = g->graph,
        .plan = g->plan,
        .device = device,
        .comm = g->comm,
        .channels = g->channels,
        .context = g->context,
        .sharers = g->sharers,
        .items = g->items,
        .experts = g->experts,
        .copies = g->copies,
        .replicas = g->replicas,
        .ring = ring,
        .rank = g->rank,
        .deadline_ms = g->deadline_ms,
        .laps = &g->laps,
    };
    CS_TRY(cs_trainer_new(&config, &g->trainer, err));
    CS_TRY(load_weights(g, err));
    cs_laps_take(&g->laps, "weights");
    return CS_OK;
}

void cs_generation_leave(struct cs_generation *generation)
{
    struct cs_generation *g = generation;
    cs_replicas_free(g->replicas);
    cs_trainer_free(g->trainer);
    cs_context_comm_free(g->copies);
    cs_context_comm_free(g->experts);
    cs_context_comm_free(g->items);
    cs_context_comm_free(g->sharers);
    cs_context_comm_free(g->context);
    cs_channels_free(g->channels);
    if (g->comm != NULL)
        g->comm->table->free(g->comm);
    free(g->ckpt_dir);
    cs_arena_free(g->arena);
    json_decref(g->msg);
    *g = (struct cs_generation){.rank = -1};
}
