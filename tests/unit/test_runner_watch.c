/* The rules of alerts: what steps must show for an alarm, what must not raise one, and what ends a
 * job. Steps are made by hand, no process runs. */
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

#include "runner/state/alarms.h"
#include "runner/steps/watch.h"
#include "support/planned.h"

static const int64_t second_ns = 1000000000;

/* A runner that watches and writes nowhere. */
struct watched {
    struct cs_test_planned made;
    struct cs_runner r;
    struct cs_err err;
};

static void begin(struct watched *w)
{
    *w = (struct watched){.made = cs_test_plan(NULL)};
    w->r = (struct cs_runner){.last_step = -1, .tokens = 1};
    w->r.job.spec = w->made.spec;
}

static void end(struct watched *w)
{
    cs_test_planned_free(&w->made);
}

/* a step like any other */
static struct cs_watched good(void)
{
    return (struct cs_watched){.trained_tokens = 40,
                               .step_ns = second_ns / 10,
                               .has_loss = true,
                               .loss = 3,
                               .has_norm = true,
                               .grad_norm = 2,
                               .lr = 1e-3,
                               .data_share = 0.1};
}

static enum cs_status see(struct watched *w, struct cs_watched step)
{
    step.step = ++w->r.last_step;
    w->r.skipped += step.is_skipped;
    return cs_watch_step(&w->r, &step, &w->err);
}

static enum cs_status see_loss(struct watched *w, double loss)
{
    struct cs_watched step = good();
    step.loss = loss;
    return see(w, step);
}

static enum cs_status see_skipped(struct watched *w)
{
    struct cs_watched step = good();
    step.loss = step.grad_norm = (double)NAN;
    step.is_skipped = true;
    return see(w, step);
}

static int64_t count(const struct watched *w, enum cs_alert alert)
{
    return w->r.alarm[alert].count;
}

static void assert_text(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void assert_silent(const struct watched *w)
{
    for (int i = 0; i < CS_ALERT_COUNT; i++)
        if (w->r.alarm[i].count > 0)
            fail_msg("%s: %s", cs_alert_row((enum cs_alert)i)->slug, w->r.alarm[i].text);
}

static void skipped_updates_in_a_row_fail_the_job(void **state)
{
    (void)state;
    struct watched w;
    begin(&w);
    assert_int_equal(see(&w, good()), CS_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(see_skipped(&w), CS_OK);
    assert_int_equal(w.r.alarm[CS_ALERT_SKIPPED_UPDATES].level, CS_WARN);
    assert_int_equal(see_skipped(&w), CS_JOB_FAILED);
    assert_text(w.err.text, "5 of 6 updates skipped");
    assert_text(w.err.text, "samples of step 2;");
    assert_int_equal(w.r.alarm[CS_ALERT_SKIPPED_UPDATES].level, CS_ERROR);
    end(&w);
}

static void a_finite_step_starts_the_row_again(void **state)
{
    (void)state;
    struct watched w;
    begin(&w);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 4; k++)
            assert_int_equal(see_skipped(&w), CS_OK);
        assert_int_equal(see(&w, good()), CS_OK);
    }
    assert_int_equal(count(&w, CS_ALERT_SKIPPED_UPDATES), 80);
    assert_text(w.r.alarm[CS_ALERT_SKIPPED_UPDATES].text, "80 of 99 updates skipped");
    end(&w);
}

/* without a gradient norm that tells: a loss alone, or a norm alone, infinite or NaN */
static void any_figure_that_is_not_finite_counts(void **state)
{
    (void)state;
    const double bad[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(bad); i++) {
        struct watched w;
        struct cs_watched step = good();
        *(i % 2 ? &step.loss : &step.grad_norm) = bad[i / 2];
        begin(&w);
        for (int k = 0; k < 4; k++)
            assert_int_equal(see(&w, step), CS_OK);
        assert_int_equal(see(&w, step), CS_JOB_FAILED);
        end(&w);
    }
}

static void an_alert_that_is_off_fails_nothing_but_is_told(void **state)
{
    (void)state;
    struct watched w;
    begin(&w);
    w.made.spec->alert[CS_ALERT_SKIPPED_UPDATES] = 0;
    for (int i = 0; i < 50; i++)
        assert_int_equal(see_skipped(&w), CS_OK);
    assert_int_equal(count(&w, CS_ALERT_SKIPPED_UPDATES), 50);
    assert_int_equal(cs_watch_end(&w.r, &w.err), CS_JOB_FAILED);
    assert_text(w.err.text, "50 of 50 updates skipped");
    end(&w);
}

static void a_run_without_a_trained_token_has_learned_nothing(void **state)
{
    (void)state;
    struct watched w;
    struct cs_watched step = good();
    step.trained_tokens = 0;
    step.has_loss = false;
    step.grad_norm = 0;
    begin(&w);
    w.r.tokens = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(see(&w, step), CS_OK);
    assert_int_equal(count(&w, CS_ALERT_UNTRAINED_STEPS), 3);
    assert_int_equal(cs_watch_end(&w.r, &w.err), CS_JOB_FAILED);
    assert_text(w.err.text, "no token of its 3 steps was trained");
    assert_int_equal(count(&w, CS_ALERT_LEARNED_NOTHING), 1);
    w.r.tokens = 1; /* of an earlier run */
    assert_int_equal(cs_watch_end(&w.r, &w.err), CS_OK);
    end(&w);
}

