/* The store: messages as a daemon sends them, bounds, and input that makes no sense. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/screen/screen.h"
#include "console/views/plan/plan.h"
#include "core/plan/json/plan_json.h"
#include "core/trace/tracefile.h"
#include "core/wire/wire.h"
#include "tests/support/replay.h"

enum { JOB = 41 };

struct fixture {
    struct cs_test_replay replay;
    json_t *plan;
    struct cs_store *store;
};

static void feed(struct cs_store *store, json_t *msg)
{
    assert_non_null(msg);
    cs_store_message(store, msg);
    json_decref(msg);
}

static json_t *job_object(const char *state, const char *plan_hash)
{
    return json_pack("{s:i,s:s,s:s,s:i,s:i,s:f,s:s}", "id", JOB, "name", "shapes", "state", state,
                     "step", 7, "steps", 100, "loss", 2.5, "plan_hash", plan_hash);
}

static void feed_show(struct fixture *f)
{
    json_t *msg =
        json_pack("{s:s,s:b,s:o,s:O,s:O}", "type", "job.show", "reply", 1, "job",
                  job_object("RUN", f->replay.plan->hash), "spec", f->replay.spec, "plan", f->plan);
    feed(f->store, msg);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct cs_test_spec spec = cs_test_replay_spec();
    cs_test_replay_new(&f->replay, &spec, 1);
    f->plan = cs_plan_json(f->replay.plan, f->replay.graph);
    f->store = cs_store_new();
    cs_store_select(f->store, JOB);
    feed_show(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    cs_store_free(f->store);
    json_decref(f->plan);
    cs_test_replay_free(&f->replay);
    free(f);
    return 0;
}

static void a_shown_job_predicts_what_the_simulator_predicts(void **state)
{
    const struct fixture *f = *state;
    const struct cs_timeline *predicted = &f->store->predicted;
    assert_string_equal(f->store->model_error, "");
    assert_non_null(predicted->arena);
    assert_int_equal(predicted->spans.makespan_ns, f->replay.predicted.makespan_ns);
    assert_int_equal(f->store->n_stages, f->replay.plan->n_stages);
    for (int s = 0; s < f->store->n_stages; s++) {
        assert_string_equal(f->store->stages[s].name, f->replay.plan->stages[s].name);
        assert_int_equal(predicted->spans.busy_ns[s], f->replay.predicted.busy_ns[s]);
        assert_true(fabs(predicted->spans.bubble[s] - f->replay.predicted.bubble[s]) <= 1e-12);
    }
}

/* event.spans of the measured step: microseconds; with or without the columns that explain a row */
static json_t *spans_message(const struct cs_test_replay *t, bool is_long)
{
    json_t *rows = json_array();
    for (int r = 0; r < t->program->n_ranks; r++)
        for (uint32_t i = 0; i < t->program->rank[r].n_actions; i++) {
            const struct cs_action *a = &t->program->rank[r].actions[i];
            const struct cs_event *e = &t->measured.events[r][i];
            json_t *row = json_pack("[i,i,I,I]", r, (int)i, (json_int_t)(e->start_ns / 1000),
                                    (json_int_t)(e->end_ns / 1000));
            if (is_long) {
                json_array_append_new(row, json_string(cs_op_letter((enum cs_op)a->op)));
                json_array_append_new(row, json_integer(a->stage));
                json_array_append_new(row, json_integer(a->slot));
                json_array_append_new(row, json_integer(a->peer));
                json_array_append_new(row, json_integer(a->is_grad));
            }
            json_array_append_new(rows, row);
        }
    return json_pack("{s:s,s:i,s:i,s:i,s:i,s:o}", "type", "event.spans", "job", JOB, "step", 7,
                     "origin_ns", 5, "slots", t->program->n_slots, "spans", rows);
}

