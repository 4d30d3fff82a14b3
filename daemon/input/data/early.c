/* Looks at the first samples of a job's data. */
#include "input/data/early.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/data/data_threads.h"
#include "input/chat/builtin.h"
#include "input/data/reader.h"

/* Whether a special token trains: with it a model learns where an answer ends. */
static bool is_ended(const struct cs_source *source, const struct cs_sample *s)
{
    const struct cs_tokenizer *tok = cs_source_tokenizer(source);
    for (int32_t i = 0; i < s->n_tokens; i++)
        if (s->labels[i] >= 0 && cs_tokenizer_is_special(tok, s->labels[i]))
            return true;
    return false;
}

static void note_good(struct cs_early *e, const struct cs_source *source, const struct cs_loaded *l)
{
    e->n_good++;
    e->n_ended += is_ended(source, &l->sample);
    for (int i = 0; i < l->sample.n_media; i++) {
        const struct cs_sample_media *media = &l->sample.media[i];
        e->n_items[media->encoder]++;
        e->item_rows[media->encoder] += media->layout.n_rows;
    }
    e->mean_rows += l->sample.n_tokens;
    e->mean_squares += (double)l->sample.n_tokens * l->sample.n_tokens;
    e->mean_bytes += cs_loaded_bytes(l);
}

static void note(struct cs_early *e, const struct cs_source *source, enum cs_status status,
                 const struct cs_loaded *l, const struct cs_err *why)
{
    int64_t rows = l->sample.rows_wanted;

    e->n_samples++;
    if (rows > 0) {
        e->shortest = e->shortest == 0 || rows < e->shortest ? rows : e->shortest;
        e->longest = rows > e->longest ? rows : e->longest;
    }
    e->n_too_long += l->sample.fault == CS_SAMPLE_TOO_LONG;
    e->n_untrained += l->sample.fault == CS_SAMPLE_UNTRAINED;
    if (status == CS_OK)
        note_good(e, source, l);
    else if (e->first_reason[0] == '\0')
        (void)cs_str_copy(e->first_reason, sizeof e->first_reason, why->text);
}

/* Under the plain template answers end with their line; any other is thought to end them. */
static void note_ends(struct cs_early *e, const struct cs_source *source)
{
    const char *name = cs_template_name_of(cs_source_template(source));
    if (e->n_ended > 0 || strcmp(name, "plain") == 0 ||
        cs_tokenizer_named(cs_source_tokenizer(source), "eos_token") == NULL)
        return;
    (void)cs_str_copy(e->never_ends, sizeof e->never_ends, name);
}

/* Of the first samples none can be used: why, with all the numbers. */
static enum cs_status refuse(const struct cs_source *source, const struct cs_early *e,
                             struct cs_err *err)
{
    const char *path = cs_source_path(source), *which = e->is_all ? "the" : "the first";
    unsigned long long n = e->n_samples;

    if (e->n_too_long == e->n_samples)
        return cs_fail(err, CS_INVALID,
                       "%s: seq_tokens is below every one of %s %llu sample%s: the shortest takes "
                       "%lld row%s, the longest %lld",
                       path, which, n, CS_PLURAL(n), (long long)e->shortest, CS_PLURAL(e->shortest),
                       (long long)e->longest);
    return cs_fail(err, CS_INVALID,
                   "%s: none of the first %llu sample%s can be used; the first: %s", path, n,
                   CS_PLURAL(n), e->first_reason);
}

/* CPU time of samples by what was made of them; of the first one also what is opened for it. */
struct cost {
    int64_t text_ns, whole_ns; /* whole: with pictures */
    int64_t n_text, n_whole;
};

static void note_cost(struct cost *cost, bool is_whole, int64_t ns)
{
    *(is_whole ? &cost->whole_ns : &cost->text_ns) += ns;
    *(is_whole ? &cost->n_whole : &cost->n_text) += 1;
}

/* The few whole ones stand for all; where only text was looked at nothing is known of pictures. */
static int64_t prepare_ns(const struct cost *cost, const struct cs_early *early)
{
    bool has_items = false;

    for (int e = 0; e < CS_MAX_ENCODERS; e++)
        has_items = has_items || early->n_items[e] > 0;
    if (has_items)
        return cost->n_whole > 0 ? cost->whole_ns / cost->n_whole : 0;
    return cost->n_text > 0 ? cost->text_ns / cost->n_text : 0;
}

