/* The simulated step goes into the trace, so that it can be drawn above the measured ones. The first steps of a run
 * tell what its stages cost; the prediction is then made again. Before that, where the feeder has announced the first
 * step, it is made again for slots that are as full as that step's. */
#include "runner/steps/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/cores.h"
#include "core/base/system/io.h"
#include "core/base/units.h"
#include "core/plan/cost/slot_fill.h"
#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "core/sched/sim/waits.h"
#include "core/wire/wire.h"
#include "runner/state/records.h"

static bool is_cpu(const struct cs_runner *r)
{
    return strcmp(r->generation.cluster.device->name, "cpu") == 0;
}

static enum cs_status write_record(struct cs_runner *r, const struct cs_program *program,
                                   const struct cs_sim_result *sim, bool is_again,
                                   struct cs_arena *arena, struct cs_err *err)
{
    const struct cs_span_keys *keys = NULL;
    const struct cs_plan *plan = r->generation.plan;
    const int32_t world = cs_plan_world(plan);
    struct cs_span_events *events = CS_NEW_ARRAY(arena, struct cs_span_events, world);
    CS_TRY(cs_keys_get(&r->generation.keys, plan->slots, false, &keys, err));
    for (int i = 0; i < world; i++) { /* one replica was simulated: they are alike */
        const int at = cs_plan_rank_in_replica(plan, i);
        events[i] = (struct cs_span_events){sim->events[at], program->rank[at].n_actions};
    }
    const struct cs_trace_record record = {.type = CS_TRACE_PREDICTED,
                                           .step = -1,
                                           .n_slots = plan->slots,
                                           .n_ranks = world,
                                           .events = events};
    return is_again ? cs_tracelog_predict_again(r->trace, &record, keys, err)
                    : cs_tracelog_predict(r->trace, &record, keys, err);
}

static enum cs_status simulate(struct cs_runner *r, const struct cs_sim_options *options,
                               bool is_again, int64_t *step_ns, struct cs_err *err)
{
    const struct cs_plan *plan = r->generation.plan;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_program *program = NULL;
    struct cs_sim_result sim;
    enum cs_status status = cs_program_make(
        plan, r->job.graph, cs_plan_own_slots(plan, plan->slots), false, arena, &program, err);
    if (status == CS_OK)
        status = cs_simulate(program, options, arena, &sim, err);
    if (status == CS_OK)
        status = write_record(r, program, &sim, is_again, arena, err);
    if (status == CS_OK)
        *step_ns = sim.makespan_ns;
    cs_arena_free(arena);
    return status;
}

enum cs_status cs_run_predict(struct cs_runner *r, struct cs_err *err)
{
    struct cs_device_class device = *r->generation.cluster.device;
    const struct cs_sim_options options = {.cost = cs_predict_cost, .user = &device};
    char path[CS_PATH_CAP + 16];
    int64_t step_ns;
    /* a profile is of the run that measured it: until this one has, readers show the plan's */
    snprintf(path, sizeof path, "%s/profile.json", r->job.dir);
    unlink(path);
    r->measured = cs_measured_new(r->generation.plan->n_stages, r->generation.plan->n_ranks,
                                  r->generation.cluster.device, r->job.arena);
    return simulate(r, &options, false, &step_ns, err);
}

/* 0: as if there were no limit; ranks on GPUs share none */
static int32_t cores_of(const struct cs_runner *r)
{
    return is_cpu(r) ? cs_usable_cores() : 0;
}

static enum cs_status write_profile(struct cs_runner *r, int32_t cores, struct cs_err *err)
{
    char path[CS_PATH_CAP + 16];
    struct cs_buf text = {0};
    json_t *doc = cs_measured_encode(r->measured, cores);
    cs_msg_set_str(doc, "plan_hash", r->generation.plan->hash);
    snprintf(path, sizeof path, "%s/profile.json", r->job.dir);
    cs_json_pretty(doc, &text);
    enum cs_status status = cs_write_file_atomic(path, text.data, text.len, 0600, err);
    cs_buf_free(&text);
    json_decref(doc);
    return status;
}

/* Rows of a step over its slots; false: it has none, or slots are as full as they can be and have one sample each. */
static bool fill_of(const struct cs_runner *r, const struct cs_step_report *report,
                    struct cs_slot_fill *out)
{
    const struct cs_plan *plan = r->generation.plan;
    const double slots = plan->slots, rows = (double)report->rows[0],
                 samples = (double)report->samples;
    if (slots < 1 || rows < 1 || samples < 1)
        return false;
    *out = (struct cs_slot_fill){.rows = rows / slots, .document = rows / fmax(samples, slots)};
    for (int e = 0; e < plan->budget.n_encoders; e++)
        out->items[e] =
            (double)report->rows[e + 1] / fmax(1, (double)plan->budget.enc[e].rows * slots);
    return true;
}

