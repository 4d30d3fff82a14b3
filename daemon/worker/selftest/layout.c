/* A golden over the ranks of a layout: every rank is a thread with a device, sockets to the others, the
 * communicators of replicas and a trainer, as a worker of a job has them. */
#include <unistd.h>

#include "worker/selftest/outcome.h"
#include "worker/selftest/ranks.h"

enum { DEADLINE_MS = 60000 };

struct spread {
    struct cs_golden *golden;
    struct cs_outcome *outcome;
};

/* what one rank has of its own */
struct rank {
    struct cs_device device;
    struct cs_comm *comm;
    struct cs_replicas *replicas;
    struct cs_trainer *trainer;
};

static enum cs_status connect_rank(const struct cs_golden *g, int rank, const int *fds,
                                   struct rank *r, struct cs_err *err)
{
    const int n = cs_plan_world(g->plan);
    if (n > 1)
        CS_TRY(cs_comm_socket_new(rank, n, fds, &r->comm, err));
    CS_TRY(cs_device_open("cpu:0", NULL, &r->device, err));
    return cs_replicas_new(&r->device, g->plan, rank, r->comm, DEADLINE_MS, &r->replicas, err);
}

static enum cs_status train(const struct spread *s, int rank, const int *fds, struct rank *r,
                            struct cs_err *err)
{
    struct cs_golden *g = s->golden;
    CS_TRY(connect_rank(g, rank, fds, r, err));
    const struct cs_trainer_config config = {
        .spec = g->spec,
        .graph = g->graph,
        .plan = g->plan,
        .device = &r->device,
        .comm = r->comm,
        .replicas = r->replicas,
        .rank = rank,
        .deadline_ms = DEADLINE_MS,
    };
    CS_TRY(cs_trainer_new(&config, &r->trainer, err));
    CS_TRY(cs_params_load(r->trainer->params, g->spec->seed, err));
    return cs_outcome_train(s->outcome, g, r->trainer, err);
}

static enum cs_status run_rank(void *user, int rank, const int *fds, struct cs_err *err)
{
    struct rank r = {.comm = NULL};
    const enum cs_status status = train(user, rank, fds, &r, err);
    cs_replicas_free(r.replicas);
    cs_trainer_free(r.trainer);
    if (r.comm != NULL)
        r.comm->table->free(r.comm);
    cs_device_close(&r.device);
    return status;
}

static enum cs_status check_request(const struct cs_golden *g, struct cs_err *err)
{
    if (cs_golden_has(g, "in.probe"))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s is a tower alone: layouts are of models with a language model", g->dir);
    if (g->device->mem != NULL)
        return cs_fail(
            err, CS_UNSUPPORTED,
            "layouts of a golden run on CPU cores: leave out --device; `scripts/gpu-test "
            "--layouts` runs jobs in the layouts of a machine's GPUs");
    return CS_OK;
}

/* On one rank: what the layout is compared with. */
static enum cs_status run_one(struct cs_golden *g, struct cs_outcome *outcome, struct cs_err *err)
{
    CS_TRY(check_request(g, err));
    CS_TRY(cs_golden_fill(g, err));
    cs_outcome_new(g, outcome);
    return cs_outcome_train(outcome, g, g->trainer, err);
}

static enum cs_status run_many(struct cs_golden *g, struct cs_outcome *outcome, struct cs_err *err)
{
    struct spread s = {.golden = g, .outcome = outcome};
    CS_TRY(cs_golden_fill(g, err));
    cs_outcome_new(g, outcome);
    return cs_selftest_run_ranks(cs_plan_world(g->plan), run_rank, &s, err);
}

static enum cs_status compare(struct cs_golden *one, struct cs_golden *many,
                              struct cs_selftest *out, struct cs_err *err)
{
    struct cs_outcome of_one, of_many;
    cs_golden_name(one, out);
    CS_TRY(run_one(one, &of_one, err));
    CS_TRY(run_many(many, &of_many, err));
    if (!one->layout->is_bare)
        CS_TRY(cs_outcome_check_first(&of_many, many, out, err));
    cs_outcome_check_same(&of_many, &of_one, many, out);
    return CS_OK;
}

enum cs_status cs_golden_check_layout(const struct cs_selftest_request *request,
                                      struct cs_device *device, struct cs_selftest *out,
                                      struct cs_err *err)
{
    const struct cs_selftest_request *r = request;
    struct cs_golden one = {.dir = NULL}, many = {.dir = NULL};
    *out = (struct cs_selftest){.n_checks = 0};
    if (r->written != NULL)
        return cs_fail(err, CS_INVALID, "what one rank trained is written: leave out the layout");
    enum cs_status status = cs_golden_open(r->dir, r->adapter, r->layout, false, device, &one, err);
    if (status == CS_OK)
        status = cs_golden_open(r->dir, r->adapter, r->layout, true, device, &many, err);
    if (status == CS_OK)
        status = compare(&one, &many, out, err);
    cs_golden_close(&many);
    cs_golden_close(&one);
    return status;
}