static void check_measured(const struct fixture *f)
{
    const struct cs_timeline *measured = &f->store->measured;
    assert_non_null(measured->arena);
    assert_int_equal(measured->step, 7);
    assert_in_range(llabs(measured->spans.makespan_ns - f->replay.measured.makespan_ns), 0, 1000);
    for (int s = 0; s < f->store->n_stages; s++)
        assert_true(fabs(measured->spans.bubble[s] - f->replay.measured.bubble[s]) <= 1e-3);
}

static void spans_that_explain_themselves_become_the_timeline(void **state)
{
    struct fixture *f = *state;
    feed(f->store, spans_message(&f->replay, true));
    check_measured(f);
}

static void spans_by_action_are_read_through_the_program(void **state)
{
    struct fixture *f = *state;
    feed(f->store, spans_message(&f->replay, false));
    check_measured(f);
}

static void waits_come_with_the_timeline(void **state)
{
    struct fixture *f = *state;
    json_t *msg = spans_message(&f->replay, true), *waits = json_array();
    for (int r = 0; r < f->replay.program->n_ranks; r++)
        json_array_append_new(waits, json_pack("[i,i]", 1000 * (r + 1), 7));
    json_object_set_new(msg, "waits", waits);
    feed(f->store, msg);
    for (int r = 0; r < f->replay.program->n_ranks; r++) {
        const struct cs_timeline_stage stage = cs_timeline_stage(&f->store->measured, 0, r);
        assert_int_equal(stage.wait_recv_ns, 1000000 * (r + 1));
        assert_int_equal(stage.wait_send_ns, 7000);
    }
    msg =
        spans_message(&f->replay, true); /* of other ranks, or without sense: they are not known */
    json_object_set_new(msg, "waits", json_pack("[[i,i]]", 1, 2));
    feed(f->store, msg);
    assert_int_equal(cs_timeline_stage(&f->store->measured, 0, 0).wait_recv_ns, -1);
}

static void spans_of_other_jobs_or_without_sense_are_dropped(void **state)
{
    struct fixture *f = *state;
    json_t *other = spans_message(&f->replay, true);
    json_object_set_new(other, "job", json_integer(JOB + 1));
    feed(f->store, other);
    feed(f->store, json_pack("{s:s,s:i,s:[[i,i,i,i],[i,i,i,i],s,[s],[i,i,i,i,s,i,i,i,i]]}", "type",
                             "event.spans", "step", 1, "spans", 99, 0, 1, 2, 0, 100000, 1, 2,
                             "nonsense", "x", 0, 0, 9, 3, "F", 0, 0, 0, 0));
    assert_null(f->store->measured.arena);
}

static void a_held_timeline_stands_still(void **state)
{
    struct fixture *f = *state;
    f->store->is_measured_held = true;
    feed(f->store, spans_message(&f->replay, true));
    assert_null(f->store->measured.arena);
}

static void steps_move_job_series_and_figures(void **state)
{
    struct fixture *f = *state;
    for (int i = 7; i < 12; i++)
        feed(f->store,
             json_pack("{s:s,s:i,s:i,s:s,s:f,s:i,s:i}", "type", "event.step", "job", JOB, "step", i,
                       "kind", "train", "loss", 2.0, "step_ns", 50000000, "trained_tokens", 400));
    feed(f->store, json_pack("{s:s,s:i,s:i,s:s,s:i,s:i}", "type", "event.step", "job", JOB, "step",
                             11, "kind", "eval", "samples", 200, "correct", 197));
    const struct cs_store_job *job = cs_store_selected(f->store);
    assert_int_equal(job->step, 12);
    assert_true(fabs(job->exact_match - 0.985) <= 1e-12);
    assert_int_equal(cs_series_last_step(f->store->loss), 11);
    assert_true(fabs(cs_store_tokens_per_s(f->store) - 8000) <= 1e-6);
    assert_int_equal(cs_store_eta_ns(f->store, job), 88 * INT64_C(50000000));
}

