/* The simulator in nanoseconds: events, bubbles and counts of a run. */
#include "core/sched/sim/sim.h"

#include <string.h>

#include "core/sched/sim/count.h"
#include "core/sched/sim/run.h"

static void copy_events(const struct cs_precedence *graph, const struct cs_engine_result *from,
                        struct cs_arena *arena, struct cs_sim_result *out)
{
    const struct cs_program *program = graph->program;
    out->events = CS_NEW_ARRAY(arena, struct cs_event *, program->n_ranks);
    for (int32_t r = 0; r < program->n_ranks; r++) {
        uint32_t n = program->rank[r].n_actions;
        out->events[r] = CS_NEW_ARRAY(arena, struct cs_event, n + 1);
        for (uint32_t i = 0; i < n; i++) {
            double start = from->start[graph->base[r] + i], end = from->end[graph->base[r] + i];
            bool is_compute =
                cs_op_stream((enum cs_op)program->rank[r].actions[i].op) == CS_STREAM_COMPUTE;
            double cpu_us = is_compute ? (end - start) / 1000 : 0;
            out->events[r][i] =
                (struct cs_event){.start_ns = (uint64_t)start,
                                  .end_ns = (uint64_t)end,
                                  .action = i,
                                  .value = cpu_us < INT32_MAX ? (int32_t)cpu_us : INT32_MAX,
                                  .kind = CS_EVENT_ACTION,
                                  .flags = program->is_eval ? CS_EVENT_EVAL : 0};
        }
    }
}

static void count_stages(const struct cs_precedence *graph, const struct cs_engine_result *run,
                         struct cs_arena *arena, struct cs_sim_result *out)
{
    int32_t n = graph->program->plan->n_stages;
    struct cs_engine_count *count = CS_NEW_ARRAY(arena, struct cs_engine_count, n + 1);
    int32_t *group = CS_NEW_ARRAY(arena, int32_t, n + 1);
    for (int32_t s = 0; s < n; s++)
        group[s] = s;
    cs_engine_count(graph, run, group, n, arena, count);
    out->busy_ns = CS_NEW_ARRAY(arena, int64_t, n);
    out->stage_exposed_ns = CS_NEW_ARRAY(arena, int64_t, n);
    out->stage_span_ns = CS_NEW_ARRAY(arena, int64_t, n);
    out->stage_span_idle_ns = CS_NEW_ARRAY(arena, int64_t, n);
    out->bubble = CS_NEW_ARRAY(arena, double, n);
    out->peak = CS_NEW_ARRAY(arena, int32_t, n);
    out->left = CS_NEW_ARRAY(arena, int32_t, n);
    for (int32_t s = 0; s < n; s++) {
        out->busy_ns[s] = (int64_t)count[s].busy;
        out->bubble[s] = run->makespan > 0 ? 1 - count[s].busy / run->makespan : 0;
        out->peak[s] = count[s].peak;
        out->left[s] = count[s].left;
        out->stage_exposed_ns[s] = (int64_t)count[s].exposed;
        out->stage_span_ns[s] = (int64_t)(count[s].first < 0 ? 0 : count[s].last - count[s].first);
        out->stage_span_idle_ns[s] = (int64_t)count[s].span_idle;
    }
}

static void count_ranks(const struct cs_precedence *graph, const struct cs_engine_result *run,
                        struct cs_arena *arena, struct cs_sim_result *out)
{
    int32_t n = graph->program->n_ranks;
    struct cs_engine_rank *rank = CS_NEW_ARRAY(arena, struct cs_engine_rank, n + 1);
    cs_engine_ranks(graph, run, arena, rank);
    out->span_idle_ns = CS_NEW_ARRAY(arena, int64_t, n);
    out->exposed_ns = CS_NEW_ARRAY(arena, int64_t, n);
    out->peak_bytes = CS_NEW_ARRAY(arena, int64_t, n);
    for (int32_t r = 0; r < n; r++) {
        out->span_idle_ns[r] = (int64_t)rank[r].span_idle;
        out->exposed_ns[r] = (int64_t)rank[r].exposed;
        out->peak_bytes[r] = rank[r].peak_bytes;
    }
    out->module_bubble =
        cs_engine_modules(graph->program->plan, rank, run->makespan, arena, &out->n_modules);
}

static void copy_critical(const struct cs_engine_result *run, struct cs_arena *arena,
                          struct cs_sim_result *out)
{
    out->n_critical = run->n_critical;
    out->critical = CS_NEW_ARRAY(arena, uint32_t, 2 * run->n_critical + 1);
    for (int32_t i = 0; i < run->n_critical; i++) {
        out->critical[2 * i] = (uint32_t)run->critical[i].rank;
        out->critical[2 * i + 1] = run->critical[i].action;
    }
}

static void copy_classes(const struct cs_repeat *repeat, struct cs_arena *arena,
                         struct cs_sim_result *out)
{
    size_t n = (size_t)repeat->n_copies;
    out->n_classes = repeat->n_classes;
    out->class_of = CS_NEW_ARRAY(arena, int32_t, n + 1);
    memcpy(out->class_of, repeat->class_of, n * sizeof *out->class_of);
}

enum cs_status cs_simulate(const struct cs_program *program, const struct cs_sim_options *options,
                           struct cs_arena *arena, struct cs_sim_result *out, struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    struct cs_sim_run run;
    enum cs_status status = cs_sim_run(program, options, scratch, &run, err);
    if (status == CS_OK) {
        *out = (struct cs_sim_result){.makespan_ns = (int64_t)run.result.makespan};
        count_stages(&run.graph, &run.result, arena, out);
        count_ranks(&run.graph, &run.result, arena, out);
        copy_events(&run.graph, &run.result, arena, out);
        copy_critical(&run.result, arena, out);
        copy_classes(&run.repeat, arena, out);
    }
    cs_arena_free(scratch);
    return status;
}
