/* Writes job directories as a runner leaves them, with steps from the simulator. */
#include "tests/support/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/system/io.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "core/trace/tracefile.h"
#include "core/wire/wire.h"
#include "tests/support/tmpdir.h"

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != CS_OK)                                                                       \
            fail_msg("%s", err.text);                                                              \
    } while (0)

enum { FIRST_STEP = 40 };

static const int64_t wall_ns = INT64_C(1785000000000000000);

struct cs_test_spec cs_test_replay_spec(void)
{
    return (struct cs_test_spec){.vision_layers = 6,
                                 .vision_width = 256,
                                 .llm_layers = 12,
                                 .llm_width = 256,
                                 .vision_pp = 1,
                                 .llm_pp = 3,
                                 .slots = 6,
                                 .steps = 2000,
                                 .rules = "train:* freeze:vision.encoder*"};
}

static int64_t measured_cost(void *user, const struct cs_program *program, int rank,
                             const struct cs_action *action)
{
    const struct cs_device_class *device = user;
    struct cs_device_class copy = *device;
    int64_t ns = cs_predict_cost(&copy, program, rank, action);
    ns += ns / 50;
    if (action->stage >= 0 && action->stage == program->plan->n_stages - 1)
        ns += ns / 10;
    return ns;
}

static struct cs_span_keys *make_keys(const struct cs_program *program, struct cs_arena *arena)
{
    struct cs_span_keys *keys = CS_NEW_ARRAY(arena, struct cs_span_keys, program->n_ranks);
    for (int r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rank = &program->rank[r];
        struct cs_span_key *key = CS_NEW_ARRAY(arena, struct cs_span_key, rank->n_actions);
        for (uint32_t i = 0; i < rank->n_actions; i++) {
            const struct cs_action *a = &rank->actions[i];
            key[i] = (struct cs_span_key){.stage = a->stage,
                                          .peer = a->peer,
                                          .slot = a->slot,
                                          .letter = cs_op_letter((enum cs_op)a->op)[0],
                                          .is_compute =
                                              cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE,
                                          .is_grad = a->is_grad};
        }
        keys[r] = (struct cs_span_keys){key, rank->n_actions};
    }
    return keys;
}

/* Events of the simulator; a measured step also has a wait of 1000 ns per action before it. */
static void add_record(struct cs_test_replay *t, enum cs_trace_type type, int64_t step,
                       const struct cs_sim_result *sim)
{
    const struct cs_program *program = t->program;
    struct cs_span_events *events = CS_NEW_ARRAY(t->arena, struct cs_span_events, program->n_ranks);
    uint64_t *lost = CS_NEW_ARRAY(t->arena, uint64_t, program->n_ranks);
    for (int r = 0; r < program->n_ranks; r++) {
        uint32_t n = program->rank[r].n_actions;
        struct cs_event *list = CS_NEW_ARRAY(t->arena, struct cs_event, n + 1);
        memcpy(list, sim->events[r], n * sizeof *list);
        list[n] =
            (struct cs_event){.end_ns = 1000 * n, .kind = CS_EVENT_WAIT, .value = CS_WAIT_RECV};
        events[r] = (struct cs_span_events){list, type == CS_TRACE_STEP ? n + 1 : n};
    }
    const struct cs_trace_record record = {.type = type,
                                           .n_slots = program->n_slots,
                                           .n_ranks = program->n_ranks,
                                           .generation = 1,
                                           .step = step,
                                           .wall_ns = wall_ns,
                                           .lost = lost,
                                           .events = events};
    cs_trace_record_encode(&record, &t->trace);
}

static void encode(struct cs_test_replay *t, int n_steps)
{
    struct cs_trace_stage *stages =
        CS_NEW_ARRAY(t->arena, struct cs_trace_stage, t->plan->n_stages);
    for (int s = 0; s < t->plan->n_stages; s++) {
        snprintf(stages[s].name, sizeof stages[s].name, "%s", t->plan->stages[s].name);
        stages[s].rank = t->plan->stages[s].rank;
    }
    struct cs_trace_head head = {.generation = 1,
                                 .n_ranks = t->plan->n_ranks,
                                 .n_stages = t->plan->n_stages,
                                 .slots = t->plan->slots,
                                 .predicted_ns = t->predicted.makespan_ns,
                                 .stage = stages};
    memcpy(head.plan_hash, t->plan->hash, sizeof head.plan_hash);
    cs_trace_head_encode(&head, &t->trace);
    const struct cs_trace_record program = {.type = CS_TRACE_PROGRAM,
                                            .n_slots = t->program->n_slots,
                                            .n_ranks = t->program->n_ranks,
                                            .keys = make_keys(t->program, t->arena)};
    cs_trace_record_encode(&program, &t->trace);
    add_record(t, CS_TRACE_PREDICTED, -1, &t->predicted);
    for (int i = 0; i < n_steps; i++)
        add_record(t, CS_TRACE_STEP, FIRST_STEP + i, &t->measured);
    t->last_step = FIRST_STEP + n_steps - 1;
}