static void a_loss_that_grows_diverges(void **state)
{
    (void)state;
    /* from the second step on; after a descent; to a plateau */
    static const double grown[][12] = {
        {6, 300, 20000, 20100, 20100, 20100, 20100, 20100, 20100, 20100, 20100, 20100},
        {6, 5,   4,     4,     4,     4,     4,     9,     20,    60,    200,   900  },
        {4, 3,   2,     1,     0.2,   0.2,   0.2,   7,     7,     7,     7,     7    },
    };
    for (size_t k = 0; k < CS_ARRAY_LEN(grown); k++) {
        struct watched w;
        begin(&w);
        for (int i = 0; i < 12; i++)
            assert_int_equal(see_loss(&w, grown[k][i]), CS_OK);
        assert_true(count(&w, CS_ALERT_DIVERGENCE) > 0);
        assert_text(w.r.alarm[CS_ALERT_DIVERGENCE].text, "lower the learning rate (0.001 now)");
        end(&w);
    }
}

static void a_loss_that_falls_or_is_noisy_does_not(void **state)
{
    (void)state;
    struct watched w;
    begin(&w);
    for (int i = 0; i < 200; i++)
        see_loss(&w, 7 * exp(-i / 20.0) + (i % 3 == 0 ? 0.4 : 0));
    for (int i = 0; i < 200; i++) /* samples of one token */
        see_loss(&w, i % 2 ? 0.001 : 0.6);
    assert_silent(&w);
    end(&w);
    begin(&w);
    for (int i = 0; i < 200; i++) /* one easy sample, then hard ones */
        see_loss(&w, i == 0 ? 2 : i % 2 ? 2.2 : 3.5);
    assert_silent(&w);
    end(&w);
}

static void a_gradient_that_explodes_is_told_where_it_is_clipped(void **state)
{
    (void)state;
    struct watched w;
    struct cs_watched step = good();
    begin(&w);
    for (int i = 0; i < 10; i++)
        see(&w, step);
    step.grad_norm = 50;
    see(&w, step);
    assert_int_equal(count(&w, CS_ALERT_GRAD_NORM), 1);
    assert_text(w.r.alarm[CS_ALERT_GRAD_NORM].text, "the gradient norm is 50, its mean was 2:");
    end(&w);
    begin(&w);
    step.grad_norm = 0.001;
    for (int i = 0; i < 10; i++)
        see(&w, step);
    step.grad_norm = 0.5; /* below the clip: nothing happens to it */
    see(&w, step);
    assert_silent(&w);
    end(&w);
}

static void ranks_that_wait_for_data_starve(void **state)
{
    (void)state;
    struct watched w;
    struct cs_watched step = good();
    begin(&w);
    w.r.data_threads = 7;
    w.r.cores = 32;
    step.samples = 24;
    step.data_share = 0.9; /* the first steps wait: the feeder begins */
    for (int i = 0; i < 10; i++)
        see(&w, step);
    step.data_share = 0.2;
    for (int i = 0; i < 30; i++)
        see(&w, step);
    assert_silent(&w);
    step.data_share = 0.35;
    for (int i = 0; i < 40; i++)
        see(&w, step);
    assert_true(count(&w, CS_ALERT_DATA_WAIT) > 10);
    step.data_share = 0.9;
    for (int i = 0; i < 40; i++)
        see(&w, step);
    assert_text(w.r.alarm[CS_ALERT_DATA_WAIT].text,
                "% of the time: 7 threads on 32 cores prepare 240 samples/s; raise data_threads, "
                "give smaller pictures");
    w.r.data_threads = w.r.cores = 1; /* more threads would not help */
    see(&w, step);
    assert_text(w.r.alarm[CS_ALERT_DATA_WAIT].text,
                ": 1 thread on 1 core prepares 240 samples/s; give smaller pictures");
    end(&w);
}

static void training_that_no_checkpoint_holds_is_told_once(void **state)
{
    (void)state;
    struct watched w;
    struct cs_watched step = good();
    step.step_ns = 1000 * second_ns;
    begin(&w);
    for (int i = 0; i < 7; i++)
        see(&w, step);
    cs_watch_saved(&w.r);
    for (int i = 0; i < 7; i++)
        see(&w, step);
    assert_silent(&w);
    for (int i = 0; i < 7; i++)
        see(&w, step);
    assert_int_equal(count(&w, CS_ALERT_CHECKPOINT_AGE), 1);
    assert_text(w.r.alarm[CS_ALERT_CHECKPOINT_AGE].text, "the last 8000 s of training");
    end(&w);
}

static void every_rule_can_be_off(void **state)
{
    (void)state;
    struct watched w;
    begin(&w);
    for (int i = 0; i < CS_ALERT_COUNT; i++)
        w.made.spec->alert[i] = 0;
    for (int i = 0; i < 40; i++) {
        struct cs_watched step = good();
        step.loss = i < 20 ? 1 : 1000;
        step.grad_norm = i < 20 ? 1 : 1000;
        step.data_share = 1;
        step.trained_tokens = 0;
        step.step_ns = 10000 * second_ns;
        assert_int_equal(see(&w, step), CS_OK);
    }
    assert_silent(&w);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skipped_updates_in_a_row_fail_the_job),
        cmocka_unit_test(a_finite_step_starts_the_row_again),
        cmocka_unit_test(any_figure_that_is_not_finite_counts),
        cmocka_unit_test(an_alert_that_is_off_fails_nothing_but_is_told),
        cmocka_unit_test(a_run_without_a_trained_token_has_learned_nothing),
        cmocka_unit_test(a_loss_that_grows_diverges),
        cmocka_unit_test(a_loss_that_falls_or_is_noisy_does_not),
        cmocka_unit_test(a_gradient_that_explodes_is_told_where_it_is_clipped),
        cmocka_unit_test(ranks_that_wait_for_data_starve),
        cmocka_unit_test(training_that_no_checkpoint_holds_is_told_once),
        cmocka_unit_test(every_rule_can_be_off),
    };
    return cmocka_run_group_tests_name("runner/watch", tests, NULL, NULL);
}
