/* The runner with real processes that compute nothing (support/pretend_ranks.h): what a run leaves, what it
 * measures, how the next one goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/sched/program.h"
#include "core/trace/tracefile.h"
#include "core/wire/wire.h"
#include "support/pretend_job.h"
#include "support/pretend_ranks.h"
#include "support/tmpdir.h"

static void check_trace(const struct pretend_job *job, int steps)
{
    size_t bytes = 0, at = 0;
    char *file = tmpdir_read(tmpdir_path(job->path, "trace"), &bytes);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_trace_head head;
    struct cs_trace_record record;
    const struct cs_span_keys *keys[64] = {0};
    struct cs_err err = {0};
    int n = 0, n_predicted = 0;
    assert_non_null(file);
    assert_int_equal(cs_trace_head_decode(file, bytes, arena, &head, &at, &err), CS_OK);
    assert_int_equal(head.n_ranks, 3);
    assert_string_equal(head.stage[0].name, "vision.0");
    while (cs_trace_record_decode(file, bytes, &at, arena, &record, &err) == CS_OK) {
        if (record.type == CS_TRACE_PROGRAM) {
            keys[record.n_slots] = record.keys;
            continue;
        }
        struct cs_span_step spans;
        const struct cs_span_input in = {.n_ranks = head.n_ranks,
                                         .n_stages = head.n_stages,
                                         .keys = keys[record.n_slots],
                                         .events = record.events};
        assert_non_null(in.keys);
        cs_span_build(&in, arena, &spans);
        uint32_t actions = 0;
        for (int r = 0; r < head.n_ranks; r++)
            actions += in.keys[r].n;
        if (record.type == CS_TRACE_PREDICTED) {
            n_predicted++;
            assert_int_equal(spans.makespan_ns, head.predicted_ns);
            continue;
        }
        assert_int_equal(record.step, n);
        assert_int_equal(spans.n_spans, actions); /* nothing lost, nothing foreign */
        assert_int_equal(spans.n_unknown, 0);
        n++;
    }
    assert_int_equal(n, steps);
    assert_int_equal(n_predicted, 1);
    assert_int_equal(at, bytes);
    cs_arena_free(arena);
    free(file);
}

static void a_run_ends_done_with_all_its_records(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 12, 0, "");
    setenv("FAKE_EVAL", "1", 1);
    assert_int_equal(pretend_run(job), CS_OK);
    json_t *end = pretend_state(job), *row;
    assert_string_equal(cs_msg_str(end, "state", ""), "DONE");
    assert_int_equal(cs_msg_int(end, "step", -1), 11);
    assert_int_equal(cs_msg_int(end, "checkpoint_step", -1), 11);
    assert_int_equal(cs_msg_int(end, "generation", -1), 0);
    assert_int_equal(cs_msg_int(end, "exit", -1), 0);
    assert_int_equal(strlen(cs_msg_str(end, "weights_hash", "")), 64);
    assert_true(cs_msg_num(end, "exact_match", 0) == 0.5);
    json_decref(end);
    json_t *steps = pretend_journal(job, "runner.step", "train"),
           *evals = pretend_journal(job, "runner.step", "eval");
    size_t i;
    assert_int_equal(json_array_size(steps), 12);
    json_array_foreach(steps, i, row)
    {
        assert_int_equal(cs_msg_int(row, "step", -1), i);
        assert_true(cs_msg_num(row, "loss", 0) == 5.0 - 0.25 * (double)i);
        assert_true(cs_msg_num(row, "grad_norm", 0) == 1.5);
        assert_int_equal(cs_msg_int(row, "trained_tokens", -1), 40 + (int64_t)i);
        assert_int_equal(cs_msg_int(row, "messages_sent", -1), 9);
        assert_int_equal(json_array_size(cs_msg_arr(row, "bubble")), 3);
        assert_int_equal(json_array_size(cs_msg_arr(row, "stage_bubble")), 3);
        assert_true(cs_msg_int(row, "step_ns", 0) > 0);
    }
    assert_int_equal(json_array_size(evals), 2);
    row = json_array_get(evals, 0);
    assert_int_equal(cs_msg_int(row, "samples", 0), 16);
    assert_int_equal(cs_msg_int(row, "correct", 0), 8);
    json_decref(steps);
    json_decref(evals);
    check_trace(job, 12);
    assert_true(tmpdir_has(job->path, "plan.json"));
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-11/checkpoint.json"));
    assert_true(tmpdir_has(job->path, "logs/2.log"));
    assert_false(tmpdir_has(job->dir, "cornstarch/job-7.sock"));
    assert_int_equal(pretend_count_left(job), 0);
}