void cs_test_replay_new(struct cs_test_replay *t, const struct cs_test_spec *spec, int n_steps)
{
    struct cs_err err = {.text = ""};
    struct cs_spec *read = NULL;
    struct cs_device_class device = *cs_device_class_find("cpu");
    const struct cs_cluster cluster = {
        &device, 1 + spec->llm_pp * (spec->llm_cp > 0 ? spec->llm_cp : 1) / 64, 64};
    *t = (struct cs_test_replay){.arena = cs_arena_new(0)};
    t->graph = cs_test_graph(spec, t->arena, &t->spec);
    MUST(cs_spec_read(t->spec, t->arena, &read, &err));
    MUST(cs_plan_make(read, t->graph, &cluster, t->arena, &t->plan, &err));
    MUST(cs_plan_predict(t->plan, t->graph, &cluster, t->arena, &err));
    MUST(cs_program_make(t->plan, t->graph, t->plan->slots, false, t->arena, &t->program, &err));
    struct cs_sim_options options = {.cost = cs_predict_cost, .user = &device};
    MUST(cs_simulate(t->program, &options, t->arena, &t->predicted, &err));
    options.cost = measured_cost;
    MUST(cs_simulate(t->program, &options, t->arena, &t->measured, &err));
    encode(t, n_steps);
}

void cs_test_replay_free(struct cs_test_replay *t)
{
    cs_arena_free(t->arena);
    json_decref(t->spec);
    cs_buf_free(&t->trace);
}

static void write_json(const char *dir, const char *name, json_t *value)
{
    struct cs_buf text = {0};
    cs_json_canonical(value, &text);
    tmpdir_write(tmpdir_path(dir, name), text.data, text.len);
    cs_buf_free(&text);
}

/* Ranks that split rows: uneven ones. NULL: there are none. */
static json_t *context_row(const struct cs_test_replay *t, int64_t step)
{
    json_t *list = NULL;
    for (int32_t r = 0; r < cs_plan_world(t->plan); r++) {
        const int64_t rows = 500 + 24 * cs_plan_place(t->plan, r) + step;
        if (cs_plan_width(t->plan, cs_plan_rank_in_replica(t->plan, r)) < 2)
            continue;
        if (list == NULL)
            list = json_array();
        json_array_append_new(list, json_pack("[i, I, I, f, i]", (int)r, (json_int_t)rows,
                                              (json_int_t)(rows * 70), 1e6 * (double)rows,
                                              1000 + 400 * (int)r));
    }
    return list;
}

/* A picture between texts of two documents, as a worker tells of a slot that three ranks split. */
static json_t *sequence_row(void)
{
    json_error_t where;
    json_t *o = json_loads(
        "{\"rows\": 600, \"block\": 32, \"docs\": 2, \"rule\": \"lpt\", \"even\": 5e8,"
        "\"what\": \"TtaaaaaatttTtttaatt\", \"work\": [90, 150, 220, 290, 360, 430, 500, 570,"
        " 640, 710, 780, 90, 160, 230, 300, 1000, 440, 510, 580], \"loads\": {"
        " \"uniform\": [6120, 11200, 12680], \"zigzag\": [9510, 10900, 9590],"
        " \"striped\": [9300, 9800, 10900], \"random\": [8000, 12500, 9500],"
        " \"lpt\": [9990, 10010, 10000], \"exact\": [10000, 10000, 10000],"
        " \"best\": [10000, 10000, 10000]}}",
        0, &where);
    CS_ASSERT(o != NULL);
    return o;
}

static json_t *bubble_row(const struct cs_test_replay *t)
{
    json_t *list = json_array();
    for (int32_t r = 0; r < cs_plan_world(t->plan); r++)
        json_array_append_new(list, json_real(0.25 + 0.02 * r));
    return list;
}