static void metrics_fill_the_past_but_never_overwrite_the_present(void **state)
{
    struct fixture *f = *state;
    feed(f->store,
         json_pack("{s:s,s:b,s:[s,s,s,s],s:[[i,s,f,f],[i,s,s,n],[i,s,f,f]]}", "type", "job.metrics",
                   "reply", 1, "columns", "step", "kind", "loss", "step_ms", "rows", 0, "train",
                   4.0, 50.0, 1, "train", "nan", 1, "eval", 1.0, 2.0));
    assert_int_equal(cs_series_last_step(f->store->loss), 1);
    struct cs_series_bucket bucket[2];
    assert_int_equal(cs_series_read(f->store->loss, 0, 2, 2, bucket), 2);
    assert_int_equal(bucket[1].n_bad, 1);
    feed(f->store, json_pack("{s:s,s:b,s:[s,s],s:[[i,f]]}", "type", "job.metrics", "reply", 1,
                             "columns", "step", "loss", "rows", 0, 9.0));
    assert_int_equal(cs_series_last_step(f->store->loss), 1);
}

static void another_plan_asks_for_the_job_again(void **state)
{
    struct fixture *f = *state;
    feed(f->store, json_pack("{s:s,s:o}", "type", "event.job", "job",
                             job_object("RUN", f->replay.plan->hash)));
    assert_false(f->store->wants_show);
    feed(f->store, json_pack("{s:s,s:o}", "type", "event.job", "job", job_object("RUN", "abcd")));
    assert_true(f->store->wants_show);
    feed_show(f);
    assert_false(f->store->wants_show);
}

static json_t *profile_of(const struct fixture *f, const char *plan_hash)
{
    struct cs_measured *m =
        cs_measured_new(f->replay.plan->n_stages, f->replay.plan->n_ranks, NULL, f->replay.arena);
    for (int32_t row = 0; row < m->n_stages + m->n_ranks; row++)
        for (int op = 0; op < CS_OP_COUNT; op++)
            if (cs_op_stream((enum cs_op)op) == CS_STREAM_COMPUTE)
                m->row[row][op] =
                    (struct cs_measured_cost){.n = 20, .cpu_us = 20 * (900 + 70 * row)};
    json_t *profile = cs_measured_encode(m, 2);
    json_object_set_new(profile, "plan_hash", json_string(plan_hash));
    return profile;
}

static void feed_profile(struct fixture *f, json_t *profile, int64_t predicted_ns)
{
    json_t *job = job_object("RUN", f->replay.plan->hash);
    json_object_set_new(job, "predicted_step_ns", json_integer(predicted_ns));
    feed(f->store, json_pack("{s:s,s:b,s:o,s:O,s:O,s:o}", "type", "job.show", "reply", 1, "job",
                             job, "spec", f->replay.spec, "plan", f->plan, "profile", profile));
}

static void a_profile_of_the_plan_calibrates_the_prediction(void **state)
{
    struct fixture *f = *state;
    struct cs_measured *m = NULL;
    struct cs_sim_result sim;
    int32_t cores;
    json_t *profile = profile_of(f, f->replay.plan->hash);
    assert_int_equal(
        cs_measured_decode(profile, f->store->model.device, f->replay.arena, &m, &cores, NULL),
        CS_OK);
    const struct cs_sim_options options = {.cost = cs_measured_sim_cost, .user = m, .cores = cores};
    assert_int_equal(cs_simulate(f->replay.program, &options, f->replay.arena, &sim, NULL), CS_OK);
    assert_int_not_equal(sim.makespan_ns, f->replay.predicted.makespan_ns);
    feed_profile(f, profile, sim.makespan_ns);
    assert_true(f->store->is_calibrated);
    assert_int_equal(f->store->predicted.spans.makespan_ns, sim.makespan_ns);
    feed_show(f); /* without one it is the plan's again */
    assert_false(f->store->is_calibrated);
    assert_int_equal(f->store->predicted.spans.makespan_ns, f->replay.predicted.makespan_ns);
}