static enum cs_status predict_filled(struct cs_runner *r, const struct cs_slot_fill *fill,
                                     struct cs_err *err)
{
    const struct cs_plan *plan = r->generation.plan;
    const int32_t cores = cores_of(r);
    const struct cs_sim_options options = {
        .cost = cs_measured_sim_cost, .user = r->measured, .cores = cores};
    int32_t *permille = CS_NEW_ARRAY(r->job.arena, int32_t, plan->n_stages + 1);
    int64_t step_ns, full_ns = r->predicted_step_ns;
    CS_TRY(cs_slot_fill_permille(r->job.spec, r->job.graph, plan, r->generation.cluster.device,
                                 fill, permille, err));
    r->measured->permille = permille;
    CS_TRY(write_profile(r, cores, err));
    CS_TRY(simulate(r, &options, true, &step_ns, err));
    r->predicted_step_ns = step_ns;
    cs_run_note(r, CS_INFO,
                "slots as full as those of the first step: predicted step %.2f ms (%.2f ms when "
                "they are full)",
                (double)step_ns / 1e6, (double)full_ns / 1e6);
    cs_run_emit_state(r);
    return CS_OK;
}

void cs_run_predict_filled(struct cs_runner *r, const struct cs_step_report *report)
{
    struct cs_slot_fill fill;
    struct cs_err err = {0};
    if (report->is_eval || r->measured == NULL || r->measured->permille != NULL ||
        !fill_of(r, report, &fill))
        return;
    if (predict_filled(r, &fill, &err) != CS_OK)
        cs_run_note(r, CS_WARN, "the prediction is of full slots: %s", err.text);
}

static enum cs_status fit_waits(struct cs_runner *r, int32_t cores, struct cs_err *err)
{
    const struct cs_plan *plan = r->generation.plan;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_program *program = NULL;
    enum cs_status status = cs_program_make(
        plan, r->job.graph, cs_plan_own_slots(plan, plan->slots), false, arena, &program, err);
    if (status == CS_OK)
        status = cs_measured_fit_waits(r->measured, program, cores, err);
    cs_arena_free(arena);
    return status;
}

static enum cs_status calibrate(struct cs_runner *r, struct cs_err *err)
{
    const int32_t cores = cores_of(r);
    int64_t step_ns, before_ns = r->predicted_step_ns;
    const struct cs_sim_options options = {
        .cost = cs_measured_sim_cost, .user = r->measured, .cores = cores};
    CS_TRY(fit_waits(r, cores, err));
    CS_TRY(write_profile(r, cores, err));
    CS_TRY(simulate(r, &options, true, &step_ns, err));
    r->predicted_step_ns = step_ns;
    char hop[CS_UNITS_CAP], rest[CS_UNITS_CAP];
    cs_duration_print(hop, sizeof hop, (uint64_t)r->measured->hop_ns);
    cs_duration_print(rest, sizeof rest, (uint64_t)r->measured->rest_ns);
    cs_run_note(r, CS_INFO,
                "calibrated: predicted step %.2f ms (was %.2f ms); beside work a message takes %s, "
                "a step %s",
                (double)step_ns / 1e6, (double)before_ns / 1e6, hop, rest);
    cs_run_emit_state(r);
    return CS_OK;
}

/* Of the ranks that run one program the first is looked at: the others do as much. */
static void add_measured(struct cs_runner *r, const struct cs_span_keys *keys,
                         const struct cs_span_events *events)
{
    const struct cs_plan *plan = r->generation.plan;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_span_keys *key = CS_NEW_ARRAY(arena, struct cs_span_keys, plan->n_ranks);
    struct cs_span_events *event = CS_NEW_ARRAY(arena, struct cs_span_events, plan->n_ranks);
    for (int32_t i = 0; i < plan->n_ranks; i++) {
        key[i] = keys[cs_plan_rank_of(plan, 0, i)];
        event[i] = events[cs_plan_rank_of(plan, 0, i)];
    }
    cs_measured_add(r->measured, key, event);
    cs_arena_free(arena);
}

void cs_run_measure(struct cs_runner *r, int64_t step, int64_t step_ns,
                    const struct cs_span_keys *keys, const struct cs_span_events *events)
{
    struct cs_err err = {0};
    const int64_t nth = step - r->job.first_step,
                  first = is_cpu(r) ? CS_CALIBRATE_FIRST : CS_CALIBRATE_GPU_FIRST;
    if (!r->measured || nth < first)
        return;
    add_measured(r, keys, events);
    cs_measured_note_step(r->measured, step_ns);
    if (nth < first + CS_CALIBRATE_STEPS - 1)
        return;
    if (calibrate(r, &err) != CS_OK)
        cs_run_note(r, CS_WARN, "the prediction is not calibrated: %s", err.text);
    r->measured = NULL; /* once a run; memory of the job's arena */
}
