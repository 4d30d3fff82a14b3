/* Finishes a step: its row for the journal and the daemon, its events for the trace, its spans. */
#include "runner/steps/step.h"

#include <math.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "runner/state/records.h"
#include "runner/steps/by_source.h"
#include "runner/steps/energy.h"
#include "runner/steps/events.h"
#include "runner/steps/live_board.h"
#include "runner/steps/parts.h"
#include "runner/steps/predict.h"
#include "runner/steps/saves.h"
#include "runner/steps/step_log.h"
#include "runner/steps/watch.h"

static const int64_t spans_every_ns = 250000000;

/* First begin to last end of the ranks' STEP events, 0 when there are none. */
static int64_t step_ns_of(const struct cs_span_events *events, int n_ranks)
{
    uint64_t from = UINT64_MAX, to = 0;
    for (int r = 0; r < n_ranks; r++) {
        for (uint32_t i = 0; i < events[r].n; i++) {
            const struct cs_event *e = &events[r].event[i];
            if (e->kind != CS_EVENT_STEP || e->end_ns < e->start_ns)
                continue;
            from = e->start_ns < from ? e->start_ns : from;
            to = e->end_ns > to ? e->end_ns : to;
        }
    }
    return to > from ? (int64_t)(to - from) : 0;
}

static json_t *rank_bubbles(const struct cs_span_step *spans)
{
    json_t *out = json_array();
    for (int r = 0; r < spans->n_ranks; r++) {
        int64_t busy_ns = 0;
        for (int i = 0; i < spans->n_spans; i++)
            if (spans->span[i].rank == r && spans->span[i].key.is_compute)
                busy_ns += spans->span[i].end_ns - spans->span[i].start_ns;
        json_array_append_new(out,
                              spans->makespan_ns > 0
                                  ? cs_json_num(1 - (double)busy_ns / (double)spans->makespan_ns)
                                  : json_null());
    }
    return out;
}

static json_t *stage_bubbles(const struct cs_span_step *spans)
{
    json_t *out = json_array();
    for (int s = 0; s < spans->n_stages; s++)
        json_array_append_new(out, isnan(spans->bubble[s]) ? json_null()
                                                           : cs_json_num(spans->bubble[s]));
    return out;
}

static json_t *step_msg(struct cs_runner *r, const struct cs_step_report *report, const char *kind)
{
    json_t *msg = cs_msg_new("runner.step");
    cs_msg_set_int(msg, "step", report->step);
    cs_msg_set_str(msg, "kind", kind);
    cs_msg_set_int(msg, "generation", r->generation.id);
    cs_msg_set_int(msg, "wall_ns", cs_wall_ns());
    return msg;
}

static void set_spans(json_t *msg, const struct cs_span_step *spans)
{
    int64_t data_ns = 0;
    for (int i = 0; i < spans->n_ranks; i++)
        data_ns = spans->data_ns[i] > data_ns ? spans->data_ns[i] : data_ns;
    cs_msg_set_int(msg, "makespan_ns", spans->makespan_ns);
    cs_msg_set_int(msg, "data_wait_us", data_ns / 1000); /* of the rank that waited longest */
    cs_msg_set(msg, "bubble", rank_bubbles(spans));
    cs_msg_set(msg, "stage_bubble", stage_bubbles(spans));
}

static void set_energy(struct cs_runner *r, json_t *msg)
{
    int64_t energy_mj = cs_energy_take(r);
    if (energy_mj >= 0)
        cs_msg_set_int(msg, "energy_mj", energy_mj);
}