static bool screen_says(struct fixture *f, enum cs_view view, int cols, const char *text)
{
    struct cs_buf out = {0};
    struct cs_screen screen;
    struct cs_canvas *canvas = cs_canvas_new(cols, 30);
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    screen.view = view;
    while (cs_screen_prepare(&screen, f->store))
        ;
    cs_screen_draw(f->store, &screen, canvas);
    cs_canvas_text(canvas, &out);
    bool says = strstr(cs_buf_str(&out), text) != NULL;
    cs_buf_free(&out);
    cs_canvas_free(canvas);
    cs_screen_free(&screen);
    return says;
}

static void previews_of_a_calibrated_job_have_measured_costs(void **state)
{
    struct fixture *f = *state;
    struct cs_preview preview = {0};
    json_t *profile = profile_of(f, f->replay.plan->hash);
    json_t *costs = json_object_get(profile, "costs");
    for (size_t i = json_array_size(costs); i-- > 0;) { /* what layers cost, nothing of ranks */
        const char *op = json_string_value(json_object_get(json_array_get(costs, i), "op"));
        if (strcmp(op, "F") != 0 && strcmp(op, "B") != 0)
            json_array_remove(costs, i);
    }
    feed_profile(f, profile, 0);
    assert_true(f->store->is_calibrated);
    struct cs_variant_base stretched = cs_plan_base(f->store);
    const struct cs_variant_base *base = &stretched;
    cs_variant_stretch(&stretched, f->replay.arena);
    struct cs_variant variant = cs_variant_own(base);
    cs_preview_make(&preview, base, &variant);
    assert_int_equal(preview.forecast.makespan_ns, f->store->predicted.spans.makespan_ns);
    int64_t own_ns = preview.forecast.makespan_ns;
    /* the same stages planned anew: layers stretched as their stages were give the same step, up to
     * the rounding of every layer */
    variant.is_blind = !variant.is_blind;
    struct cs_variant_plan made;
    assert_int_equal(cs_variant_make(base, &variant, f->replay.arena, &made, NULL), CS_OK);
    for (int32_t s = 0; s < made.plan->n_stages; s++)
        assert_int_equal(made.plan->stages[s].n_layers, f->replay.plan->stages[s].n_layers);
    cs_preview_make(&preview, base, &variant);
    assert_true(fabs((double)preview.forecast.makespan_ns / (double)own_ns - 1) < 1e-3);
    cs_preview_clear(&preview);
    assert_true(screen_says(f, CS_VIEW_PLAN, 140, "measured costs"));
    assert_true(screen_says(f, CS_VIEW_PIPELINE, 80, "calibrated"));
}

/* A daemon that knows nothing of profiles: the job's own prediction is not that of these costs. */
static void a_prediction_that_the_costs_do_not_explain_is_said(void **state)
{
    struct fixture *f = *state;
    int64_t ours = f->replay.predicted.makespan_ns;
    feed_profile(f, json_object(), ours);
    assert_false(f->store->is_uncalibrated);
    assert_false(screen_says(f, CS_VIEW_PIPELINE, 120, "not calibrated"));
    feed_profile(f, json_object(), ours / 2);
    assert_true(f->store->is_uncalibrated);
    char says[64];
    snprintf(says, sizeof says, "not calibrated: the job says %d.", (int)(ours / 2 / 1000000));
    assert_true(screen_says(f, CS_VIEW_PIPELINE, 120, says));
    assert_true(screen_says(f, CS_VIEW_PLAN, 120, "measured costs did not come"));
    feed_profile(f, profile_of(f, f->replay.plan->hash), ours / 2);
    assert_false(f->store->is_uncalibrated);
}

