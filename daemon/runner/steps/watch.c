/* The rules of alerts that are measured after every step, as a table: a new one is a row here and
 * one of core/model/alerts.h. What it needs from the steps before is in struct cs_watch. */
#include "runner/steps/watch.h"

#include <math.h>
#include <stdio.h>

#include "core/base/units.h"
#include "runner/state/records.h"

enum {
    WINDOW = 20,      /* steps of a mean */
    FEW = 3,          /* steps that a mean says something after */
    SOME = 5,         /* steps that a mean is a measure for others after */
    WARM_UP_WAIT = 10 /* steps until the feeder is ahead */
};

static const double small_loss = 0.5; /* below it a loss is noise */

static void add(struct cs_mean *mean, double value)
{
    mean->n++;
    mean->value += (value - mean->value) / (double)(mean->n < WINDOW ? mean->n : WINDOW);
}

static bool is_finite_step(const struct cs_watched *step)
{
    return !step->is_skipped && (!step->has_loss || isfinite(step->loss)) &&
           (!step->has_norm || isfinite(step->grad_norm));
}

/* --- rules ------------------------------------------------------------------------------------ */

static enum cs_status skipped_updates(struct cs_runner *r, const struct cs_watched *step,
                                      double limit, struct cs_err *err)
{
    struct cs_watch *w = &r->watch;
    const long long skipped = (long long)r->skipped, all = (long long)step->step + 1;
    w->skipped_in_row = is_finite_step(step) ? 0 : w->skipped_in_row + 1;
    if (w->skipped_in_row == 0)
        return CS_OK;
    cs_run_alarm(r, CS_ALERT_SKIPPED_UPDATES, CS_WARN, step->step,
                 "loss %g, gradient norm %g: not finite (%lld of %lld updates skipped)", step->loss,
                 step->grad_norm, skipped, all);
    if (limit == 0 || (double)w->skipped_in_row < limit)
        return CS_OK;
    cs_run_alarm(r, CS_ALERT_SKIPPED_UPDATES, CS_ERROR, step->step,
                 "%lld steps in a row have no finite loss and gradient (%lld of %lld updates "
                 "skipped)",
                 (long long)w->skipped_in_row, skipped, all);
    return cs_fail(err, CS_JOB_FAILED,
                   "%lld of %lld updates skipped, the last %lld in a row: loss %g, gradient norm "
                   "%g. Lower the learning rate, look at optimizer.eps, at the weights ('model "
                   "check') and at the samples of step %lld; alerts.skipped_updates sets the limit",
                   skipped, all, (long long)w->skipped_in_row, step->loss, step->grad_norm,
                   all - (long long)w->skipped_in_row + 1);
}

static enum cs_status divergence(struct cs_runner *r, const struct cs_watched *step, double limit,
                                 struct cs_err *err)
{
    struct cs_watch *w = &r->watch;
    (void)err;
    if (!step->has_loss || !isfinite(step->loss))
        return CS_OK;
    add(&w->loss, step->loss);
    if (w->loss.n == 1) /* one step is a poor measure */
        w->lowest_loss = 2 * step->loss;
    if (w->loss.n >= SOME)
        w->lowest_loss = fmin(w->lowest_loss, w->loss.value);
    const double base = fmax(w->lowest_loss, small_loss);
    if (w->loss.n >= FEW && w->loss.value > limit * base)
        cs_run_alarm(r, CS_ALERT_DIVERGENCE, CS_WARN, step->step,
                     "the mean loss of the last steps is %.4g, it has been %.4g: training "
                     "diverges; lower the learning rate (%g now), warm it up for longer, or go "
                     "back to an earlier checkpoint",
                     w->loss.value, w->lowest_loss, step->lr);
    return CS_OK;
}

static enum cs_status grad_norm(struct cs_runner *r, const struct cs_watched *step, double limit,
                                struct cs_err *err)
{
    struct cs_watch *w = &r->watch;
    const double clip = r->job.spec->clip, norm = step->grad_norm;
    (void)err;
    if (!step->has_norm || !isfinite(norm))
        return CS_OK;
    if (w->norm.n >= SOME && norm > limit * w->norm.value && norm > (clip > 0 ? clip : 1))
        cs_run_alarm(r, CS_ALERT_GRAD_NORM, CS_WARN, step->step,
                     "the gradient norm is %.4g, its mean was %.4g: look at the samples of this "
                     "step; %s",
                     norm, w->norm.value,
                     clip > 0 ? "the update is clipped" : "nothing clips it: set optimizer.clip");
    add(&w->norm, norm);
    return CS_OK;
}

