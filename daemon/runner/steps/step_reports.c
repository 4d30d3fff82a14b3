/* Puts step reports together: the k-th manifest that the feeder publishes is the k-th step that every
 * rank reports. A report is complete when the feeder has announced it and all ranks have reported;
 * reports complete in order. */
#include "runner/steps/step_reports.h"

#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"
#include "runner/steps/by_source.h"

enum { MAX_REPORTS = 4096 };

static struct cs_step_report *report_at(struct cs_runner *r, uint64_t number)
{
    CS_ASSERT(number >= r->first_report);
    uint64_t i = number - r->first_report;
    if (i >= MAX_REPORTS)
        return NULL;
    if ((int)i >= r->cap_reports) {
        r->cap_reports = (int)i * 2 + 16;
        r->reports = realloc(r->reports, (size_t)r->cap_reports * sizeof *r->reports);
        CS_ASSERT(r->reports);
    }
    while (r->n_reports <= (int)i)
        r->reports[r->n_reports++] = (struct cs_step_report){0};
    return &r->reports[i];
}

static enum cs_status too_far(const char *who, struct cs_err *err)
{
    return cs_fail(err, CS_INTERNAL, "%s is %d steps ahead of the others", who, MAX_REPORTS);
}

enum cs_status cs_step_report_announce(struct cs_runner *r, const json_t *msg,
                                       const struct cs_step_report **out, struct cs_err *err)
{
    struct cs_step_report *report = report_at(r, r->n_announced++);
    if (report == NULL)
        return too_far("the feeder", err);
    report->is_announced = true;
    report->step = cs_msg_int(msg, "step", 0);
    report->is_eval = strcmp(cs_msg_str(msg, "kind", "train"), "eval") == 0;
    report->flags = cs_msg_int(msg, "flags", 0);
    report->samples = cs_msg_int(msg, "samples", 0);
    report->trained_tokens = cs_msg_int(msg, "trained_tokens", 0);
    const json_t *rows = cs_msg_arr(msg, "rows");
    report->slots =
        cs_msg_int(msg, "slots", rows ? (int64_t)json_array_size(rows) : r->generation.plan->slots);
    for (size_t i = 0; i < json_array_size(rows); i++)
        for (size_t k = 0; k < CS_ARRAY_LEN(report->rows); k++)
            report->rows[k] += json_integer_value(json_array_get(json_array_get(rows, i), k));
    report->tokens = report->rows[0];
    report->cursor = json_deep_copy(cs_msg_obj(msg, "cursor"));
    report->sources = json_deep_copy(cs_msg_arr(msg, "sources"));
    if (out != NULL)
        *out = report;
    return CS_OK;
}

/* in the order of ranks, whoever reports first */
static void add_context(struct cs_step_report *report, const json_t *msg)
{
    const json_t *own = cs_msg_arr(msg, "context");
    if (own == NULL)
        return;
    json_t *row = json_deep_copy(own);
    const int64_t rank = cs_msg_int(msg, "rank", 0);
    size_t at = 0;
    json_array_insert_new(row, 0, json_integer(rank));
    if (report->context == NULL)
        report->context = json_array();
    while (at < json_array_size(report->context) &&
           json_integer_value(json_array_get(json_array_get(report->context, at), 0)) < rank)
        at++;
    json_array_insert_new(report->context, at, row);
}

/* of replicas the one with most work */
static void add_sequence(struct cs_step_report *report, const json_t *msg)
{
    json_t *own = json_object_get(msg, "sequence");
    if (own == NULL || cs_msg_num(own, "even", 0) <= cs_msg_num(report->sequence, "even", -1))
        return;
    json_decref(report->sequence);
    report->sequence = json_deep_copy(own);
}

static void add_ranks_report(struct cs_step_report *report, const json_t *msg)
{
    add_context(report, msg);
    add_sequence(report, msg);
    if (json_object_get(msg, "loss_sum") && !json_is_null(json_object_get(msg, "loss_sum"))) {
        report->has_loss = true;
        report->loss_sum += cs_msg_num(msg, "loss_sum", 0);
        cs_by_source_add(report->source, cs_msg_arr(msg, "sources"));
        report->loss_tokens += cs_msg_int(msg, "trained_tokens", 0);
        report->correct += cs_msg_int(msg, "correct", 0);
        report->loss_samples += cs_msg_int(msg, "samples", 0);
    }
    if (json_is_number(json_object_get(msg, "aux_loss")) ||
        json_is_string(json_object_get(msg, "aux_loss"))) {
        report->has_balance = true;
        report->balance += cs_msg_num(msg, "aux_loss", 0);
    }
    if (json_object_get(msg, "grad_norm") && !json_is_null(json_object_get(msg, "grad_norm"))) {
        double norm = cs_msg_num(msg, "grad_norm", 0);
        /* also two NaN are equal here: bytes, not values */
        report->is_norm_unequal =
            report->is_norm_unequal ||
            (report->has_norm && memcmp(&norm, &report->grad_norm, sizeof norm) != 0 &&
             norm == norm);
        report->has_norm = true;
        report->grad_norm = norm;
    }
    report->lr = cs_msg_num(msg, "lr", report->lr);
    report->is_skipped = report->is_skipped || cs_msg_bool(msg, "is_skipped", false);
    report->messages += cs_msg_int(msg, "messages_sent", 0);
    report->bytes += cs_msg_int(msg, "bytes_sent", 0);
    report->n_ranks++;
}

enum cs_status cs_step_report_add(struct cs_runner *r, struct cs_child *child, const json_t *msg,
                                  struct cs_err *err)
{
    struct cs_step_report *report = report_at(r, child->n_reports++);
    if (report == NULL)
        return too_far("a rank", err);
    int64_t step = cs_msg_int(msg, "step", 0);
    if (report->is_announced && report->step != step)
        return cs_fail(err, CS_INTERNAL, "rank %d reported step %lld where step %lld was published",
                       child->rank, (long long)step, (long long)report->step);
    add_ranks_report(report, msg);
    return CS_OK;
}

bool cs_step_report_take(struct cs_runner *r, struct cs_step_report *out)
{
    if (r->n_reports == 0 || !r->reports[0].is_announced ||
        r->reports[0].n_ranks != r->generation.n_ranks)
        return false;
    *out = r->reports[0];
    memmove(r->reports, r->reports + 1, (size_t)(--r->n_reports) * sizeof *r->reports);
    r->first_report++;
    return true;
}

void cs_step_report_free(struct cs_step_report *report)
{
    json_decref(report->cursor);
    json_decref(report->sources);
    json_decref(report->context);
    json_decref(report->sequence);
    report->cursor = report->sources = report->context = report->sequence = NULL;
}

const struct cs_step_report *cs_step_report_current(const struct cs_runner *r,
                                                    const struct cs_child *child)
{
    if (child->n_reports < r->first_report ||
        child->n_reports - r->first_report >= (uint64_t)r->n_reports)
        return NULL;
    const struct cs_step_report *report = &r->reports[child->n_reports - r->first_report];
    return report->is_announced ? report : NULL;
}

void cs_step_reports_free(struct cs_runner *r)
{
    for (int i = 0; i < r->n_reports; i++)
        cs_step_report_free(&r->reports[i]);
    free(r->reports);
    r->reports = NULL;
    r->n_reports = 0;
}