enum cs_status cs_early_samples(struct cs_source *source, const struct cs_early_depth *depth,
                                struct cs_findings *findings, struct cs_early *out,
                                struct cs_err *err)
{
    uint64_t n = cs_source_count(source);
    struct cost cost = {0};

    *out = (struct cs_early){.is_all = n <= CS_EARLY_SAMPLES};
    for (uint64_t i = 0; i < n && i < CS_EARLY_SAMPLES; i++) {
        struct cs_loaded loaded = {0};
        struct cs_err why = {0};
        const int64_t begin_ns = cs_thread_cpu_ns();
        enum cs_status status = i < depth->n_pictures
                                    ? cs_source_load(source, i, findings, &loaded, &why)
                                    : cs_source_load_text(source, i, findings, &loaded, &why);
        if (status == CS_OK && i > 0)
            note_cost(&cost, i < depth->n_pictures, cs_thread_cpu_ns() - begin_ns);
        note(out, source, status, &loaded, &why);
        cs_loaded_free(&loaded);
        if (status == CS_NO_MEMORY)
            return cs_fail(err, status, "%s", why.text);
        if (status == CS_OK && depth->is_one_enough)
            break;
    }
    if (out->n_good == 0)
        return refuse(source, out, err);
    out->mean_rows /= (int64_t)out->n_good;
    out->mean_squares /= (double)out->n_good;
    out->mean_bytes /= (int64_t)out->n_good;
    out->prepare_ns = prepare_ns(&cost, out);
    note_ends(out, source);
    return CS_OK;
}

enum cs_status cs_early_items(const struct cs_source *source, bool is_whole, bool *is_found,
                              struct cs_err *err)
{
    const struct cs_record_keys *keys = cs_source_keys(source);
    bool found[CS_MAX_ENCODERS] = {0};
    uint64_t n = cs_source_count(source);
    int left = keys->n;

    for (uint64_t i = 0; i < n && left > 0; i++) {
        struct cs_record *record = NULL;
        if (cs_source_record(source, i, &record, NULL) != CS_OK)
            continue;
        for (int e = 0; e < keys->n; e++)
            if (!found[e] && record->n_files[e] > 0) {
                found[e] = true;
                left--;
            }
        cs_record_free(record);
    }
    for (int e = 0; is_whole && e < keys->n; e++) {
        struct cs_buf names = {0};
        if (found[e])
            continue;
        cs_record_keys_text(keys, e, &names);
        (void)!cs_fail(
            err, CS_INVALID,
            "encoder %s gets no item in the whole data set %s: none of its %llu sample%s "
            "has the key %s",
            keys->encoder[e].name, cs_source_path(source), (unsigned long long)n, CS_PLURAL(n),
            cs_buf_str(&names));
        cs_buf_free(&names);
        return CS_INVALID;
    }
    for (int e = 0; is_found != NULL && e < keys->n; e++)
        is_found[e] = found[e];
    return CS_OK;
}

/* What the feeder holds of samples: a step, those ahead of it, and while it evaluates those ahead of that. Threads that
 * the job does not ask for are taken to be the fewest. */
static double held_bytes(const struct cs_spec *spec, int64_t sample_bytes)
{
    const int32_t n_threads = cs_data_threads(spec->data_threads, false, 0, 0);
    const int64_t n = cs_data_ahead(spec->batch_samples, n_threads), most = spec->eval_max_samples,
                  n_eval = !spec->has_eval        ? 0
                           : most > 0 && most < n ? most
                                                  : n;
    return (double)spec->batch_samples * (double)sample_bytes +
           (double)cs_data_ahead_bytes(n, n_threads, sample_bytes) +
           (double)cs_data_ahead_bytes(n_eval, n_threads, sample_bytes);
}