static void the_22nd_step_calibrates_the_prediction(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 24, 0, "");
    assert_int_equal(pretend_run(job), CS_OK);
    size_t bytes = 0, at = 0, n_profile = 0;
    char *file = tmpdir_read(tmpdir_path(job->path, "trace"), &bytes);
    char *profile = tmpdir_read(tmpdir_path(job->path, "profile.json"), &n_profile);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_trace_head head;
    struct cs_trace_record record;
    struct cs_err err = {0};
    json_t *doc = json_loadb(profile, n_profile, 0, NULL), *end = pretend_state(job);
    int64_t last_ns = 0;
    int n = 0;
    assert_int_equal(cs_msg_int(doc, "steps", 0), 20);
    assert_string_equal(cs_msg_str(doc, "plan_hash", ""), cs_msg_str(end, "plan_hash", "-"));
    assert_int_equal(cs_trace_head_decode(file, bytes, arena, &head, &at, &err), CS_OK);
    while (cs_trace_record_decode(file, bytes, &at, arena, &record, &err) == CS_OK)
        if (record.type == CS_TRACE_PREDICTED) {
            n++;
            last_ns = 0;
            for (int r = 0; r < head.n_ranks; r++)
                for (uint32_t i = 0; i < record.events[r].n; i++)
                    if ((int64_t)record.events[r].event[i].end_ns > last_ns)
                        last_ns = (int64_t)record.events[r].event[i].end_ns;
        }
    assert_int_equal(n, 2);
    assert_int_equal(cs_msg_int(end, "predicted_step_ns", 0), last_ns);
    assert_int_not_equal(last_ns, head.predicted_ns);
    assert_true(pretend_has_note(job, "calibrated: predicted step"));
    json_decref(doc);
    json_decref(end);
    cs_arena_free(arena);
    free(file);
    free(profile);
}

/* Plans count on full slots; the first step that the feeder announces says how full they are. */
static void the_first_step_says_how_full_slots_are(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 3, 0, "");
    setenv("FAKE_ROWS", "24", 1);
    const enum cs_status status = pretend_run(job);
    unsetenv("FAKE_ROWS");
    assert_int_equal(status, CS_OK);
    json_t *doc = json_load_file(tmpdir_path(job->path, "profile.json"), 0, NULL),
           *plan = json_load_file(tmpdir_path(job->path, "plan.json"), 0, NULL),
           *end = pretend_state(job), *permille = json_object_get(doc, "permille");
    const size_t n = json_array_size(json_object_get(plan, "stages"));
    assert_true(pretend_has_note(job, "slots as full as those of the first step: predicted step"));
    assert_int_equal(cs_msg_int(doc, "steps", -1), 0); /* nothing was measured */
    assert_int_equal(json_array_size(permille), n);
    for (size_t s = 0; s < n; s++)
        assert_in_range(json_integer_value(json_array_get(permille, s)), 0, 999);
    assert_in_range(cs_msg_int(end, "predicted_step_ns", 0), 1,
                    cs_msg_int(plan, "predicted_step_ns", 0) - 1);
    json_decref(doc);
    json_decref(plan);
    json_decref(end);
}

/* Graphs of launches are made in the first dozen of steps; whose work runs on GPUs shares no cores. A driver that tells
 * nothing of them stops no job. */
static void steps_13_to_32_calibrate_on_gpus(struct pretend_job *job, int steps, bool is_enough)
{
    job->options.members.here = (struct cs_here){cs_device_class_find("h100-80g"), 4};
    pretend_write(job, steps, 0, "");
    setenv("CORNSTARCH_NVML", "none", 1);
    const enum cs_status status = pretend_run(job);
    unsetenv("CORNSTARCH_NVML");
    assert_int_equal(status, CS_OK);
    assert_int_equal(tmpdir_has(job->path, "profile.json"), is_enough);
    assert_int_equal(pretend_has_note(job, "calibrated: predicted step"), is_enough);
    if (!is_enough)
        return;
    json_t *profile = json_load_file(tmpdir_path(job->path, "profile.json"), 0, NULL);
    assert_non_null(profile);
    assert_int_equal(cs_msg_int(profile, "steps", 0), 20);
    assert_int_equal(cs_msg_int(profile, "cores", -1), 0);
    json_decref(profile);
}

