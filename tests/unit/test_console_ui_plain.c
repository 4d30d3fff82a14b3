/* Plain output: sentences on change, a progress line on terminals, the report at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/screen/plain.h"
#include "tests/support/replay.h"

struct session {
    FILE *file;
    char *text;
    size_t n;
    struct cs_plain *plain;
};

/* the stream keeps the addresses of text and n */
static void start(struct session *s, bool has_bar)
{
    *s = (struct session){0};
    s->file = open_memstream(&s->text, &s->n);
    assert_non_null(s->file);
    s->plain = cs_plain_new(s->file, has_bar, 100);
}

static void finish(struct session *s)
{
    cs_plain_free(s->plain);
    fclose(s->file);
}

static void feed(struct session *s, json_t *msg)
{
    assert_non_null(msg);
    cs_plain_message(s->plain, msg);
    json_decref(msg);
}

static void feed_job(struct session *s, const char *state, const char *reason)
{
    feed(s, json_pack("{s:s,s:{s:i,s:s,s:s,s:i,s:s}}", "type", "event.job", "job", "id", 41, "name",
                      "shapes", "state", state, "steps", 200, "reason", reason));
}

static void feed_step(struct session *s, int step)
{
    feed(s, json_pack("{s:s,s:i,s:s,s:f,s:i}", "type", "event.step", "step", step, "kind", "train",
                      "loss", 2.0, "step_ns", 50000000));
}