static void emit_train(struct cs_runner *r, const struct cs_step_report *report, int64_t step_ns,
                       const struct cs_span_step *spans)
{
    json_t *msg = step_msg(r, report, "train");
    if (report->has_loss && report->loss_tokens > 0)
        cs_msg_set_num(msg, "loss", report->loss_sum / (double)report->loss_tokens);
    cs_by_source_set(msg, report->source, report->sources);
    if (report->tokens > 0)
        cs_msg_set_int(msg, "tokens", report->tokens);
    cs_msg_set_int(msg, "trained_tokens", report->trained_tokens);
    cs_msg_set_int(msg, "samples", report->samples);
    cs_msg_set_int(msg, "slots", report->slots);
    if (report->has_norm)
        cs_msg_set_num(msg, "grad_norm", report->grad_norm);
    if (report->has_balance)
        cs_msg_set_num(msg, "aux_loss", report->balance);
    cs_msg_set_num(msg, "lr", report->lr);
    if (report->is_skipped)
        cs_msg_set_bool(msg, "is_skipped", true);
    cs_msg_set_int(msg, "step_ns", step_ns);
    cs_msg_set_int(msg, "messages_sent", report->messages);
    cs_msg_set_int(msg, "bytes_sent", report->bytes);
    if (report->context != NULL)
        cs_msg_set(msg, "context", json_incref(report->context));
    if (report->sequence != NULL)
        cs_msg_set(msg, "sequence", json_incref(report->sequence));
    set_energy(r, msg);
    cs_memory_set(r, msg);
    if (spans->n_spans) {
        set_spans(msg, spans);
        cs_parts_set(r, report, spans, msg);
    }
    cs_live_board_add(r, msg);
    cs_run_emit(r, msg, true);
}

/* [receive_us, send_us] of each rank */
static json_t *waits_of(const struct cs_span_step *spans)
{
    json_t *list = json_array();
    for (int32_t r = 0; r < spans->n_ranks; r++)
        json_array_append_new(
            list, json_pack("[I,I]", (json_int_t)(spans->wait_ns[r][CS_WAIT_RECV] / 1000),
                            (json_int_t)(spans->wait_ns[r][CS_WAIT_SEND] / 1000)));
    return list;
}

/* [rank, action, start_us, end_us, letter, stage, slot, peer, is_grad]: drawable without the
 * program */
static void emit_spans(struct cs_runner *r, const struct cs_step_report *report,
                       const struct cs_span_step *spans)
{
    int64_t now_ns = cs_now_ns();
    if (r->subscribers == NULL || now_ns - r->spans_ns < spans_every_ns || !spans->n_spans)
        return;
    r->spans_ns = now_ns;
    json_t *list = json_array();
    for (int i = 0; i < spans->n_spans; i++) {
        const struct cs_span *s = &spans->span[i];
        char letter[2] = {s->key.letter, '\0'};
        json_array_append_new(list, json_pack("[i,I,I,I,s,i,i,i,i]", s->rank, (json_int_t)s->action,
                                              (json_int_t)(s->start_ns / 1000),
                                              (json_int_t)(s->end_ns / 1000), letter, s->key.stage,
                                              s->key.slot, s->key.peer, s->key.is_grad));
    }
    json_t *msg = cs_msg_new("runner.spans");
    cs_msg_set_int(msg, "step", report->step);
    cs_msg_set_int(msg, "slots", report->slots);
    cs_msg_set_int(msg, "origin_ns", spans->start_ns);
    cs_msg_set_int(msg, "makespan_ns", spans->makespan_ns);
    cs_msg_set(msg, "stage_bubble", stage_bubbles(spans));
    cs_msg_set(msg, "waits", waits_of(spans));
    cs_msg_set(msg, "spans", list);
    cs_run_emit(r, msg, false);
}