enum cs_status cs_early_batch(const struct cs_spec *spec, const struct cs_early *early,
                              int64_t memory, struct cs_err *err)
{
    const int64_t rows = (int64_t)CS_STEP_PACK_SLOTS * spec->seq_tokens;
    const double want_rows = (double)spec->batch_samples * (double)early->mean_rows;
    const double want_bytes = held_bytes(spec, early->mean_bytes);
    char have[CS_UNITS_CAP], want[CS_UNITS_CAP];

    if (want_rows > (double)rows)
        return cs_fail(
            err, CS_INVALID,
            "batch_samples is %lld: a step has at most %d slots of seq_tokens = %d rows, "
            "that is %lld sample%s of %lld rows, the mean of the first ones",
            (long long)spec->batch_samples, CS_STEP_PACK_SLOTS, spec->seq_tokens,
            (long long)(rows / early->mean_rows), CS_PLURAL((rows / early->mean_rows)),
            (long long)early->mean_rows);
    cs_bytes_print(want, sizeof want, (uint64_t)want_bytes);
    cs_bytes_print(have, sizeof have, (uint64_t)memory);
    if (memory > 0 && want_bytes > (double)memory)
        return cs_fail(err, CS_INVALID,
                       "batch_samples is %lld: a step of samples, and those loaded ahead, take %s "
                       "in the feeder, by the first ones, and this machine has %s",
                       (long long)spec->batch_samples, want, have);
    return CS_OK;
}

/* Where the first samples leave it open: further records, then all is known or few would have any. */
static enum cs_status look_for_items(const struct cs_spec *spec, const struct cs_graph *graph,
                                     const struct cs_spec_data *data, struct cs_err *err)
{
    const struct cs_source_options options = {.max_items = CS_EARLY_RECORDS};
    struct cs_source *source = NULL;
    enum cs_status status = cs_source_open(spec, graph, data, &options, &source, err);

    if (status == CS_OK)
        status = cs_early_items(source, cs_source_count(source) < CS_EARLY_RECORDS, NULL, err);
    cs_source_close(source);
    return status;
}

static bool lacks_items(const struct cs_early *early, int n_encoders)
{
    for (int e = 0; e < n_encoders; e++)
        if (early->n_items[e] == 0)
            return true;
    return false;
}

enum cs_status cs_early_look(const struct cs_spec *spec, const struct cs_graph *graph,
                             const struct cs_slot_budget *budget, const struct cs_spec_data *data,
                             struct cs_findings *findings, struct cs_early *out, struct cs_err *err)
{
    const struct cs_source_options options = {.budget = budget, .max_items = CS_EARLY_SAMPLES + 1};
    const struct cs_early_depth depth = {.n_pictures = CS_EARLY_PICTURES};
    const int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    struct cs_source *source = NULL;
    enum cs_status status = CS_OK;

    *out = (struct cs_early){0};
    status = cs_source_open(spec, graph, data, &options, &source, err);
    if (status == CS_OK)
        status = cs_early_samples(source, &depth, findings, out, err);
    if (status == CS_OK)
        status = cs_early_batch(spec, out, memory, err);
    cs_source_close(source);
    if (status == CS_OK && data == &spec->data && lacks_items(out, graph->n_encoders))
        status = look_for_items(spec, graph, data, err);
    return status;
}

void cs_early_text(const struct cs_early *early, const struct cs_record_keys *keys,
                   struct cs_buf *out)
{
    const char *of = early->is_all ? "the" : "the first";

    for (int e = 0; e < keys->n; e++) {
        cs_buf_addf(out, "encoder %s reads ", keys->encoder[e].name);
        cs_record_keys_text(keys, e, out);
        cs_buf_addf(out, " of a sample (placeholder %s): %lld item%s in %s %llu sample%s\n",
                    keys->encoder[e].token, (long long)early->n_items[e],
                    CS_PLURAL(early->n_items[e]), of, (unsigned long long)early->n_samples,
                    CS_PLURAL(early->n_samples));
    }
}

void cs_early_warnings(const struct cs_early *early, const char *path, struct cs_buf *out)
{
    if (early->n_good < early->n_samples)
        cs_buf_addf(out, "warning: %s: %llu of %s %llu samples cannot be used; the first: %s\n",
                    path, (unsigned long long)(early->n_samples - early->n_good),
                    early->is_all ? "the" : "the first", (unsigned long long)early->n_samples,
                    early->first_reason);
    if (early->never_ends[0] != '\0')
        cs_buf_addf(
            out,
            "warning: %s: no answer of %s %llu sample%s ends with a special token, so that the "
            "model does not learn to stop: the chat template %s writes none; `template` names "
            "another or gives a table that does\n",
            path, early->is_all ? "the" : "the first", (unsigned long long)early->n_samples,
            CS_PLURAL(early->n_samples), early->never_ends);
}
