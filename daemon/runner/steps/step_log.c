/* The log tells how training went without the journal beside it: readable, and not a line of every
 * step. */
#include "runner/steps/step_log.h"

#include <math.h>
#include <stdio.h>

/* enough digits for people; the journal has them all */
static const char *figure(char out[24], int digits, double value)
{
    snprintf(out, 24, "%.*g", digits, value);
    return out;
}

void cs_step_log_train(const struct cs_runner *r, const struct cs_step_report *report,
                       int64_t step_ns)
{
    char loss[24], balance[24], norm[24], lr[24], ms[24];
    const int64_t done = report->step + 1;
    const double seconds = (double)step_ns / 1e9;
    if (done % CS_LOG_EVERY_STEPS != 0 && done != 1 && done != r->job.spec->steps)
        return;
    const bool has_loss = report->has_loss && report->loss_tokens > 0;
    const double mean = has_loss ? report->loss_sum / (double)report->loss_tokens : (double)NAN;
    if (report->has_balance)
        cs_log(r->log, CS_INFO, "balance of experts", CS_KV("step", report->step),
               CS_KV("aux_loss", figure(balance, 5, report->balance)));
    const double grad_norm = report->has_norm ? report->grad_norm : (double)NAN;
    cs_log(r->log, CS_INFO, "step", CS_KV("step", report->step),
           CS_KV("loss", figure(loss, 5, mean)), CS_KV("grad_norm", figure(norm, 4, grad_norm)),
           CS_KV("lr", figure(lr, 3, report->lr)), CS_KV("step_ms", figure(ms, 4, seconds * 1e3)),
           CS_KV("tokens_per_s", seconds > 0 ? (int64_t)((double)report->tokens / seconds) : 0));
}

void cs_step_log_eval(const struct cs_runner *r, int64_t step, const struct cs_eval *eval)
{
    char loss[24], exact[24];
    cs_log(r->log, CS_INFO, "eval", CS_KV("step", step),
           CS_KV("loss", figure(loss, 5, eval->loss_sum / (double)eval->tokens)),
           CS_KV("exact_match", figure(exact, 4, r->exact_match)), CS_KV("samples", eval->samples));
}