/* Before anything is measured: shorter steps, which nobody calls calibrated, and costs explain the job's. */
static void how_full_slots_are_changes_the_prediction(void **state)
{
    struct fixture *f = *state;
    const struct cs_plan *plan = f->replay.plan;
    json_t *permille = json_array();
    for (int32_t s = 0; s < plan->n_stages; s++)
        json_array_append_new(permille, json_integer(500));
    json_t *profile =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:o, s:[], s:s}", "schema",
                  "cornstarch.profile.measured/1", "stages", plan->n_stages, "ranks", plan->n_ranks,
                  "steps", 0, "cores", 0, "permille", permille, "costs", "plan_hash", plan->hash);
    feed_profile(f, json_incref(profile), 1);
    const int64_t ours = f->store->predicted.spans.makespan_ns;
    assert_in_range(ours, f->replay.predicted.makespan_ns / 2,
                    f->replay.predicted.makespan_ns * 3 / 4);
    feed_profile(f, profile, ours);
    assert_false(f->store->is_calibrated);
    assert_false(f->store->is_uncalibrated);
    assert_false(screen_says(f, CS_VIEW_PIPELINE, 120, "calibrated"));
    assert_true(screen_says(f, CS_VIEW_PLAN, 140, "roofline costs"));
}

static void a_profile_of_another_plan_or_without_sense_is_ignored(void **state)
{
    struct fixture *f = *state;
    json_t *bad[3] = {profile_of(f, "abcd"), profile_of(f, f->replay.plan->hash),
                      profile_of(f, f->replay.plan->hash)};
    json_object_set_new(bad[1], "stages", json_integer(f->replay.plan->n_stages + 1));
    json_object_set_new(json_array_get(json_object_get(bad[2], "costs"), 0), "cpu_us",
                        json_integer(INT64_MAX / 1000));
    for (int i = 0; i < 3; i++) {
        feed_profile(f, bad[i], 1);
        assert_false(f->store->is_calibrated);
        assert_int_equal(f->store->predicted.spans.makespan_ns, f->replay.predicted.makespan_ns);
    }
}

static void another_prediction_asks_for_the_job_again(void **state)
{
    struct fixture *f = *state;
    json_t *job = job_object("RUN", f->replay.plan->hash);
    json_object_set_new(job, "predicted_step_ns", json_integer(4711));
    json_t *event = json_pack("{s:s,s:o}", "type", "event.job", "job", job);
    feed(f->store, json_incref(event));
    assert_true(f->store->wants_show);
    feed_profile(f, profile_of(f, f->replay.plan->hash), 4711);
    assert_false(f->store->wants_show);
    feed(f->store, event);
    assert_false(f->store->wants_show);
}

/* ranks beyond any table of a screen; sequences without sense leave nothing */
static void ranks_that_split_rows_are_kept_however_many(void **state)
{
    enum { RANKS = 300 };
    struct fixture *f = *state;
    static const char *const bad[] = {
        "{\"what\": \"t\", \"work\": []}",
        "{\"what\": \"t\\u001b[\", \"work\": [1, 2, 3]}",
        "{\"what\": 3, \"work\": [1]}",
        "[]",
    };
    json_t *rows = json_array(), *loads = json_array();
    for (int r = 0; r < RANKS; r++) {
        json_array_append_new(rows, json_pack("[i, i, i, f, i]", r, 10, 20, 1.0 + (r == 7), 5));
        json_array_append_new(loads, json_integer(r == 7 ? 20000 : 9900));
    }
    feed(f->store, json_pack("{s:s, s:i, s:i, s:s, s:O, s:{s:s, s:i, s:i, s:[i, i], s:s, s:{s:O}}}",
                             "type", "event.step", "job", JOB, "step", 3, "kind", "train",
                             "context", rows, "sequence", "what", "Ta", "rows", 256, "block", 128,
                             "work", 500, 1000, "rule", "lpt", "loads", "lpt", loads));
    json_decref(loads);
    const struct cs_store_context *c = &f->store->context;
    assert_int_equal(c->n, RANKS);
    assert_int_equal(c->part[RANKS - 1].rank, RANKS - 1);
    assert_true(c->balance > 1.9 && c->balance < 2);
    assert_int_equal(c->sequence.n_cells, 2);
    assert_int_equal(c->sequence.ranks, RANKS);
    assert_true(fabs(c->sequence.rule[0].worst - 2) < 1e-6);
    assert_true(fabs(c->sequence.work[0] - 0.5) < 1e-9);
    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++)
        feed(f->store, json_pack("{s:s, s:i, s:i, s:s, s:O, s:o}", "type", "event.step", "job", JOB,
                                 "step", 4 + (int)i, "kind", "train", "context", rows, "sequence",
                                 json_loads(bad[i], 0, NULL)));
    json_decref(rows);
    assert_int_equal(c->n, RANKS);
    assert_int_equal(c->sequence.n_rules, 0);
    cs_store_select(f->store, JOB + 1);
    assert_int_equal(c->n, 0);
    assert_int_equal(c->sequence.n_cells, 0);
}

