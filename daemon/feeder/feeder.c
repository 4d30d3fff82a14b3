/* Runs the feeder: fills the slots of every step, of evaluations in between, and publishes them. */
#include "feeder/feeder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/io.h"
#include "core/data/data_threads.h"
#include "core/data/sources.h"
#include "core/wire/wire.h"
#include "feeder/feed_set.h"
#include "feeder/slots.h"
#include "feeder/stream.h"

enum { THREADS = 2 };

struct feeder {
    const struct cs_feeder_config *config;
    const struct cs_spec *spec;
    struct cs_feed_set train, eval;
    struct cs_stream *stream;
    struct cs_step_spread *spread; /* of training steps; NULL: none */
    struct cs_load
        *batch; /* (batch_samples) the step under way; the first n_carried stay from the last */
    bool *is_carried; /* (batch_samples) */
    int n_carried;
    int n_in_batch;              /* to be freed */
    struct cs_manifest manifest; /* its counts are owned */
    struct cs_sources sources;
    bool is_left_out_told;
    bool is_ending;
};

static struct cs_stream_config stream_of(const struct feeder *f, struct cs_feed_set *set,
                                         bool is_eval)
{
    int64_t max = f->spec->eval_max_samples;
    int n_threads = f->config->n_threads > 0 ? f->config->n_threads : THREADS;

    return (struct cs_stream_config){
        .source = set->source,
        .seed = f->spec->seed,
        .is_ordered = is_eval,
        .limit = max > 0 ? (uint64_t)max : UINT64_MAX,
        .n_threads = n_threads,
        .depth = cs_data_ahead(f->spec->batch_samples, n_threads),
        .bytes = f->config->ahead_bytes > 0 ? f->config->ahead_bytes : CS_DATA_AHEAD_BYTES,
        .bad = cs_feed_set_bad,
        .user = set,
    };
}

