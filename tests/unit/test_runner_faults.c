/* The runner with real processes that compute nothing (support/pretend_ranks.h): who is blamed for a job that
 * fails, and what makes it fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "support/pretend_job.h"
#include "support/pretend_ranks.h"
#include "support/tmpdir.h"

static void check_failure(struct pretend_job *job, const char *fault, int rank,
                          const char *const *parts)
{
    pretend_write(job, 12, 0, "");
    setenv("FAKE_FAULT", fault, 1);
    assert_int_equal(pretend_run(job), CS_JOB_FAILED);
    json_t *end = pretend_state(job);
    const char *reason = cs_msg_str(end, "reason", "");
    assert_string_equal(cs_msg_str(end, "state", ""), "FAILED");
    assert_int_equal(cs_msg_int(end, "exit", -1), 6);
    assert_int_equal(cs_msg_int(cs_msg_obj(end, "culprit"), "rank", -9), rank);
    for (; *parts; parts++)
        if (!strstr(reason, *parts))
            fail_msg("\"%s\" is not in \"%s\"", *parts, reason);
    json_decref(end);
    assert_int_equal(pretend_count_left(job), 0);
}

static void a_killed_worker_is_named_with_step_and_action(void **state)
{
    static const char *const parts[] = {"rank 1 (llm.0) died (signal 9) in step 4 at F of slot 0",
                                        "samples 1004", NULL};
    check_failure(*state, "1:4:kill", 1, parts);
    assert_false(pretend_has_note(*state, "samples 1004 0")); /* a slot of one sample names one */
    /* and where each of them was is told */
    assert_true(pretend_has_note(*state, "last action of rank 0 (vision.0): in step "));
    assert_true(
        pretend_has_note(*state, "last action of rank 1 (llm.0): in step 4 at F of slot 0"));
    assert_true(pretend_has_note(*state, "last action of rank 2 (llm.1): in step "));
}

static void a_failed_worker_is_blamed_not_its_victims(void **state)
{
    static const char *const parts[] = {"rank 2 (llm.1) failed in step 3", "the sky is green",
                                        NULL};
    check_failure(*state, "2:3:error", 2, parts);
}

static void an_exit_code_comes_with_the_last_output(void **state)
{
    static const char *const parts[] = {"rank 0 (vision.0) ended with code 42 in step 5",
                                        "giving up for a reason", NULL};
    check_failure(*state, "0:5:exit", 0, parts);
}

static void a_worker_that_leaves_without_a_word_is_a_failure(void **state)
{
    static const char *const parts[] = {"rank 1 (llm.0) ended with code 0", NULL};
    check_failure(*state, "1:6:mute", 1, parts);
}

static void a_killed_feeder_is_named(void **state)
{
    static const char *const parts[] = {"the feeder died (signal 9)", NULL};
    check_failure(*state, "-1:5:kill", -1, parts);
}

/* Its files are closed, others tell of it, and its end takes its time. */
static void a_rank_whose_end_comes_after_the_words_of_its_victims_is_named(void **state)
{
    static const char *const parts[] = {"rank 0 (vision.0) died (signal 9) in step 4 at ", NULL};
    check_failure(*state, "0:4:fade", 0, parts);
}

/* Nothing shows yet that it is about to end. */
static void a_rank_that_dies_after_the_words_of_its_victims_is_named(void **state)
{
    static const char *const parts[] = {"rank 2 (llm.1) died (signal 9) in step 4 at ", NULL};
    check_failure(*state, "2:4:lag", 2, parts);
}

static void a_rank_that_tells_after_its_victims_is_named(void **state)
{
    static const char *const parts[] = {"rank 2 (llm.1) failed in step 3 at ",
                                        ": the disk is on fire", NULL};
    check_failure(*state, "2:3:tell", 2, parts);
}

static void of_two_that_died_one_is_named_with_the_other(void **state)
{
    static const char *const parts[] = {"rank 0 (vision.0) died (signal 9) in step 4 at ",
                                        "; rank 2 (llm.1) failed beside it", NULL};
    check_failure(*state, "0:4:kill,2:4:kill", 0, parts);
}

static void of_two_that_died_the_later_one_counts_as_well(void **state)
{
    static const char *const parts[] = {"rank 0 (vision.0) died (signal 9) in step 4 at ",
                                        "; rank 2 (llm.1) failed beside it", NULL};
    check_failure(*state, "0:4:fade,2:4:kill", 0, parts);
}

/* There is no cause to be had: what it said stands, with who else is there. */
static void a_rank_that_others_have_lost_but_that_runs_is_told_as_such(void **state)
{
    static const char *const parts[] = {
        "rank 0 (vision.0) failed in step 4 at ",
        ": a peer is gone; rank 1 (llm.0) still runs, without a word", NULL};
    check_failure(*state, "1:4:deaf", 0, parts);
}

static void a_stopped_rank_is_named_then_fails_the_job(void **state)
{
    struct pretend_job *job = *state;
    static const char *const parts[] = {"rank 1 (llm.0) stands still in step 2 at F of slot 0",
                                        "the process is stopped", NULL};
    job->options.hang_ns = 200000000;
    check_failure(job, "1:2:stop", 1, parts);
    assert_true(pretend_has_note(job, "rank 1 (llm.0) stands still"));
}

