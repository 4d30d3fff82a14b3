/* Plans a job for the devices that it has, and says which rank runs where. */
#include "runner/job/generation.h"

#include <stdio.h>
#include <string.h>

#include "core/base/units.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "core/sched/sim/predict.h"
#include "core/wire/wire.h"

void cs_run_rank_stages(const struct cs_plan *plan, int rank, char *out, size_t cap)
{
    size_t used = 0;
    snprintf(out, cap, "no stage");
    const int32_t place = cs_plan_place(plan, rank);
    rank = cs_plan_rank_in_replica(plan, rank); /* all replicas are alike */
    for (int s = 0; s < plan->n_stages && used < cap; s++) {
        if (plan->stages[s].rank != rank)
            continue;
        int n = snprintf(out + used, cap - used, "%s%s", used ? "+" : "", plan->stages[s].name);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < cap && cs_plan_width(plan, rank) > 1)
        snprintf(out + used, cap - used, " part %d of %d", place, cs_plan_width(plan, rank));
}

void cs_run_rank_name(const struct cs_plan *plan, int rank, char *out, size_t cap)
{
    char stages[200];
    cs_run_rank_stages(plan, rank, stages, sizeof stages);
    snprintf(out, cap, "rank %d (%s)", rank, stages);
}

/* "vision.0 4 layers on rank 0" of every stage, from a plan's own document */
static void describe(const struct cs_plan *plan, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    for (int s = 0; s < plan->n_stages && used < cap; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        int n = snprintf(out + used, cap - used, "%s%s %d layer%s on rank %d", s ? ", " : "",
                         stage->name, stage->n_layers, CS_PLURAL(stage->n_layers),
                         cs_plan_rank(plan, s, (struct cs_rank_at){0}));
        used += n > 0 ? (size_t)n : 0;
    }
}

/* The plan is another than previewed: say both, from the older plan.json when it is there. */
static enum cs_status refuse_plan(const struct cs_run_job *job, const struct cs_plan *plan,
                                  struct cs_err *err)
{
    char now[300], then[300] = "its stages are not known here";
    json_t *old_json = NULL;
    struct cs_plan *old = NULL;
    if (cs_run_job_document(job, "plan.json", &old_json, NULL) == CS_OK &&
        cs_plan_read(old_json, job->graph, job->arena, &old, NULL) == CS_OK &&
        strcmp(old->hash, job->spec->plan_hash) == 0)
        describe(old, then, sizeof then);
    json_decref(old_json);
    describe(plan, now, sizeof now);
    return cs_fail(err, CS_PLAN,
                   "the plan differs from the previewed one (no --replan). Previewed: %.12s (%s). "
                   "Now: %.12s (%s), predicted step %.3f ms",
                   job->spec->plan_hash, then, plan->hash, now,
                   (double)plan->predicted_step_ns / 1e6);
}

static enum cs_status write_plan(const struct cs_run_job *job, const json_t *plan,
                                 struct cs_err *err)
{
    char path[CS_PATH_CAP + 16];
    struct cs_buf text = {0};
    snprintf(path, sizeof path, "%s/plan.json", job->dir);
    cs_json_pretty(plan, &text);
    enum cs_status status = cs_write_file_atomic(path, text.data, text.len, 0600, err);
    cs_buf_free(&text);
    return status;
}

static enum cs_status make_plan(const struct cs_run_job *job, const struct cs_here *given,
                                bool is_replan, struct cs_run_generation *out, struct cs_err *err)
{
    const struct cs_here cpu = {.devices = CS_HERE_DEVICES};
    const struct cs_here *here = given->device ? given : &cpu;
    CS_TRY(cs_spec_cluster(job->spec, here, job->arena, &out->cluster, err));
    CS_TRY(cs_spec_check_precision(job->spec, out->cluster.device->name, err));
    CS_TRY(cs_plan_make(job->spec, job->graph, &out->cluster, job->arena, &out->plan, err));
    CS_TRY(cs_plan_predict(out->plan, job->graph, &out->cluster, job->arena, err));
    const char *previewed = job->spec->plan_hash;
    if (previewed && previewed[0] && strcmp(previewed, out->plan->hash) != 0 && !is_replan)
        return refuse_plan(job, out->plan, err);
    out->plan_json = cs_plan_json(out->plan, job->graph);
    return write_plan(job, out->plan_json, err);
}

/* The state file counts generations; the first run has none. */
static int64_t next_id(const struct cs_run_job *job)
{
    json_t *state = NULL;
    int64_t id = 0;
    if (cs_run_job_document(job, "state.json", &state, NULL) == CS_OK)
        id = cs_msg_int(state, "generation", -1) + 1;
    json_decref(state);
    return id;
}

static enum cs_status place_ranks(const struct cs_run_job *job,
                                  const struct cs_run_members *members,
                                  struct cs_run_generation *out, struct cs_err *err)
{
    const struct cs_here *here = &members->here;
    const bool is_gpu = strcmp(out->cluster.device->name, "cpu") != 0;
    out->n_ranks = cs_plan_world(out->plan);
    /* who leases devices knows how many there are; by hand it is what --devices says, or the usual */
    const int offered = here->device == out->cluster.device ? here->devices : CS_HERE_DEVICES;
    if (!members->lease && out->n_ranks > offered)
        return cs_fail(err, CS_PLAN, "the plan needs %d rank%s, this node offers %d", out->n_ranks,
                       CS_PLURAL(out->n_ranks), offered);
    return cs_rank_devices_read(members->lease, is_gpu, out->n_ranks, job->arena, &out->device,
                                err);
}

enum cs_status cs_run_generation_make(const struct cs_run_job *job,
                                      const struct cs_run_members *members, bool is_replan,
                                      struct cs_run_generation *out, struct cs_err *err)
{
    const struct cs_span_keys *keys;
    *out = (struct cs_run_generation){.id = next_id(job)};
    CS_TRY(make_plan(job, &members->here, is_replan, out, err));
    CS_TRY(place_ranks(job, members, out, err));
    out->keys = (struct cs_keys){.plan = out->plan, .graph = job->graph, .arena = job->arena};
    return cs_keys_get(&out->keys, out->plan->slots, false, &keys, err);
}

void cs_run_generation_end(struct cs_run_generation *generation)
{
    json_decref(generation->plan_json);
    *generation = (struct cs_run_generation){0};
}