/* a model with experts tells the loss of their balance too */
static void feed_balanced_step(struct session *s, int step)
{
    feed(s, json_pack("{s:s,s:i,s:s,s:f,s:f,s:i}", "type", "event.step", "step", step, "kind",
                      "train", "loss", 2.0, "aux_loss", 2.125, "step_ns", 50000000));
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

static void states_are_told_once(void **state)
{
    (void)state;
    struct session s;
    start(&s, false);
    feed_job(&s, "RUN", "");
    feed_job(&s, "RUN", "");
    feed_job(&s, "FAILED", "rank 2 died");
    finish(&s);
    assert_string_equal(s.text,
                        "job 41 (shapes) is RUN.\njob 41 (shapes) is FAILED: rank 2 died\n");
    free(s.text);
}

static void a_long_run_takes_some_twenty_lines(void **state)
{
    (void)state;
    struct session s;
    start(&s, false);
    feed_job(&s, "RUN", "");
    for (int i = 0; i < 200; i++)
        feed_step(&s, i);
    finish(&s);
    assert_in_range(count(s.text, "\n"), 20, 24);
    assert_non_null(
        strstr(s.text, "step 1 of 200: loss 2.000, 50.0 ms per step, about 9.95 s left"));
    assert_non_null(strstr(s.text, "step 200 of 200"));
    assert_null(strchr(s.text, '\r'));
    free(s.text);
}

static void the_balance_of_experts_stands_beside_the_loss(void **state)
{
    (void)state;
    for (int is_terminal = 0; is_terminal < 2; is_terminal++) {
        struct session s;
        start(&s, is_terminal);
        feed_job(&s, "RUN", "");
        feed_balanced_step(&s, 0);
        finish(&s);
        assert_non_null(strstr(s.text, "loss 2.000, balance loss 2.125"));
        free(s.text);
    }
}

static void a_terminal_gets_one_progress_line(void **state)
{
    (void)state;
    struct session s;
    start(&s, true);
    feed_job(&s, "RUN", "");
    for (int i = 0; i < 100; i++)
        feed_step(&s, i);
    feed(&s, json_pack("{s:s,s:s,s:s}", "type", "event.note", "level", "warn", "text",
                       "disk\x1b[2J is slow"));
    finish(&s);
    assert_int_equal(count(s.text, "\n"), 2); /* the state and the note */
    assert_non_null(strstr(s.text, "[############............]  50%  step 100/200"));
    assert_non_null(strstr(s.text, "warn: disk\\x1b[2J is slow\n"));
    free(s.text);
}

static void a_note_that_is_an_alarm_names_its_rule_and_step(void **state)
{
    (void)state;
    struct session s;
    start(&s, false);
    feed(&s, json_pack("{s:s,s:s,s:s,s:s,s:i,s:i}", "type", "event.note", "level", "error", "text",
                       "not finite", "rule", "skipped_updates", "step", 2, "count", 1));
    finish(&s);
    assert_string_equal(s.text, "ERROR skipped_updates, step 3: not finite\n");
    free(s.text);
}

static void evaluations_count_correct_answers(void **state)
{
    (void)state;
    struct session s;
    start(&s, false);
    feed(&s, json_pack("{s:s,s:i,s:s,s:f,s:i,s:i}", "type", "event.step", "step", 99, "kind",
                       "eval", "loss", 0.1, "samples", 200, "correct", 197));
    finish(&s);
    assert_string_equal(s.text,
                        "evaluation after step 100: exact match 0.985 (197 of 200), loss 0.1000\n");
    free(s.text);
}

static void losses_of_sources_are_told_of_evaluations_and_at_the_end(void **state)
{
    (void)state;
    struct cs_test_replay replay;
    struct cs_test_spec spec = cs_test_replay_spec();
    struct cs_err err = {.text = ""};
    struct cs_store *store = cs_store_new();
    const struct cs_plain_end end = {0};
    struct session s;
    start(&s, false);
    feed(&s, json_pack("{s:s,s:i,s:s,s:f,s:{s:{s:f,s:i},s:{s:f,s:i}}}", "type", "event.step",
                       "step", 9, "kind", "eval", "loss", 0.5, "sources", "coco", "loss", 0.75,
                       "tokens", 3, "other", "loss", 0.25, "tokens", 3));
    feed(&s, json_pack("{s:s,s:i,s:s,s:f,s:{s:{s:f,s:i}}}", "type", "event.step", "step", 10,
                       "kind", "train", "loss", 2.5, "sources", "chat", "loss", 2.5, "tokens", 3));
    feed(&s, json_pack("{s:s,s:i,s:s,s:f,s:i,s:i}", "type", "event.step", "step", 11, "kind",
                       "train", "loss", 2.0, "step_ns", 76000000, "data_wait_us", 5000));
    cs_test_replay_new(&replay, &spec, 1);
    assert_int_equal(cs_store_trace(store, replay.trace.data, replay.trace.len, &err), CS_OK);
    cs_plain_report(s.plain, store, &end); /* it waited for little data */
    finish(&s);
    assert_null(strstr(s.text, "ranks wait"));
    assert_non_null(strstr(s.text, "  loss by source: coco 0.7500, other 0.2500\n"));
    assert_non_null(strstr(s.text, "  by source    chat 2.500\n"));
    cs_store_free(store);
    cs_test_replay_free(&replay);
    free(s.text);
}

static void the_report_names_every_stage_and_what_to_do_next(void **state)
{
    (void)state;
    struct cs_test_replay replay;
    struct cs_test_spec spec = cs_test_replay_spec();
    struct cs_err err = {.text = ""};
    struct cs_store *store = cs_store_new();
    struct session s;
    char bubble[64];
    start(&s, false);
    cs_test_replay_new(&replay, &spec, 1);
    assert_int_equal(cs_store_trace(store, replay.trace.data, replay.trace.len, &err), CS_OK);
    for (int i = 0; i < 100; i++)
        feed(&s,
             json_pack("{s:s,s:i,s:s,s:f,s:i,s:i}", "type", "event.step", "step", 30 + i / 10,
                       "kind", "train", "loss", 2.0, "step_ns", 76000000, "data_wait_us", 53000));
    store->jobs[0].exact_match = 0.98;
    store->jobs[0].steps = 41;
    json_t *alarms = json_pack("[{s:s,s:s,s:i,s:i,s:s}]", "rule", "divergence", "level", "warn",
                               "count", 3, "step", 39, "text", "the loss grew to 20100");
    const struct cs_plain_end end = {alarms, "out/model", "cornstarch-console show 1"};
    cs_plain_report(s.plain, store, &end);
    json_decref(alarms);
    finish(&s);
    assert_non_null(strstr(
        s.text, "  alarms       WARNING divergence, step 40, 3 times: the loss grew to 20100\n"));
    assert_non_null(strstr(s.text, "steps        41 of 41\n"));
    assert_non_null(strstr(s.text, "held-out exact match: 0.98\n"));
    assert_non_null(strstr(s.text,
                           "  data         ranks wait for it 53.0 ms of 76.0 ms a step, and "
                           "predictions do not count that: raise data_threads"));
    assert_non_null(strstr(s.text, "out/model\n"));
    assert_non_null(strstr(s.text, "next: cornstarch-console show 1\n"));
    for (int i = 0; i < replay.plan->n_stages; i++) {
        snprintf(bubble, sizeof bubble, "rank %d  measured %.1f%%, predicted %.1f%%\n",
                 replay.plan->stages[i].rank, 100 * replay.measured.bubble[i],
                 100 * replay.predicted.bubble[i]);
        assert_non_null(strstr(s.text, bubble));
    }
    cs_store_free(store);
    cs_test_replay_free(&replay);
    free(s.text);
}

/* A rank is idle beside the work of all its stages; the time of a step is that of the last steps that were seen. */
static void the_report_counts_all_stages_of_a_rank(void **state)
{
    (void)state;
    struct cs_test_replay replay;
    struct cs_test_spec spec = cs_test_replay_spec();
    struct cs_err err = {.text = ""};
    struct cs_store *store = cs_store_new();
    const struct cs_plain_end end = {0};
    struct session s;
    char want[128];
    double idle[2];
    start(&s, false);
    feed(&s, json_pack("{s:s,s:i,s:s,s:f,s:i}", "type", "event.step", "step", 3, "kind", "train",
                       "loss", 2.0, "step_ns", 76000000));
    feed(&s, json_pack("{s:s,s:i,s:s,s:f,s:i}", "type", "event.step", "step", 4, "kind", "train",
                       "loss", 2.0, "step_ns", 96000000));
    cs_test_replay_new(&replay, &spec, 1);
    assert_int_equal(cs_store_trace(store, replay.trace.data, replay.trace.len, &err), CS_OK);
    assert_true(store->n_stages > 2);
    const struct cs_store_stage *stage = store->stages;
    store->stages[1].rank = stage[0].rank;
    idle[0] = replay.measured.bubble[0] + replay.measured.bubble[1] - 1;
    idle[1] = replay.predicted.bubble[0] + replay.predicted.bubble[1] - 1;
    snprintf(want, sizeof want,
             "  bubble       %s, %s rank %d  measured %.1f%%, predicted %.1f%%\n", stage[0].name,
             stage[1].name, stage[0].rank, 100 * (idle[0] > 0 ? idle[0] : 0),
             100 * (idle[1] > 0 ? idle[1] : 0));
    cs_plain_report(s.plain, store, &end);
    finish(&s);
    if (strstr(s.text, want) == NULL)
        fail_msg("no '%s' in %s", want, s.text);
    assert_non_null(strstr(s.text, ", measured 78.0 ms\n"));
    snprintf(want, sizeof want, "  bubble       %s ", stage[1].name);
    assert_null(strstr(s.text, want)); /* not told apart */
    cs_store_free(store);
    cs_test_replay_free(&replay);
    free(s.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_told_once),
        cmocka_unit_test(a_long_run_takes_some_twenty_lines),
        cmocka_unit_test(the_balance_of_experts_stands_beside_the_loss),
        cmocka_unit_test(a_terminal_gets_one_progress_line),
        cmocka_unit_test(a_note_that_is_an_alarm_names_its_rule_and_step),
        cmocka_unit_test(evaluations_count_correct_answers),
        cmocka_unit_test(the_report_counts_all_stages_of_a_rank),
        cmocka_unit_test(losses_of_sources_are_told_of_evaluations_and_at_the_end),
        cmocka_unit_test(the_report_names_every_stage_and_what_to_do_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