static void a_rank_that_never_gets_ready_fails_the_job(void **state)
{
    struct pretend_job *job = *state;
    static const char *const parts[] = {"rank 0 (vision.0) stands still before its first step",
                                        NULL};
    job->options.hang_ns = 200000000;
    check_failure(job, "0:0:ready", 0, parts);
}

/* those that wait for it had stood still for longer */
static void a_rank_that_is_stopped_at_the_start_is_named_not_who_waits(void **state)
{
    struct pretend_job *job = *state;
    static const char *const parts[] = {"rank 1 (llm.0) stands still before its first step",
                                        "(the process is stopped)", NULL};
    job->options.hang_ns = 200000000;
    check_failure(job, "1:0:halt", 1, parts);
}

/* Ranks that have met nobody yet do nothing at all, for longer than a rank may stand still. */
static void who_waits_at_the_start_for_one_that_computes_is_not_blamed(void **state)
{
    struct pretend_job *job = *state;
    job->options.hang_ns = 200000000;
    pretend_write(job, 12, 0, "");
    setenv("FAKE_FAULT", "1:0:late", 1);
    assert_int_equal(pretend_run(job), CS_OK);
    assert_false(pretend_has_note(job, "stands still"));
}

static void a_stopped_rank_is_named_when_others_give_up(void **state)
{
    static const char *const parts[] = {"rank 1 (llm.0) stands still before its first step",
                                        "(the process is stopped); others waited in vain", NULL};
    check_failure(*state, "1:0:gone", 1, parts);
}

static void a_rank_that_is_stopped_when_it_is_done_does_not_last_for_ever(void **state)
{
    struct pretend_job *job = *state;
    static const char *const parts[] = {"rank 2 (llm.1) stands still", "(the process is stopped)",
                                        NULL};
    job->options.hang_ns = 200000000;
    check_failure(job, "2:11:done", 2, parts);
}

static void a_feeder_that_never_gets_ready_fails_the_job(void **state)
{
    struct pretend_job *job = *state;
    static const char *const parts[] = {"the feeder stands still", NULL};
    job->options.hang_ns = 200000000;
    check_failure(job, "-1:0:ready", -1, parts);
}

/* as after a night's sleep of the machine: all stood still, the runner looks before ranks can move */
static void a_runner_that_stood_still_blames_nobody(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 400, 0, "");
    setenv("FAKE_STEP_MS", "20", 1);
    job->options.hang_ns = 200000000;
    pid_t pid = pretend_start(job);
    while (pretend_steps(job) < 5)
        usleep(10000);
    kill(pid, SIGSTOP);
    pretend_signal_workers(job, SIGSTOP);
    sleep(5);
    kill(pid, SIGCONT);
    usleep(200000);
    pretend_signal_workers(job, SIGCONT);
    assert_int_equal(pretend_wait_end(pid), CS_OK);
    assert_true(pretend_has_note(job, "the runner itself stood still for"));
    assert_false(pretend_has_note(job, "stands still"));
}

static void a_failed_save_does_not_fail_the_run(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 10, 3, "");
    setenv("FAKE_FAULT", "1:5:save", 1);
    assert_int_equal(pretend_run(job), CS_OK);
    assert_true(pretend_has_note(job, "the checkpoint of step 5 failed"));
    assert_true(pretend_has_note(job, "disk full"));
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-2"));
    assert_false(tmpdir_has(job->path, "ckpt/ckpt-5"));
    assert_false(tmpdir_has(job->path, "ckpt/ckpt-5.tmp"));
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-9"));
}

static void a_lost_final_checkpoint_fails_the_run(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 10, 3, "");
    setenv("FAKE_FAULT", "1:9:save", 1);
    assert_int_equal(pretend_run(job), CS_JOB_FAILED);
    json_t *end = pretend_state(job);
    assert_non_null(strstr(cs_msg_str(end, "reason", ""), "final checkpoint of step 9"));
    assert_int_equal(cs_msg_int(end, "checkpoint_step", -1), 8);
    json_decref(end);
}

static void assert_failed(const struct pretend_job *job, const char *reason, const char *rule)
{
    json_t *end = pretend_state(job);
    const json_t *alarms = cs_msg_arr(end, "alarms");
    bool is_told = false;
    assert_string_equal(cs_msg_str(end, "state", ""), "FAILED");
    assert_int_equal(cs_msg_int(end, "exit", -1), 6);
    if (!strstr(cs_msg_str(end, "reason", ""), reason))
        fail_msg("\"%s\" is not in \"%s\"", reason, cs_msg_str(end, "reason", ""));
    for (size_t i = 0; i < json_array_size(alarms); i++)
        is_told = is_told || strcmp(cs_msg_str(json_array_get(alarms, i), "rule", ""), rule) == 0;
    assert_true(is_told);
    json_decref(end);
    assert_int_equal(pretend_count_left(job), 0);
}