static void a_damaged_plan_is_told_not_drawn(void **state)
{
    struct fixture *f = *state;
    json_t *plan = json_deep_copy(f->plan);
    json_object_set_new(plan, "n_ranks", json_integer(-4));
    cs_store_documents(f->store, f->replay.spec, plan);
    assert_string_not_equal(f->store->model_error, "");
    assert_non_null(f->store->model.graph); /* the model is still known */
    json_decref(plan);
}

static void a_plan_with_other_stages_leaves_no_old_timeline(void **state)
{
    struct fixture *f = *state;
    struct cs_test_replay other;
    const struct cs_test_spec spec = {.llm_pp = 1, .llm_layers = 4};
    cs_test_replay_new(&other, &spec, 1);
    feed(f->store, spans_message(&f->replay, true));
    json_t *plan = cs_plan_json(other.plan, other.graph);
    cs_store_documents(f->store, other.spec, plan);
    assert_int_equal(f->store->n_stages, 2);
    assert_null(f->store->measured.arena);
    assert_int_equal(f->store->predicted.spans.n_stages, 2);
    json_decref(plan);
    cs_test_replay_free(&other);
}

static void lists_keep_the_newest_and_count_all(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CS_STORE_LOGS + 500; i++) {
        char line[64];
        snprintf(line, sizeof line, "2026-11-27T23:04:23.123Z warn line n=%d", i);
        feed(f->store, json_pack("{s:s,s:i,s:i,s:s}", "type", "event.log", "job", JOB, "rank", 1,
                                 "line", line));
    }
    assert_int_equal(f->store->logs.n, CS_STORE_LOGS);
    assert_int_equal(f->store->logs.total, CS_STORE_LOGS + 500);
    assert_int_equal(cs_store_line(&f->store->logs, 0)->level, CS_WARN);
    assert_non_null(strstr(cs_store_line(&f->store->logs, 0)->text, "n=500"));
    for (int i = 1; i <= CS_STORE_JOBS + 50; i++)
        feed(f->store, json_pack("{s:s,s:{s:i,s:s,s:s}}", "type", "event.job", "job", "id", 100 + i,
                                 "name", "x", "state", "RUN"));
    assert_int_equal(f->store->n_jobs, CS_STORE_JOBS);
    assert_non_null(cs_store_selected(f->store)); /* the one we look at stays */
    for (int i = 1; i < f->store->n_jobs; i++)
        assert_true(f->store->jobs[i - 1].id > f->store->jobs[i].id);
}

static void gaps_are_told(void **state)
{
    struct fixture *f = *state;
    feed(f->store, json_pack("{s:s,s:i,s:i}", "type", "gap", "sub", 1, "count", 12));
    assert_int_equal(f->store->n_gaps, 12);
    assert_true(f->store->wants_past);
    assert_non_null(strstr(cs_store_line(&f->store->logs, 0)->text, "12 messages were dropped"));
}

/* Every message of the schema, as its example and with each field taken away or replaced. */
static void no_message_of_the_schema_upsets_the_store(void **state)
{
    struct fixture *f = *state;
    size_t n = 0, n_fields = 0;
    const struct cs_message *messages = cs_schema_messages(&n);
    for (size_t i = 0; i < n; i++) {
        if (messages[i].kind == CS_KIND_OBJECT || messages[i].kind == CS_KIND_DOCUMENT)
            continue;
        const struct cs_field *fields = cs_schema_fields(messages[i].id, &n_fields);
        for (size_t k = 0; k <= n_fields; k++)
            for (int how = 0; how < 3; how++) {
                json_t *msg = cs_msg_example(&messages[i]);
                json_t *value = how == 0   ? json_null()
                                : how == 1 ? json_integer(INT64_MAX)
                                           : json_pack("[[n],{},s]", "x");
                if (k < n_fields)
                    json_object_set_new(msg, fields[k].key, value);
                else
                    json_decref(value);
                feed(f->store, msg);
            }
    }
    assert_int_equal(f->store->job, JOB);
}