static json_t *rows_of(const struct feeder *f)
{
    const struct cs_manifest *m = &f->manifest;
    json_t *rows = json_array();

    for (int k = 0; k < m->n_slots; k++) {
        json_t *row = json_array();
        json_array_append_new(row, json_integer(m->slot[k].n_tokens));
        for (int e = 0; e < f->config->budget->n_encoders; e++)
            json_array_append_new(row, json_integer(m->slot[k].n_rows[e]));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* Cursor after the step: what was carried comes first. Without training it stays where it was. */
static json_t *cursor_of(const struct feeder *f)
{
    if (f->stream == NULL)
        return f->config->cursor != NULL ? json_deep_copy(f->config->cursor) : json_null();
    return cs_stream_cursor(f->stream, f->batch, f->n_carried);
}

/* Numbered by the one thread that puts samples into steps: so the numbers have one order. */
static void note_source(struct feeder *f, struct cs_load *load)
{
    load->source = cs_sources_index(&f->sources, load->loaded.record->channel);
}

static void tell_sources(struct feeder *f, json_t *msg)
{
    const struct cs_sources *s = &f->sources;
    json_t *names = json_array();

    for (int32_t i = 0; i < s->n && s->n > 1; i++)
        json_array_append_new(names, json_string(s->name[i]));
    cs_msg_set(msg, "sources", names);
    if (s->left_out[0] != '\0' && !f->is_left_out_told)
        cs_msg_set_str(msg, "source_left_out", s->left_out);
    f->is_left_out_told = s->left_out[0] != '\0';
}

/* The message goes first: whoever sees the manifest's reports must already know of it. */
static enum cs_status publish(struct feeder *f, struct cs_err *err)
{
    const struct cs_manifest *m = &f->manifest;
    json_t *msg = cs_msg_new("feeder.step");

    cs_msg_set_int(msg, "step", m->step);
    cs_msg_set_str(msg, "kind", m->kind == CS_STEP_EVAL ? "eval" : "train");
    cs_msg_set_int(msg, "flags", m->flags);
    cs_msg_set_int(msg, "samples", m->n_samples);
    cs_msg_set_int(msg, "trained_tokens", m->trained_tokens);
    tell_sources(f, msg);
    cs_msg_set(msg, "rows", rows_of(f));
    cs_msg_set_int(msg, "carried", f->n_carried);
    cs_msg_set(msg, "cursor", cursor_of(f));
    f->config->send(f->config->user, msg);
    return cs_pool_publish(f->config->pool, m, err);
}

/* Written samples go, carried ones move to the front. */
static void keep_carried(struct feeder *f, struct cs_load *batch, int n)
{
    f->n_carried = 0;
    for (int i = 0; i < n; i++) {
        if (f->is_carried[i])
            batch[f->n_carried++] = batch[i];
        else
            cs_load_free(&batch[i]);
    }
    f->n_in_batch = f->n_carried;
}

static bool is_stopping(const struct feeder *f)
{
    return f->config->request != NULL &&
           (atomic_load(&f->config->request->stop) || atomic_load(&f->config->request->stop_now));
}

static uint32_t train_flags(struct feeder *f, int64_t step)
{
    struct cs_feeder_request *r = f->config->request;
    bool is_stop = is_stopping(f);
    bool is_last =
        is_stop || (step + 1 == f->spec->steps && !cs_spec_evaluates_after(f->spec, step));
    uint32_t flags = 0;

    if (f->spec->checkpoint_every > 0 && (step + 1) % f->spec->checkpoint_every == 0 &&
        step + 1 != f->spec->steps)
        flags |= CS_STEP_CHECKPOINT;
    if (r != NULL && atomic_exchange(&r->checkpoint, false))
        flags |= CS_STEP_CHECKPOINT;
    if (is_last) {
        flags |= CS_STEP_LAST | CS_STEP_CHECKPOINT;
        f->is_ending = true;
    }
    if (is_stop && atomic_load(&r->stop_now) && step + 1 != f->spec->steps)
        flags &= ~(uint32_t)CS_STEP_CHECKPOINT;
    return flags;
}

static int32_t replicas_of(const struct feeder *f)
{
    return f->config->plan != NULL ? cs_plan_llm_replicas(f->config->plan) : 1;
}

/* the memory of its counts is used again */
static void begin_step(struct feeder *f, int64_t step, enum cs_step_kind kind)
{
    f->manifest = (struct cs_manifest){.step = step, .kind = kind, .slot = f->manifest.slot};
}

static enum cs_status train_step(struct feeder *f, int64_t step, struct cs_err *err)
{
    int n = (int)f->spec->batch_samples;

    while (f->n_in_batch < n) {
        bool has = false;
        CS_TRY(cs_stream_next(f->stream, &f->batch[f->n_in_batch], &has, err));
        CS_ASSERT(has);
        note_source(f, &f->batch[f->n_in_batch]);
        f->n_in_batch++;
    }
    begin_step(f, step, CS_STEP_TRAIN);
    CS_TRY(cs_slots_write(f->config->pool, f->config->budget, f->spread, f->batch, n,
                          replicas_of(f), &f->manifest, f->is_carried, err));
    keep_carried(f, f->batch, n);
    f->manifest.flags = train_flags(f, step);
    return publish(f, err);
}

/* One step of an evaluation; what does not fit it (more slots than a step has) goes to the next
 * one. */
struct pass {
    struct cs_stream *stream;
    struct cs_load
        *batch; /* (batch_samples + 1): one more is loaded to know which step is the last */
    bool *is_carried;
    int n;
    bool is_first, is_over;
};

static enum cs_status fill_pass(struct feeder *f, struct pass *p, int want, struct cs_err *err)
{
    bool has = true;

    while (p->n < want && has) {
        CS_TRY(cs_stream_next(p->stream, &p->batch[p->n], &has, err));
        if (has)
            note_source(f, &p->batch[p->n++]);
    }
    return CS_OK;
}

static enum cs_status eval_step(struct feeder *f, struct pass *p, int64_t step, struct cs_err *err)
{
    bool is_final = step + 1 == f->spec->steps;
    int n = (int)f->spec->batch_samples, left = 0;

    CS_TRY(fill_pass(f, p, n + 1, err));
    n = p->n < n ? p->n : n;
    if (n == 0)
        return cs_fail(err, CS_INVALID, "%s: no sample to evaluate can be used",
                       cs_source_path(f->eval.source));
    begin_step(f, step, CS_STEP_EVAL);
    CS_TRY(cs_slots_write(f->config->pool, f->config->budget, NULL, p->batch, n, replicas_of(f),
                          &f->manifest, p->is_carried, err));
    for (int i = 0; i < p->n; i++) {
        if (i >= n || p->is_carried[i])
            p->batch[left++] = p->batch[i];
        else
            cs_load_free(&p->batch[i]);
    }
    p->n = left;
    p->is_over = left == 0 || is_stopping(f);
    f->manifest.flags = p->is_first ? CS_STEP_EVAL_FIRST : 0;
    p->is_first = false;
    if (left == 0) /* what is cut short is no result */
        f->manifest.flags |= CS_STEP_EVAL_LAST;
    if (p->is_over && is_final) {
        /* what was trained before is in a checkpoint already */
        f->manifest.flags |= CS_STEP_LAST | (step < f->config->first_step ? 0 : CS_STEP_CHECKPOINT);
        f->is_ending = true;
    }
    return publish(f, err);
}

static enum cs_status no_memory(const struct cs_spec *spec, struct cs_err *err)
{
    return cs_fail(err, CS_NO_MEMORY, "no memory for a step of batch_samples = %lld samples",
                   (long long)spec->batch_samples);
}

static enum cs_status evaluate(struct feeder *f, int64_t step, struct cs_err *err)
{
    struct cs_stream_config config = stream_of(f, &f->eval, true);
    size_t n = (size_t)f->spec->batch_samples + 1;
    struct pass p = {.is_first = true};
    enum cs_status status = CS_OK;

    p.batch = calloc(n, sizeof *p.batch);
    p.is_carried = calloc(n, sizeof *p.is_carried);
    status = p.batch != NULL && p.is_carried != NULL ? CS_OK : no_memory(f->spec, err);
    if (status == CS_OK)
        status = cs_stream_open(&config, NULL, &p.stream, err);
    while (status == CS_OK && !p.is_over)
        status = eval_step(f, &p, step, err);
    for (int i = 0; i < p.n; i++)
        cs_load_free(&p.batch[i]);
    cs_stream_close(p.stream);
    free(p.batch);
    free(p.is_carried);
    return status;
}

static enum cs_status open_training(struct feeder *f, struct cs_err *err)
{
    const struct cs_spec *spec = f->spec;
    struct cs_stream_config config;

    CS_TRY(cs_feed_set_open(f->config, &spec->data, "train", &f->train, err));
    if (f->config->plan != NULL)
        CS_TRY(cs_step_spread_new(spec, f->config->graph, f->config->plan, &f->spread, err));
    config = stream_of(f, &f->train, false);
    CS_TRY(cs_stream_open(&config, f->config->cursor, &f->stream, err));
    f->batch = calloc((size_t)spec->batch_samples, sizeof *f->batch);
    f->is_carried = calloc((size_t)spec->batch_samples, sizeof *f->is_carried);
    return f->batch != NULL && f->is_carried != NULL ? CS_OK : no_memory(spec, err);
}

/* Steps are left, or only the evaluation after the last one, or nothing: the workers are asked for
 * what they have then. */
static enum cs_status open_all(struct feeder *f, struct cs_err *err)
{
    const struct cs_spec *spec = f->spec;
    const bool trains = f->config->first_step < spec->steps;
    json_t *msg = NULL;

    if (trains)
        CS_TRY(open_training(f, err));
    if (spec->has_eval && (trains || f->config->is_eval_first))
        CS_TRY(cs_feed_set_open(f->config, &spec->eval_data, "eval", &f->eval, err));
    f->is_ending = !trains && f->eval.source == NULL;
    msg = cs_msg_new("feeder.ready");
    cs_msg_set_int(msg, "samples", trains ? (int64_t)cs_source_count(f->train.source) : 0);
    cs_msg_set_int(msg, "eval_samples",
                   f->eval.source != NULL ? (int64_t)cs_source_count(f->eval.source) : 0);
    f->config->send(f->config->user, msg);
    return CS_OK;
}

/* The line in the feeder's log that says what spreading was worth. */
static void report_spread(const struct feeder *f)
{
    struct cs_buf line = {0};

    if (f->spread == NULL)
        return;
    cs_step_spread_report(f->spread, &line);
    fputs(cs_buf_str(&line), stderr);
    cs_buf_free(&line);
}

enum cs_status cs_feeder_run(const struct cs_feeder_config *config, struct cs_err *err)
{
    struct feeder *f = calloc(1, sizeof *f);
    enum cs_status status = CS_OK;

    if (f == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the feeder");
    f->config = config;
    f->spec = config->spec;
    status = open_all(f, err);
    if (status == CS_OK && !f->is_ending && config->is_eval_first)
        status = evaluate(f, config->first_step - 1, err);
    for (int64_t step = config->first_step; status == CS_OK && !f->is_ending; step++) {
        status = train_step(f, step, err);
        if (status == CS_OK && !f->is_ending && cs_spec_evaluates_after(f->spec, step))
            status = evaluate(f, step, err);
    }
    if (status == CS_OK)
        config->send(config->user, cs_msg_new("feeder.done"));
    for (int i = 0; i < f->n_in_batch; i++)
        cs_load_free(&f->batch[i]);
    report_spread(f);
    cs_feed_set_report(&f->train);
    cs_step_spread_free(f->spread);
    cs_stream_close(f->stream);
    cs_feed_set_close(&f->train);
    cs_feed_set_close(&f->eval);
    free(f->batch);
    free(f->is_carried);
    free(f->manifest.slot);
    free(f);
    return status;
}