static void updates_that_are_skipped_in_a_row_fail_the_run(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 200, 7, "");
    setenv("FAKE_NAN", "7", 1);
    setenv("FAKE_STEP_MS", "20", 1); /* they shall not be far ahead when the runner ends them */
    assert_int_equal(pretend_run(job), CS_JOB_FAILED);
    assert_failed(job, "5 of 12 updates skipped", "skipped_updates");
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-6/checkpoint.json"));
}

static void a_run_too_short_for_that_has_learned_nothing(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 4, 0, "");
    setenv("FAKE_NAN", "0", 1);
    assert_int_equal(pretend_run(job), CS_JOB_FAILED);
    assert_failed(job, "4 of 4 updates skipped", "learned_nothing");
    /* and it stays so: all its steps are done */
    assert_int_equal(pretend_run(job), CS_JOB_FAILED);
    assert_failed(job, "4 of 4 updates skipped", "learned_nothing");
}

/* the last step alone breaks the parameters: no rule of the steps before tells */
static void a_final_checkpoint_that_is_not_finite_fails_the_run(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 6, 0, "");
    setenv("FAKE_NAN", "5", 1);
    assert_int_equal(pretend_run(job), CS_JOB_FAILED);
    assert_failed(job, "NaN or infinite elements", "nonfinite_weights");
    assert_int_equal(pretend_run(job), CS_JOB_FAILED); /* it does not become DONE by asking again */
    assert_failed(job, "NaN or infinite elements", "nonfinite_weights");
}

static void remove_while_it_runs(struct pretend_job *job, const char *what, const char *reason)
{
    char command[400];
    pretend_write(job, 150, 0, "");
    setenv("FAKE_STEP_MS", "20", 1);
    pid_t pid = pretend_start(job);
    while (pretend_steps(job) < 5)
        usleep(10000);
    snprintf(command, sizeof command, "rm -r %s%s", job->path, what);
    assert_int_equal(system(command), 0);
    assert_int_equal(pretend_wait_end(pid), CS_JOB_FAILED);
    assert_failed(job, reason, "files_lost");
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-149/checkpoint.json"));
    assert_true(pretend_steps(job) > 10); /* what came after it was noticed */
}

static void a_journal_that_is_removed_is_noticed(void **state)
{
    remove_while_it_runs(*state, "/journal", "removed meanwhile: the journal after step ");
}

static void a_directory_that_is_removed_is_noticed(void **state)
{
    struct pretend_job *job = *state;
    remove_while_it_runs(job, "", "removed meanwhile: the directory after step ");
    assert_true(tmpdir_has(job->path, "spec.json"));
}

static void a_run_without_trained_tokens_fails(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 6, 0, "");
    setenv("FAKE_UNTRAINED", "1", 1);
    setenv("FAKE_EVAL", "1", 1);
    assert_int_equal(pretend_run(job), CS_JOB_FAILED);
    assert_failed(job, "no token of its 6 steps was trained", "evaluation");
    assert_failed(job, "no token of its 6 steps was trained", "untrained_steps");
}

#define LIFE(test) cmocka_unit_test_setup_teardown(test, pretend_setup, pretend_teardown)

int main(int argc, char **argv)
{
    (void)argc;
    pretend_main(argv);
    const struct CMUnitTest tests[] = {
        LIFE(a_killed_worker_is_named_with_step_and_action),
        LIFE(a_failed_worker_is_blamed_not_its_victims),
        LIFE(an_exit_code_comes_with_the_last_output),
        LIFE(a_worker_that_leaves_without_a_word_is_a_failure),
        LIFE(a_killed_feeder_is_named),
        LIFE(a_rank_whose_end_comes_after_the_words_of_its_victims_is_named),
        LIFE(a_rank_that_dies_after_the_words_of_its_victims_is_named),
        LIFE(a_rank_that_tells_after_its_victims_is_named),
        LIFE(of_two_that_died_one_is_named_with_the_other),
        LIFE(of_two_that_died_the_later_one_counts_as_well),
        LIFE(a_rank_that_others_have_lost_but_that_runs_is_told_as_such),
        LIFE(a_stopped_rank_is_named_then_fails_the_job),
        LIFE(a_rank_that_never_gets_ready_fails_the_job),
        LIFE(a_rank_that_is_stopped_at_the_start_is_named_not_who_waits),
        LIFE(who_waits_at_the_start_for_one_that_computes_is_not_blamed),
        LIFE(a_stopped_rank_is_named_when_others_give_up),
        LIFE(a_rank_that_is_stopped_when_it_is_done_does_not_last_for_ever),
        LIFE(a_feeder_that_never_gets_ready_fails_the_job),
        LIFE(a_runner_that_stood_still_blames_nobody),
        LIFE(a_failed_save_does_not_fail_the_run),
        LIFE(a_lost_final_checkpoint_fails_the_run),
        LIFE(updates_that_are_skipped_in_a_row_fail_the_run),
        LIFE(a_run_too_short_for_that_has_learned_nothing),
        LIFE(a_final_checkpoint_that_is_not_finite_fails_the_run),
        LIFE(a_journal_that_is_removed_is_noticed),
        LIFE(a_directory_that_is_removed_is_noticed),
        LIFE(a_run_without_trained_tokens_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