/* While ranks wait, samples are trained as fast as they are prepared. */
static void tell_data_wait(struct cs_runner *r, int64_t step)
{
    const struct cs_watch *w = &r->watch;
    char cores[40] = "";
    if (r->cores > 0)
        snprintf(cores, sizeof cores, " on %d core%s", r->cores, CS_PLURAL(r->cores));
    cs_run_alarm(
        r, CS_ALERT_DATA_WAIT, CS_WARN, step,
        "ranks wait for data %.0f%% of the time: %d thread%s%s prepare%s %.4g samples/s; "
        "%sgive smaller pictures, keep them decoded (cache of cs.data), or use a faster disk",
        100 * w->data_share.value, r->data_threads, CS_PLURAL(r->data_threads), cores,
        r->data_threads == 1 ? "s" : "", 1e9 / w->sample_ns.value,
        (r->cores > 0 && r->data_threads >= r->cores) || r->data_threads >= CS_SPEC_MAX_DATA_THREADS
            ? ""
            : "raise data_threads, ");
}

static enum cs_status data_wait(struct cs_runner *r, const struct cs_watched *step, double limit,
                                struct cs_err *err)
{
    struct cs_watch *w = &r->watch;
    (void)err;
    if (isnan(step->data_share) || w->n_steps <= WARM_UP_WAIT)
        return CS_OK;
    add(&w->data_share, step->data_share);
    if (step->samples > 0)
        add(&w->sample_ns, (double)step->step_ns / (double)step->samples);
    if (w->data_share.n >= SOME && w->data_share.value > limit && w->sample_ns.n > 0)
        tell_data_wait(r, step->step);
    return CS_OK;
}

static enum cs_status untrained_steps(struct cs_runner *r, const struct cs_watched *step,
                                      double limit, struct cs_err *err)
{
    struct cs_watch *w = &r->watch;
    (void)err;
    w->untrained_in_row = step->trained_tokens > 0 ? 0 : w->untrained_in_row + 1;
    if (w->untrained_in_row > 0 && (double)w->untrained_in_row >= limit)
        cs_run_alarm(r, CS_ALERT_UNTRAINED_STEPS, CS_WARN, step->step,
                     "no token is trained in %lld step%s in a row: look at the template and the "
                     "answers with 'inspect' and 'data check'",
                     (long long)w->untrained_in_row, CS_PLURAL(w->untrained_in_row));
    return CS_OK;
}

static enum cs_status checkpoint_age(struct cs_runner *r, const struct cs_watched *step,
                                     double limit, struct cs_err *err)
{
    struct cs_watch *w = &r->watch;
    const double before_s = (double)w->unsaved_ns / 1e9;
    (void)err;
    w->unsaved_ns += step->step_ns;
    if (before_s <= limit && (double)w->unsaved_ns / 1e9 > limit)
        cs_run_alarm(r, CS_ALERT_CHECKPOINT_AGE, CS_WARN, step->step,
                     "no checkpoint holds the last %.0f s of training: order one with "
                     "'checkpoint', set checkpoint.every_steps (%lld now)",
                     (double)w->unsaved_ns / 1e9, (long long)r->job.spec->checkpoint_every);
    return CS_OK;
}

/* Each measures its rule on every step and raises its alarm when the threshold is passed. */
static const struct {
    enum cs_alert alert;
    bool is_told_when_off; /* the threshold (then 0) is only of the failure */
    enum cs_status (*measure)(struct cs_runner *r, const struct cs_watched *step, double limit,
                              struct cs_err *err);
} rules[] = {
    {CS_ALERT_SKIPPED_UPDATES, true,  skipped_updates},
    {CS_ALERT_DIVERGENCE,      false, divergence     },
    {CS_ALERT_GRAD_NORM,       false, grad_norm      },
    {CS_ALERT_DATA_WAIT,       false, data_wait      },
    {CS_ALERT_UNTRAINED_STEPS, false, untrained_steps},
    {CS_ALERT_CHECKPOINT_AGE,  false, checkpoint_age },
};

enum cs_status cs_watch_step(struct cs_runner *r, const struct cs_watched *step, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    r->watch.n_steps++;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules) && status == CS_OK; i++) {
        const double limit = r->job.spec->alert[rules[i].alert];
        if (limit > 0 || rules[i].is_told_when_off)
            status = rules[i].measure(r, step, limit, err);
    }
    return status;
}

void cs_watch_saved(struct cs_runner *r)
{
    r->watch.unsaved_ns = 0;
}

enum cs_status cs_watch_end(struct cs_runner *r, struct cs_err *err)
{
    const long long skipped = (long long)r->skipped, all = (long long)r->last_step + 1;
    if (r->tokens > 0 && skipped < all)
        return CS_OK;
    if (r->tokens == 0)
        (void)!cs_fail(err, CS_JOB_FAILED,
                       "the job has learned nothing: no token of its %lld step%s was trained; look "
                       "at the template and the answers with 'inspect' and 'data check'",
                       all, CS_PLURAL(all));
    else
        (void)!cs_fail(err, CS_JOB_FAILED,
                       "the job has learned nothing: %lld of %lld updates skipped, their loss or "
                       "gradient was not finite",
                       skipped, all);
    cs_run_alarm(r, CS_ALERT_LEARNED_NOTHING, CS_ERROR, r->last_step, "%s", err->text);
    return err->status;
}