/* The prediction in the trace is not the one of planning: it was made again with measured costs,
 * whether or not their profile can be read. */
static void a_trace_predicted_again_is_labelled_without_its_profile(void **state)
{
    struct fixture *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_trace_head head;
    struct cs_buf trace = {0};
    size_t at = 0;
    struct cs_store *store = cs_store_new();
    assert_int_equal(cs_trace_head_decode(f->replay.trace.data, f->replay.trace.len,
                                          f->replay.arena, &head, &at, &err),
                     CS_OK);
    head.predicted_ns *= 2;
    cs_trace_head_encode(&head, &trace);
    cs_buf_add(&trace, f->replay.trace.data + at, f->replay.trace.len - at);
    assert_int_equal(cs_store_trace(store, trace.data, trace.len, &err), CS_OK);
    assert_true(store->is_calibrated);
    cs_store_documents(store, f->replay.spec, f->plan);
    assert_true(store->is_calibrated);
    struct fixture shown = {.store = store};
    assert_true(screen_says(&shown, CS_VIEW_PIPELINE, 120, "predicted (calibrated)"));
    assert_true(screen_says(&shown, CS_VIEW_PLAN, 120, "measured costs did not come"));
    assert_int_equal(cs_store_trace(store, f->replay.trace.data, f->replay.trace.len, &err), CS_OK);
    assert_false(store->is_calibrated);
    cs_store_free(store);
    cs_buf_free(&trace);
}

static void a_trace_replays_to_the_simulators_figures(void **state)
{
    struct fixture *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_store *store = cs_store_new();
    assert_int_equal(cs_store_trace(store, f->replay.trace.data, f->replay.trace.len, &err), CS_OK);
    assert_int_equal(store->predicted.spans.makespan_ns, f->replay.predicted.makespan_ns);
    assert_int_equal(store->measured.spans.makespan_ns, f->replay.measured.makespan_ns);
    assert_true(store->measured.has_waits);
    for (size_t n = 0; n < f->replay.trace.len; n += 997) { /* torn anywhere: no crash, no leak */
        struct cs_store *torn = cs_store_new();
        (void)!cs_store_trace(torn, f->replay.trace.data, n, &err);
        cs_store_free(torn);
    }
    cs_store_free(store);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_shown_job_predicts_what_the_simulator_predicts),
        T(spans_that_explain_themselves_become_the_timeline),
        T(spans_by_action_are_read_through_the_program),
        T(waits_come_with_the_timeline),
        T(spans_of_other_jobs_or_without_sense_are_dropped),
        T(a_held_timeline_stands_still),
        T(steps_move_job_series_and_figures),
        T(metrics_fill_the_past_but_never_overwrite_the_present),
        T(another_plan_asks_for_the_job_again),
        T(a_profile_of_the_plan_calibrates_the_prediction),
        T(previews_of_a_calibrated_job_have_measured_costs),
        T(a_prediction_that_the_costs_do_not_explain_is_said),
        T(how_full_slots_are_changes_the_prediction),
        T(a_trace_predicted_again_is_labelled_without_its_profile),
        T(a_profile_of_another_plan_or_without_sense_is_ignored),
        T(another_prediction_asks_for_the_job_again),
        T(ranks_that_split_rows_are_kept_however_many),
        T(a_damaged_plan_is_told_not_drawn),
        T(a_plan_with_other_stages_leaves_no_old_timeline),
        T(lists_keep_the_newest_and_count_all),
        T(gaps_are_told),
        T(no_message_of_the_schema_upsets_the_store),
        T(a_trace_replays_to_the_simulators_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