static void the_31st_step_on_gpus_is_not_enough(void **state)
{
    steps_13_to_32_calibrate_on_gpus(*state, 31, false);
}

static void the_32nd_step_on_gpus_calibrates(void **state)
{
    steps_13_to_32_calibrate_on_gpus(*state, 32, true);
}

static void a_run_does_not_keep_the_profile_of_another(void **state)
{
    struct pretend_job *job = *state;
    struct cs_err err = {0};
    pretend_write(job, 6, 0, ""); /* too short to measure one of its own */
    const char *path = tmpdir_path(job->path, "profile.json");
    assert_int_equal(cs_write_file_atomic(path, "{}", 2, 0600, &err), CS_OK);
    assert_int_equal(pretend_run(job), CS_OK);
    assert_int_equal(access(tmpdir_path(job->path, "profile.json"), F_OK), -1);
}

static void a_failed_run_resumes_to_the_same_weights(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 10, 3, "");
    assert_int_equal(pretend_run(job), CS_OK);
    json_t *whole = pretend_state(job);
    char command[400];
    snprintf(command, sizeof command, "rm -r %s", job->path);
    assert_int_equal(system(command), 0);
    pretend_write(job, 10, 3, "");
    setenv("FAKE_FAULT", "1:7:kill", 1);
    assert_int_equal(pretend_run(job), CS_JOB_FAILED);
    unsetenv("FAKE_FAULT");
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-5"));
    assert_int_equal(pretend_run(job), CS_OK);
    json_t *end = pretend_state(job);
    assert_string_equal(cs_msg_str(end, "state", ""), "DONE");
    assert_int_equal(cs_msg_int(end, "generation", -1), 1);
    assert_string_equal(cs_msg_str(end, "weights_hash", "a"),
                        cs_msg_str(whole, "weights_hash", "b"));
    assert_true(pretend_has_note(job, "going on from the checkpoint of step 5"));
    json_t *trainer = json_load_file(tmpdir_path(job->path, "ckpt/ckpt-9/trainer.json"), 0, NULL);
    assert_int_equal(cs_msg_int(trainer, "tokens", 0), 10 * 40 + 45); /* each step once */
    assert_int_equal(cs_msg_int(trainer, "samples", 0), 80);
    json_decref(trainer);
    json_t *steps = pretend_journal(job, "runner.step", "train");
    assert_int_equal(cs_msg_int(json_array_get(steps, json_array_size(steps) - 4), "step", -1), 6);
    json_decref(steps);
    /* a finished job started again is done at once */
    assert_int_equal(pretend_run(job), CS_OK);
    json_t *again = pretend_state(job);
    assert_string_equal(cs_msg_str(again, "state", ""), "DONE");
    assert_string_equal(cs_msg_str(again, "weights_hash", "a"),
                        cs_msg_str(whole, "weights_hash", "b"));
    json_decref(again);
    json_decref(end);
    json_decref(whole);
}

static void another_plan_than_previewed_is_refused(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 4, 0, "00000000000000000000000000000000000000000000000000000000000000aa");
    assert_int_equal(pretend_run(job), CS_PLAN);
    assert_false(tmpdir_has(job->path, "plan.json"));
    job->options.is_replan = true;
    assert_int_equal(pretend_run(job), CS_OK);
}

#define LIFE(test) cmocka_unit_test_setup_teardown(test, pretend_setup, pretend_teardown)

int main(int argc, char **argv)
{
    (void)argc;
    pretend_main(argv);
    const struct CMUnitTest tests[] = {
        LIFE(a_run_ends_done_with_all_its_records),
        LIFE(the_22nd_step_calibrates_the_prediction),
        LIFE(the_first_step_says_how_full_slots_are),
        LIFE(the_31st_step_on_gpus_is_not_enough),
        LIFE(the_32nd_step_on_gpus_calibrates),
        LIFE(a_run_does_not_keep_the_profile_of_another),
        LIFE(a_failed_run_resumes_to_the_same_weights),
        LIFE(another_plan_than_previewed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