/* Told when the first step is lost, and again with how many there were. */
static void note_trace(struct cs_runner *r, int64_t step, bool is_kept, const struct cs_err *why)
{
    struct cs_lost_rows *lost = &r->lost_trace;
    if (!is_kept && lost->n++ == 0) {
        lost->from = step;
        cs_run_alarm(r, CS_ALERT_ROWS_LOST, CS_WARN, step,
                     "the trace misses steps from this one on: %s", why->text);
    } else if (is_kept && lost->n > 0) {
        cs_run_alarm(r, CS_ALERT_ROWS_LOST, CS_WARN, lost->to, "%lld %s missing, %lld to %lld",
                     (long long)lost->n,
                     CS_NOUN(lost->n, "step of the trace is", "steps of the trace are"),
                     (long long)lost->from, (long long)lost->to);
        *lost = (struct cs_lost_rows){0};
    }
    lost->to = step;
}

static void add_to_trace(struct cs_runner *r, const struct cs_step_report *report,
                         const struct cs_span_events *events, const struct cs_span_keys *keys)
{
    uint64_t lost[CS_TRACE_MAX_RANKS];
    struct cs_err err = {0};
    for (int i = 0; i < r->generation.n_ranks; i++) {
        lost[i] = r->child[i].ring.lost;
        r->child[i].ring.lost = 0;
    }
    const struct cs_trace_record record = {.type = CS_TRACE_STEP,
                                           .step = report->step,
                                           .n_slots = (int32_t)report->slots,
                                           .n_ranks = r->generation.n_ranks,
                                           .generation = (int32_t)r->generation.id,
                                           .wall_ns = cs_wall_ns(),
                                           .lost = lost,
                                           .events = events};
    const bool is_kept = !r->trace || cs_tracelog_add(r->trace, &record, keys, &err) == CS_OK;
    note_trace(r, report->step, is_kept, &err);
}

static double data_share(const struct cs_span_step *spans)
{
    int64_t data_ns = 0;
    for (int i = 0; i < spans->n_ranks; i++)
        data_ns = spans->data_ns[i] > data_ns ? spans->data_ns[i] : data_ns;
    return spans->makespan_ns > 0 ? (double)data_ns / (double)spans->makespan_ns : (double)NAN;
}

static struct cs_watched watched(const struct cs_step_report *report, int64_t step_ns,
                                 const struct cs_span_step *spans)
{
    const bool has_loss = report->has_loss && report->loss_tokens > 0;
    return (struct cs_watched){.step = report->step,
                               .samples = report->samples,
                               .trained_tokens = report->trained_tokens,
                               .step_ns = step_ns,
                               .is_skipped = report->is_skipped,
                               .has_loss = has_loss,
                               .loss = has_loss ? report->loss_sum / (double)report->loss_tokens
                                                : (double)NAN,
                               .has_norm = report->has_norm,
                               .grad_norm = report->has_norm ? report->grad_norm : (double)NAN,
                               .lr = report->lr,
                               .data_share = data_share(spans)};
}

static enum cs_status train_done(struct cs_runner *r, const struct cs_step_report *report,
                                 struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_span_events events[CS_TRACE_MAX_RANKS];
    const struct cs_span_keys *keys = NULL;
    struct cs_span_step spans = {0};
    int64_t now_ns = cs_now_ns();
    for (int i = 0; i < r->generation.n_ranks; i++)
        events[i] = cs_events_take(&r->child[i], report->step, arena);
    int64_t step_ns = step_ns_of(events, r->generation.n_ranks);
    if (cs_keys_get(&r->generation.keys, (int)report->slots, false, &keys, NULL) == CS_OK) {
        const struct cs_span_input in = {.n_ranks = r->generation.n_ranks,
                                         .n_stages = r->generation.plan->n_stages,
                                         .replicas = cs_plan_replicas(r->generation.plan),
                                         .keys = keys,
                                         .events = events};
        cs_span_build(&in, arena, &spans);
        add_to_trace(r, report, events, keys);
        cs_run_measure(r, report->step, step_ns, keys, events);
    }
    if (step_ns == 0)
        step_ns = now_ns - r->step_end_ns;
    r->step_end_ns = now_ns;
    r->slowest_ns = step_ns > r->slowest_ns ? step_ns : r->slowest_ns;
    r->last_step = report->step;
    r->tokens += report->trained_tokens;
    r->samples += report->samples;
    r->skipped += report->is_skipped;
    emit_train(r, report, step_ns, &spans);
    cs_step_log_train(r, report, step_ns);
    emit_spans(r, report, &spans);
    if (report->is_norm_unequal)
        cs_run_alarm(r, CS_ALERT_COPIES_DIFFER, CS_ERROR, report->step,
                     "ranks disagree on the norm of the gradient; one of them computes wrongly");
    const struct cs_watched step = watched(report, step_ns, &spans);
    cs_arena_free(arena);
    return cs_watch_step(r, &step, err);
}