static void write_journal(const struct cs_test_replay *t, const char *dir)
{
    struct cs_buf text = {0};
    struct cs_err err = {.text = ""};
    for (int64_t step = 0; step <= t->last_step; step++) {
        json_t *row = cs_msg_new("runner.step");
        cs_msg_set_int(row, "step", step);
        cs_msg_set_str(row, "kind", "train");
        cs_msg_set_num(row, "loss", 5.0 / (1.0 + 0.1 * (double)step));
        cs_msg_set_num(row, "grad_norm", 1.25);
        cs_msg_set_num(row, "lr", 0.002);
        cs_msg_set_int(row, "trained_tokens", 96);
        cs_msg_set_int(row, "step_ns", t->measured.makespan_ns);
        cs_msg_set_int(row, "slots", t->plan->slots);
        cs_msg_set_int(row, "wall_ns", wall_ns);
        if (t->plan->first != NULL) {
            cs_msg_set(row, "context", context_row(t, step));
            cs_msg_set(row, "sequence", sequence_row());
            cs_msg_set(row, "bubble", bubble_row(t));
            cs_msg_set_int(row, "makespan_ns", t->measured.makespan_ns);
        }
        MUST(cs_msg_encode(row, &text, &err));
        json_decref(row);
    }
    json_t *note = cs_msg_new("runner.note");
    cs_msg_set_str(note, "level", "warn");
    cs_msg_set_str(note, "text", "a sample was skipped: picture 17 is no PNG");
    cs_msg_set_int(note, "wall_ns", wall_ns);
    MUST(cs_msg_encode(note, &text, &err));
    json_decref(note);
    tmpdir_write(tmpdir_path(dir, "journal"), text.data, text.len);
    cs_buf_free(&text);
}

static void write_logs(const struct cs_test_replay *t, const char *dir)
{
    char name[32], text[1024];
    struct cs_err err = {.text = ""};
    MUST(cs_mkdirs(tmpdir_path(dir, "logs"), &err));
    for (int r = 0; r < t->plan->n_ranks; r++) {
        int n = snprintf(text, sizeof text,
                         "2026-07-25T17:20:0%d.118Z info worker.ready rank=%d\n"
                         "2026-07-25T17:20:0%d.500Z debug worker.step step=41\n"
                         "2026-07-25T17:20:0%d.900Z %s worker.step step=42 note=\"\x1b[31m\"\n",
                         r, r, r, r, r == 1 ? "error" : "info");
        snprintf(name, sizeof name, "logs/%d.log", r);
        tmpdir_write(tmpdir_path(dir, name), text, (size_t)n);
    }
    static const char runner[] =
        "2026-07-25T17:20:00.000Z info state state=RUN step=\"\" reason=\"\"\n"
        "2026-07-25T17:20:00.000Z warn note text=\"a sample was skipped: picture 17 is no PNG\"\n"
        "2026-07-25T17:20:01.000Z info step step=39 loss=1.0204 grad_norm=1.25 lr=0.002 "
        "step_ms=321.5 tokens_per_s=299\n"
        "2026-07-25T17:20:04.000Z info eval step=39 loss=1.1 exact_match=0.5312 samples=64\n"
        "2026-07-25T17:20:04.500Z info note text=\"checkpoint of step 39: 6 files, 20088 bytes\"\n";
    tmpdir_write(tmpdir_path(dir, "logs/runner.log"), runner, sizeof runner - 1);
    static const char notes[] =
        "{\"type\":\"runner.note\",\"level\":\"warn\",\"text\":\"eval.every_steps is above steps: "
        "the job is evaluated at its end only\",\"wall_ns\":1785000000000000000}\n";
    tmpdir_write(tmpdir_path(dir, "notes"), notes, sizeof notes - 1);
}

const char *cs_test_replay_write(const struct cs_test_replay *t, const char *dir)
{
    json_t *plan = cs_plan_json(t->plan, t->graph);
    write_json(dir, "spec.json", t->spec);
    write_json(dir, "plan.json", plan);
    json_decref(plan);
    write_journal(t, dir);
    write_logs(t, dir);
    const char *path = tmpdir_path(dir, "trace");
    tmpdir_write(path, t->trace.data, t->trace.len);
    return path;
}
