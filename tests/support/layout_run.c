/* Ranks of a job with what each has of it: channels, communicators, a trainer. */
#include "support/layout_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/groups.h"
#include "support/device.h"
#include "support/lazy_device.h"
#include "support/lazy_pending.h"

struct run {
    struct layout_job job;
    struct layout_outcome *outcome; /* of all ranks */
    bool is_lazy;                   /* devices with streams (support/lazy_device.h) */
};

const int layout_single[16];

static enum cs_status run_rank(void *user, int rank, const int *fds, struct cs_err *err)
{
    const struct run *r = user;
    const struct cs_test_planned *made = &r->job.made;
    struct cs_device *device = r->is_lazy ? cs_lazy_device_new() : cs_test_device();
    struct cs_comm *comm = NULL;
    struct cs_channels *channels = NULL;
    struct cs_context_comm *context = NULL, *sharers = NULL, *items = NULL, *copies = NULL,
                           *experts = NULL;
    struct cs_replicas *replicas = NULL;
    struct cs_trainer *t = NULL;
    enum cs_status status = CS_OK;
    const int n = cs_plan_world(made->plan);
    if (n > 1)
        status = cs_comm_socket_new(rank, n, fds, &comm, err);
    if (status == CS_OK && r->is_lazy && made->plan->n_ranks > 1)
        status = cs_channels_new(device, made->plan, rank, comm, 60000, &channels, err);
    if (status == CS_OK)
        status =
            cs_context_comm_new(device, made->plan, CS_GROUP_CP, rank, comm, 60000, &context, err);
    if (status == CS_OK)
        status =
            cs_context_comm_new(device, made->plan, CS_GROUP_TP, rank, comm, 60000, &sharers, err);
    if (status == CS_OK)
        status = cs_context_comm_new(device, made->plan, CS_GROUP_COPIES, rank, comm, 60000,
                                     &copies, err);
    if (status == CS_OK)
        status =
            cs_context_comm_new(device, made->plan, CS_GROUP_ITEMS, rank, comm, 60000, &items, err);
    if (status == CS_OK)
        status =
            cs_context_comm_new(device, made->plan, CS_GROUP_EP, rank, comm, 60000, &experts, err);
    if (status == CS_OK)
        status = cs_replicas_new(device, made->plan, rank, comm, 60000, &replicas, err);
    const struct cs_trainer_config config = {
        .spec = made->spec,
        .graph = made->graph,
        .plan = made->plan,
        .device = device,
        .comm = comm,
        .channels = channels,
        .context = context,
        .sharers = sharers,
        .items = items,
        .experts = experts,
        .copies = copies,
        .replicas = replicas,
        .rank = rank,
        .deadline_ms = 60000,
    };
    if (status == CS_OK)
        status = cs_trainer_new(&config, &t, err);
    if (status == CS_OK)
        status = layout_train(&r->job, t, r->outcome, err);
    cs_replicas_free(replicas);
    cs_trainer_free(t);
    cs_context_comm_free(copies);
    cs_context_comm_free(experts);
    cs_context_comm_free(items);
    cs_context_comm_free(sharers);
    cs_context_comm_free(context);
    cs_channels_free(channels);
    if (r->is_lazy)
        cs_lazy_device_free(device);
    if (comm != NULL)
        comm->table->free(comm);
    return status;
}

static bool keeps_values(const struct cs_test_spec *options)
{
    return options->slots == LAYOUT_REPLICA_SLOTS || options->slots == LAYOUT_LANE_SLOTS;
}

/* ranks: of every stage, NULL: as planned */
static void open_job(struct layout_job *job, const struct cs_test_spec *options, const int *ranks)
{
    *job = (struct layout_job){.made = cs_test_plan(options)};
    cs_test_plan_reread(&job->made);
    if (ranks != NULL) {
        job->made.plan->n_ranks = 1;
        for (int i = 0; i < job->made.plan->n_stages; i++) {
            job->made.plan->stages[i].rank = ranks[i];
            if (ranks[i] >= job->made.plan->n_ranks)
                job->made.plan->n_ranks = ranks[i] + 1;
        }
        cs_plan_make_groups(job->made.plan, job->made.arena);
    }
    for (int i = 0; i < job->made.plan->n_stages; i++)
        job->made.plan->stages[i].offloads =
            options->offloads && job->made.plan->stages[i].has_backward;
    assert_true(job->made.graph->n_params < LAYOUT_PARAMS - 1);
    /* samples with and without pictures; step 2 has none at all, its last slot is empty */
    for (int s = 0; s < LAYOUT_STEPS; s++) {
        cs_test_step_new(&job->step[s], &job->made.plan->budget,
                         keeps_values(options) ? options->slots : LAYOUT_SLOTS, s);
        cs_test_step_random(&job->step[s], (uint64_t)s + 5, 199, s == 2 ? 0 : 60);
    }
}

void layout_run_on(bool is_lazy, const struct cs_test_spec *options, const int *ranks,
                   struct layout_outcome *out)
{
    struct run run = {.outcome = out, .is_lazy = is_lazy};
    struct layout_job *const job = &run.job;
    memset(out, 0, sizeof *out);
    out->keeps_values = keeps_values(options);
    open_job(job, options, ranks);
    const int n = cs_plan_world(job->made.plan);
    cs_test_run_ranks(n, run_rank, &run);
    const char *race = cs_lazy_race();
    if (race != NULL)
        fail_msg("%s", race);
    out->n_params = job->made.graph->n_params;
    out->n_ranks = n;
    const struct cs_plan *plan = job->made.plan;
    const bool is_apart = plan->is_tied_across && plan->stages[plan->embed_stage].rank !=
                                                      plan->stages[plan->head_stage].rank;
    for (int i = 0; i < LAYOUT_SHARERS; i++) { /* both ends of a tied embedding stay one */
        const bool is_there = is_apart && i < cs_plan_shape(plan, plan->head_stage).tp;
        assert_int_equal(strlen(out->tied_copy[i]), is_there ? 32 : 0);
        assert_string_equal(out->tied_copy[i], out->tied_table[i]);
    }
    for (int i = 0; i < job->made.graph->n_params; i++) {
        const bool is_same = strcmp(out->before[i], out->hash[i]) == 0;
        if (is_same == job->made.graph->params[i].is_trainable)
            fail_msg("%s %s changed", job->made.graph->params[i].name,
                     is_same ? "is trained and has not" : "is frozen and has");
    }
    for (int s = 0; s < LAYOUT_STEPS; s++)
        cs_test_step_free(&job->step[s]);
    cs_test_planned_free(&job->made);
}

void layout_run(const struct cs_test_spec *options, const int *ranks, struct layout_outcome *out)
{
    layout_run_on(false, options, ranks, out);
}

void layout_free(struct layout_outcome *o)
{
    for (int i = 0; i < LAYOUT_PARAMS; i++)
        free(o->value[i]);
}
