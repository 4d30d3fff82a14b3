/* Takes what workers and the feeder say: one handler per message. */
#include "runner/messages.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/wire/wire.h"
#include "runner/life.h"
#include "runner/state/records.h"
#include "runner/steps/events.h"
#include "runner/steps/predict.h"
#include "runner/steps/saves.h"
#include "runner/steps/step.h"
#include "runner/steps/step_reports.h"
#include "runner/steps/weights.h"

/* "3140 ms: plan 5, device 812, ...": what of the start of a rank took how long */
static void put_start(const json_t *msg, struct cs_buf *out)
{
    json_int_t sum = 0;
    size_t i;
    json_t *part, *list = cs_msg_arr(msg, "start");
    json_array_foreach(list, i, part) sum += json_integer_value(json_array_get(part, 1));
    cs_buf_addf(out, "%lld ms", (long long)(sum + 500) / 1000);
    json_array_foreach(list, i, part)
    {
        const char *what = json_string_value(json_array_get(part, 0));
        const json_int_t us = json_integer_value(json_array_get(part, 1));
        cs_buf_addf(out, "%s %s %lld", i == 0 ? ":" : ",", what != NULL ? what : "?",
                    (long long)(us + 500) / 1000);
    }
}

static void log_worker_ready(const struct cs_child *child, const json_t *msg)
{
    struct cs_buf start = {0};
    put_start(msg, &start);
    cs_log(child->runner->log, CS_INFO, "worker.ready", CS_KV("rank", child->rank),
           CS_KV("params", cs_msg_int(msg, "params", 0)),
           CS_KV("trained", cs_msg_int(msg, "trained", 0)),
           CS_KV("state_bytes", cs_msg_int(msg, "state_bytes", 0)),
           CS_KV("activation_bytes", cs_msg_int(msg, "activation_bytes", 0)),
           CS_KV("scratch_bytes", cs_msg_int(msg, "scratch_bytes", 0)),
           CS_KV("start", cs_buf_str(&start)));
    cs_buf_free(&start);
}

static void on_ready(struct cs_child *child, const json_t *msg)
{
    child->is_ready = true;
    cs_str_copy(child->program_hash, sizeof child->program_hash,
                cs_msg_str(msg, "program_hash", ""));
    if (child->rank < 0)
        cs_log(child->runner->log, CS_INFO, "feeder.ready",
               CS_KV("samples", cs_msg_int(msg, "samples", 0)),
               CS_KV("eval_samples", cs_msg_int(msg, "eval_samples", 0)),
               CS_KV("threads", child->runner->data_threads));
    else
        log_worker_ready(child, msg);
    cs_life_ready(child->runner);
}

static void on_error(struct cs_child *child, const json_t *msg)
{
    child->error.status = cs_status_from_slug(cs_msg_str(msg, "status", ""));
    if (child->error.status == CS_OK)
        child->error.status = CS_INTERNAL;
    snprintf(child->error.text, sizeof child->error.text, "%s", cs_msg_str(msg, "text", ""));
    child->error_step = cs_msg_int(msg, "step", -1);
    cs_str_copy(child->error_action, sizeof child->error_action, cs_msg_str(msg, "action", ""));
    cs_life_trouble(child->runner);
}

static void on_done(struct cs_child *child, const json_t *msg)
{
    cs_weights_report(child->runner, msg);
    child->is_done = true;
}

/* Steps that are complete now; their last events are in the rings. */
static void finish_steps(struct cs_runner *r)
{
    struct cs_step_report report;
    struct cs_err err = {0};
    bool is_save_through = false;
    while (cs_step_report_take(r, &report)) {
        bool is_through = false;
        cs_events_drain(r);
        if (cs_step_done(r, &report, &is_through, &err) != CS_OK)
            cs_life_fail(r, &err);
        is_save_through = is_save_through || is_through;
        cs_step_report_free(&report);
    }
    if (is_save_through)
        cs_life_check_end(r);
}

static void on_step(struct cs_child *child, const json_t *msg)
{
    struct cs_err err = {0};
    if (cs_step_report_add(child->runner, child, msg, &err) == CS_OK)
        finish_steps(child->runner);
    else
        cs_life_fail(child->runner, &err);
}

static void on_announced(struct cs_child *child, const json_t *msg)
{
    struct cs_runner *r = child->runner;
    const struct cs_step_report *report;
    struct cs_err err = {0};
    if (cs_step_report_announce(r, msg, &report, &err) != CS_OK) {
        cs_life_fail(r, &err);
        return;
    }
    if (json_object_get(msg, "source_left_out") != NULL)
        cs_run_note(
            r, CS_WARN,
            "more than %d sources of samples have names: the losses of \"%s\" and of those after "
            "it are told under \"%s\"",
            CS_SOURCES_MAX - 1, cs_msg_str(msg, "source_left_out", ""), CS_SOURCE_OTHER);
    cs_run_predict_filled(r, report);
    if (report->flags & CS_STEP_CHECKPOINT)
        cs_save_expect(r, report);
    finish_steps(r);
}

static void take_save(struct cs_child *child, const json_t *msg, bool is_failed)
{
    if (cs_save_reported(child->runner, msg, is_failed))
        cs_life_check_end(child->runner);
}

static void on_saved(struct cs_child *child, const json_t *msg)
{
    take_save(child, msg, false);
}

static void on_save_failed(struct cs_child *child, const json_t *msg)
{
    take_save(child, msg, true);
}

/* the first ones one by one, then every hundredth: quarantine.jsonl has them all */
static void on_bad_sample(struct cs_child *child, const json_t *msg)
{
    struct cs_runner *r = child->runner;
    const unsigned long long n = ++r->n_bad_samples;
    const long long index = (long long)cs_msg_int(msg, "index", -1);
    const char *file = cs_msg_str(msg, "file", "the data set");
    const char *reason = cs_msg_str(msg, "reason", "");
    cs_run_alarm(r, CS_ALERT_BAD_SAMPLES, CS_WARN, r->last_step + 1,
                 "sample %lld of %s was set aside (%llu so far): %s", index, file, n, reason);
    if (n > 1 && n <= 20) /* the first one and later ones as an alarm */
        cs_run_note(r, CS_WARN, "sample %lld of %s was set aside (%llu so far): %s", index, file, n,
                    reason);
}

static const struct {
    const char *type;
    bool is_feeder;
    void (*handle)(struct cs_child *child, const json_t *msg);
} handlers[] = {
    {"worker.ready",       false, on_ready      },
    {"worker.step",        false, on_step       },
    {"worker.saved",       false, on_saved      },
    {"worker.save_failed", false, on_save_failed},
    {"worker.done",        false, on_done       },
    {"worker.error",       false, on_error      },
    {"feeder.ready",       true,  on_ready      },
    {"feeder.step",        true,  on_announced  },
    {"feeder.bad",         true,  on_bad_sample },
    {"feeder.done",        true,  on_done       },
    {"feeder.error",       true,  on_error      },
};

void cs_child_message(struct cs_child *child, const json_t *msg)
{
    const char *type = cs_msg_type(msg);
    for (size_t i = 0; i < CS_ARRAY_LEN(handlers); i++) {
        if (strcmp(handlers[i].type, type) == 0 && handlers[i].is_feeder == (child->rank < 0)) {
            handlers[i].handle(child, msg);
            return;
        }
    }
    cs_log(child->runner->log, CS_WARN, "child.message", CS_KV("rank", child->rank),
           CS_KV("type", type));
}
