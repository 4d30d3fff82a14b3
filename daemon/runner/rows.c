/* Rows: the k-th manifest the feeder publishes is the k-th step every rank reports. A row is
 * complete when the feeder has announced it and all ranks have reported; rows complete in order. */
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"
#include "runner/parts.h"

enum { MAX_ROWS = 4096, MAX_EVENTS = 1 << 20, DRAIN = 1024 };

static struct cs_row *row_at(struct cs_runner *r, uint64_t number)
{
    CS_ASSERT(number >= r->first_row);
    uint64_t i = number - r->first_row;
    if (i >= MAX_ROWS)
        return NULL;
    if ((int)i >= r->cap_rows) {
        r->cap_rows = (int)i * 2 + 16;
        r->rows = realloc(r->rows, (size_t)r->cap_rows * sizeof *r->rows);
        CS_ASSERT(r->rows);
    }
    while (r->n_rows <= (int)i)
        r->rows[r->n_rows++] = (struct cs_row){0};
    return &r->rows[i];
}

static void complete_rows(struct cs_runner *r)
{
    while (r->n_rows && r->rows[0].is_announced && r->rows[0].n_reports == r->n_ranks) {
        struct cs_row row = r->rows[0];
        memmove(r->rows, r->rows + 1, (size_t)(--r->n_rows) * sizeof *r->rows);
        r->first_row++;
        cs_rows_drain(r);
        cs_step_done(r, &row);
        json_decref(row.cursor);
    }
}

static void row_failed(struct cs_runner *r, const char *who)
{
    struct cs_err err = {0};
    (void)cs_fail(&err, CS_INTERNAL, "%s is %d steps ahead of the others", who, MAX_ROWS);
    cs_run_fail(r, &err);
}

void cs_rows_announce(struct cs_runner *r, const json_t *msg)
{
    struct cs_row *row = row_at(r, r->n_announced++);
    if (!row) {
        row_failed(r, "the feeder");
        return;
    }
    row->is_announced = true;
    row->step = cs_msg_int(msg, "step", 0);
    row->is_eval = strcmp(cs_msg_str(msg, "kind", "train"), "eval") == 0;
    row->flags = cs_msg_int(msg, "flags", 0);
    row->samples = cs_msg_int(msg, "samples", 0);
    row->trained_tokens = cs_msg_int(msg, "trained_tokens", 0);
    const json_t *rows = cs_msg_arr(msg, "rows");
    row->slots =
        cs_msg_int(msg, "slots", rows ? (int64_t)json_array_size(rows) : r->job.plan->slots);
    for (size_t i = 0; i < json_array_size(rows); i++) /* the first of a slot: LLM rows */
        row->tokens += json_integer_value(json_array_get(json_array_get(rows, i), 0));
    row->cursor = json_deep_copy(cs_msg_obj(msg, "cursor"));
    if (row->flags & CS_STEP_CHECKPOINT)
        cs_save_expect(r, row);
    complete_rows(r);
}

static void add_report(struct cs_row *row, const json_t *msg)
{
    if (json_object_get(msg, "loss_sum") && !json_is_null(json_object_get(msg, "loss_sum"))) {
        row->has_loss = true;
        row->loss_sum += cs_msg_num(msg, "loss_sum", 0);
        row->loss_tokens += cs_msg_int(msg, "trained_tokens", 0);
        row->correct += cs_msg_int(msg, "correct", 0);
        row->loss_samples += cs_msg_int(msg, "samples", 0);
    }
    if (json_object_get(msg, "grad_norm") && !json_is_null(json_object_get(msg, "grad_norm"))) {
        double norm = cs_msg_num(msg, "grad_norm", 0);
        /* also two NaN are equal here: bytes, not values */
        row->is_norm_unequal =
            row->is_norm_unequal ||
            (row->has_norm && memcmp(&norm, &row->grad_norm, sizeof norm) != 0 && norm == norm);
        row->has_norm = true;
        row->grad_norm = norm;
    }
    row->lr = cs_msg_num(msg, "lr", row->lr);
    row->is_skipped = row->is_skipped || cs_msg_bool(msg, "is_skipped", false);
    row->messages += cs_msg_int(msg, "messages_sent", 0);
    row->bytes += cs_msg_int(msg, "bytes_sent", 0);
    row->n_reports++;
}

void cs_rows_report(struct cs_runner *r, struct cs_child *child, const json_t *msg)
{
    struct cs_row *row = row_at(r, child->n_reports++);
    if (!row) {
        row_failed(r, "a rank");
        return;
    }
    int64_t step = cs_msg_int(msg, "step", 0);
    if (row->is_announced && row->step != step) {
        struct cs_err err = {0};
        (void)cs_fail(&err, CS_INTERNAL, "rank %d reported step %lld where step %lld was published",
                      child->rank, (long long)step, (long long)row->step);
        cs_run_fail(r, &err);
        return;
    }
    add_report(row, msg);
    complete_rows(r);
}

const struct cs_row *cs_rows_current(const struct cs_runner *r, const struct cs_child *child)
{
    if (child->n_reports < r->first_row || child->n_reports - r->first_row >= (uint64_t)r->n_rows)
        return NULL;
    const struct cs_row *row = &r->rows[child->n_reports - r->first_row];
    return row->is_announced ? row : NULL;
}

static void keep_events(struct cs_child *child, const struct cs_event *events, uint32_t n)
{
    if (child->n_events + n > MAX_EVENTS) { /* a step that never ends: the oldest half goes */
        child->n_events /= 2;
        memmove(child->events, child->events + child->n_events,
                child->n_events * sizeof *child->events);
    }
    if (child->n_events + n > child->cap_events) {
        child->cap_events = (child->n_events + n) * 2;
        child->events = realloc(child->events, child->cap_events * sizeof *child->events);
        CS_ASSERT(child->events);
    }
    memcpy(child->events + child->n_events, events, n * sizeof *events);
    child->n_events += n;
}

void cs_rows_drain(struct cs_runner *r)
{
    struct cs_event events[DRAIN];
    for (int i = 0; i < r->n_ranks; i++) {
        uint32_t n;
        do {
            n = cs_ring_get(&r->child[i].ring, events, DRAIN);
            if (n)
                keep_events(&r->child[i], events, n);
        } while (n == DRAIN);
    }
}

void cs_rows_free(struct cs_runner *r)
{
    for (int i = 0; i < r->n_rows; i++)
        json_decref(r->rows[i].cursor);
    free(r->rows);
    r->rows = NULL;
    r->n_rows = 0;
}