/* An evaluation that says nothing must not look like one that does. */
static void check_eval(struct cs_runner *r, const struct cs_eval *eval, int64_t step)
{
    if (eval->samples == 0 || eval->tokens == 0)
        cs_run_alarm(r, CS_ALERT_EVALUATION, CS_WARN, step,
                     "%lld sample%s with %lld token%s to answer %s counted: the metric says "
                     "nothing; look at eval.data with 'data check'",
                     (long long)eval->samples, CS_PLURAL(eval->samples), (long long)eval->tokens,
                     CS_PLURAL(eval->tokens), CS_NOUN(eval->samples, "was", "were"));
    else if (!isfinite(eval->loss_sum))
        cs_run_alarm(r, CS_ALERT_EVALUATION, CS_ERROR, step,
                     "the loss of the evaluation is %g: parameters or activations are not finite",
                     eval->loss_sum / (double)eval->tokens);
}

static void eval_done(struct cs_runner *r, const struct cs_step_report *report)
{
    struct cs_eval *eval = &r->eval;
    if (report->flags & CS_STEP_EVAL_FIRST)
        *eval = (struct cs_eval){.start_ns = r->step_end_ns};
    eval->correct += report->correct;
    eval->samples += report->loss_samples;
    eval->tokens += report->loss_tokens;
    eval->loss_sum += report->loss_sum;
    if (report->has_balance) {
        eval->balance_sum += report->balance * (double)report->tokens;
        eval->rows += report->tokens;
    }
    cs_by_source_join(eval->source, report->source);
    r->step_end_ns = cs_now_ns();
    if (!(report->flags & CS_STEP_EVAL_LAST))
        return;
    json_t *msg = step_msg(r, report, "eval");
    if (eval->tokens > 0)
        cs_msg_set_num(msg, "loss", eval->loss_sum / (double)eval->tokens);
    if (eval->rows > 0)
        cs_msg_set_num(msg, "aux_loss", eval->balance_sum / (double)eval->rows);
    cs_by_source_set(msg, eval->source, report->sources);
    cs_msg_set_int(msg, "trained_tokens", eval->tokens);
    cs_msg_set_int(msg, "samples", eval->samples);
    cs_msg_set_int(msg, "correct", eval->correct);
    cs_msg_set_int(msg, "step_ns", r->step_end_ns - eval->start_ns);
    set_energy(r, msg);
    const bool is_counted = eval->samples > 0 && eval->tokens > 0;
    r->exact_match = is_counted ? (double)eval->correct / (double)eval->samples : (double)NAN;
    if (is_counted)
        cs_msg_set_num(msg, "exact_match", r->exact_match);
    cs_live_board_add(r, msg);
    cs_run_emit(r, msg, true);
    if (is_counted)
        cs_step_log_eval(r, report->step, eval);
    check_eval(r, eval, report->step);
    r->evaluated_step = report->step;
}

enum cs_status cs_step_done(struct cs_runner *r, const struct cs_step_report *report,
                            bool *is_save_through, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    if (report->is_eval)
        eval_done(r, report);
    else
        status = train_done(r, report, err);
    *is_save_through = (report->flags & CS_STEP_CHECKPOINT) != 0 && cs_save_step_done(r, report);
    return status;
}
