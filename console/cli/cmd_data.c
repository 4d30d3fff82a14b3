/* data make, data check, inspect: what a job is trained on, before it is. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/cmd.h"
#include "console/cli/registry.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "input/data/check.h"
#include "input/make/shapes.h"

enum { MAX_BAD_SHOWN = 64 };

struct shapes_values {
    struct cs_cmd_common common;
    int64_t train, test, seed;
};

#define AT(field) offsetof(struct shapes_values, field)
/* clang-format off */
static const struct cs_option shapes_options[] = {
    {"train", 0, CS_OPT_INT, 1, 1000000, "4096", NULL, NULL, "training pictures", AT(train)},
    {"test", 0, CS_OPT_INT, 1, 1000000, "512", NULL, NULL, "held-out pictures", AT(test)},
    {"seed", 0, CS_OPT_INT, 0, INT64_MAX, "1", NULL, NULL, "decides everything", AT(seed)},
};

/* clang-format on */
#undef AT

static enum cs_status make_shapes(struct cs_cmd *cmd, struct cs_err *err)
{
    char text[CS_PATH_CAP + 160];
    const struct shapes_values *v = cmd->values;
    struct cs_shapes_options options = {
        .seed = (uint64_t)v->seed, .n_train = (int)v->train, .n_test = (int)v->test};
    CS_TRY(cs_shapes_make(cmd->args[0], &options, err));
    snprintf(text, sizeof text, "wrote %s: %d training and %d held-out pictures with questions",
             cmd->args[0], options.n_train, options.n_test);
    if (!cmd->json) {
        cs_say(stdout, "%s\n", text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.result/1");
    cs_msg_set_str(doc, "dir", cmd->args[0]);
    cs_msg_set_str(doc, "text", text);
    return cs_cmd_print_doc(doc, err);
}

/* --- a script's data -------------------------------------------------------------------------- */

struct job_data {
    struct cs_script_result script;
    struct cs_arena *arena;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_source *source;
};

static void close_data(struct job_data *d)
{
    cs_source_close(d->source);
    cs_arena_free(d->arena);
    cs_script_result_free(&d->script);
}

static enum cs_status open_job(const char *script, struct job_data *d, struct cs_err *err)
{
    const struct cs_here here = {0}; /* data does not depend on it */
    *d = (struct job_data){0};
    CS_TRY(cs_cmd_eval(script, true, &here, &d->script, err));
    d->arena = cs_arena_new(0);
    CS_TRY(cs_spec_read(d->script.document, d->arena, &d->spec, err));
    return cs_graph_build(d->spec, true, d->arena, &d->graph, err);
}

static enum cs_status open_source(struct job_data *d, bool is_eval, struct cs_err *err)
{
    cs_source_close(d->source);
    d->source = NULL;
    return cs_source_open(d->spec, d->graph, NULL, is_eval ? &d->spec->eval_data : &d->spec->data,
                          0, &d->source, err);
}

/* --- check ------------------------------------------------------------------------------------ */

static bool show_progress(void *user, const struct cs_check *so_far)
{
    const bool *has_bar = user;
    if (*has_bar && so_far->n_samples % 256 == 0)
        fprintf(stderr, "\r%llu samples, %llu bad ", (unsigned long long)so_far->n_samples,
                (unsigned long long)so_far->n_bad);
    return true;
}

static json_t *check_object(const char *use, const char *path, const struct cs_check *check)
{
    json_t *o = json_object(), *reasons = json_array();
    cs_msg_set_str(o, "use", use);
    cs_msg_set_str(o, "path", path);
    cs_msg_set_int(o, "samples", (int64_t)check->n_samples);
    cs_msg_set_int(o, "good", (int64_t)check->n_good);
    cs_msg_set_int(o, "bad", (int64_t)check->n_bad);
    cs_msg_set_int(o, "tokens", check->n_tokens);
    cs_msg_set_int(o, "trained_tokens", check->n_labels);
    cs_msg_set_int(o, "saturated_pictures", check->n_saturated);
    for (int i = 0; i < check->n_reasons; i++) {
        json_t *row = json_object(), *examples = json_array();
        cs_msg_set_str(row, "text", check->reasons[i].text);
        cs_msg_set_int(row, "count", (int64_t)check->reasons[i].count);
        for (int k = 0; k < check->reasons[i].n_examples; k++)
            json_array_append_new(examples, json_integer((json_int_t)check->reasons[i].example[k]));
        cs_msg_set(row, "examples", examples);
        json_array_append_new(reasons, row);
    }
    cs_msg_set(o, "reasons", reasons);
    return o;
}

static void print_check(const char *use, const char *path, const struct cs_check *check)
{
    struct cs_buf text = {0};
    cs_buf_addf(&text, "%s %s\n", use, path);
    cs_buf_addf(&text, "  samples  %llu good, %llu bad\n", (unsigned long long)check->n_good,
                (unsigned long long)check->n_bad);
    cs_buf_addf(&text, "  tokens   %lld, %lld of them trained\n", (long long)check->n_tokens,
                (long long)check->n_labels);
    if (check->n_saturated > 0)
        cs_buf_addf(&text,
                    "  note     %lld pictures are gray with 16 bits: every value over 255 becomes "
                    "white, as in transformers; convert them to 8 bits if they are to be seen\n",
                    (long long)check->n_saturated);
    for (int i = 0; i < CS_CHECK_BINS; i++)
        if (check->bins[i])
            cs_buf_addf(&text, "  %6d to %-6d tokens: %llu samples\n", 1 << i, (2 << i) - 1,
                        (unsigned long long)check->bins[i]);
    for (int i = 0; i < check->n_reasons; i++) {
        cs_buf_addf(&text, "  bad %llux: ", (unsigned long long)check->reasons[i].count);
        cs_str_escape(&text, check->reasons[i].text, strlen(check->reasons[i].text), false);
        cs_buf_adds(&text, " (samples");
        for (int k = 0; k < check->reasons[i].n_examples; k++)
            cs_buf_addf(&text, "%s %llu", k ? "," : "",
                        (unsigned long long)check->reasons[i].example[k]);
        cs_buf_adds(&text, ")\n");
    }
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static enum cs_status check_one(const struct cs_cmd *cmd, struct job_data *d, bool is_eval,
                                json_t *sets, struct cs_err *err)
{
    const char *use = is_eval ? "eval" : "train";
    struct cs_check *check = calloc(1, sizeof *check);
    bool has_bar = !cmd->json && isatty(2);
    if (!check)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the check");
    enum cs_status status = open_source(d, is_eval, err);
    if (status == CS_OK)
        status = cs_data_check(d->source, show_progress, &has_bar, check, err);
    if (has_bar)
        fprintf(stderr, "\r                                        \r");
    if (status == CS_OK) {
        json_array_append_new(sets, check_object(use, cs_source_path(d->source), check));
        if (!cmd->json)
            print_check(use, cs_source_path(d->source), check);
    }
    free(check);
    return status;
}

/* Bad samples: the share that the job would bear decides. */
static enum cs_status verdict(const struct job_data *d, const json_t *sets, struct cs_err *err)
{
    for (size_t i = 0; i < json_array_size(sets); i++) {
        const json_t *set = json_array_get(sets, i);
        const struct cs_spec_data *data = i == 0 ? &d->spec->data : &d->spec->eval_data;
        int64_t bad = cs_msg_int(set, "bad", 0), all = cs_msg_int(set, "samples", 0);
        bool is_strict = strcmp(data->on_bad_sample, "fail") == 0;
        if (bad > 0 && (is_strict || (double)bad > data->max_bad_fraction * (double)all))
            return cs_fail(err, CS_INVALID,
                           "%lld of %lld samples of %s are bad: a job would end on them (%s)",
                           (long long)bad, (long long)all, cs_msg_str(set, "path", ""),
                           is_strict ? "on_bad_sample = \"fail\"" : "max_bad_fraction");
    }
    return CS_OK;
}

static enum cs_status check(struct cs_cmd *cmd, struct cs_err *err)
{
    struct job_data d;
    json_t *sets = json_array();
    enum cs_status status = open_job(cmd->args[0], &d, err);
    if (status == CS_OK)
        status = check_one(cmd, &d, false, sets, err);
    if (status == CS_OK && d.spec->has_eval)
        status = check_one(cmd, &d, true, sets, err);
    if (status == CS_OK && cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.datacheck/1");
        cs_msg_set(doc, "sets", json_incref(sets));
        status = cs_cmd_print_doc(doc, err);
        if (status == CS_OK && verdict(&d, sets, NULL) != CS_OK)
            cmd->exit_code = 1; /* the document has said it */
    } else if (status == CS_OK) {
        status = verdict(&d, sets, err);
    }
    json_decref(sets);
    close_data(&d);
    return status;
}

/* --- inspect ---------------------------------------------------------------------------------- */

/* Trained text in brackets that no data can forge on a terminal: reverse video there, [[ ]]
 * elsewhere. */
static void print_marked(const struct cs_rendering *r)
{
    bool is_tty = isatty(1);
    const char *on = is_tty ? "\033[7m" : "[[", *off = is_tty ? "\033[0m" : "]]";
    struct cs_buf text = {0};
    for (size_t i = 0; i < r->n; i++) {
        const struct cs_segment *s = &r->segments[i];
        if (s->is_trained)
            cs_buf_adds(&text, on);
        cs_str_escape(&text, r->text.data + s->begin, s->end - s->begin, false);
        if (s->is_trained)
            cs_buf_adds(&text, off);
    }
    cs_buf_addc(&text, '\n');
    cs_say_exact(stdout, &text);
    cs_buf_free(&text);
}

static void print_sample(const struct cs_loaded *l, uint64_t index)
{
    cs_say(stdout, "sample %llu%s%s: %d rows, %d of them trained, %d picture%s\n",
           (unsigned long long)index, l->record->id[0] ? " id " : "", l->record->id,
           l->sample.n_tokens, l->sample.n_labels, l->sample.n_media,
           l->sample.n_media == 1 ? "" : "s");
    for (int i = 0; i < l->sample.n_media; i++)
        cs_say(stdout, "  picture %d at row %d: %s\n", i, l->sample.media[i].first_row,
               l->sample.media[i].file);
    print_marked(&l->rendering);
}

static json_t *sample_doc(const struct cs_loaded *l, uint64_t index)
{
    json_t *doc = cs_doc_new("cornstarch.sample/1"), *ids = json_array(), *labels = json_array();
    for (int i = 0; i < l->sample.n_tokens; i++) {
        json_array_append_new(ids, json_integer(l->sample.ids[i]));
        json_array_append_new(labels, json_integer(l->sample.labels[i]));
    }
    cs_msg_set_int(doc, "index", (int64_t)index);
    cs_msg_set(doc, "text", cs_json_bytes(cs_buf_str(&l->rendering.text), l->rendering.text.len));
    cs_msg_set(doc, "ids", ids);
    cs_msg_set(doc, "labels", labels);
    return doc;
}

struct inspect_values {
    struct cs_cmd_common common;
    int64_t sample;
};

#define AT(field) offsetof(struct inspect_values, field)
/* clang-format off */
static const struct cs_option inspect_options[] = {
    {"sample", 'n', CS_OPT_INT, 0, INT64_MAX, "0", "N", NULL, "place in the data set", AT(sample)},
};

/* clang-format on */
#undef AT

static enum cs_status inspect(struct cs_cmd *cmd, struct cs_err *err)
{
    struct job_data d;
    struct cs_loaded loaded = {0};
    uint64_t index = (uint64_t)((const struct inspect_values *)cmd->values)->sample;
    enum cs_status status = open_job(cmd->args[0], &d, err);
    if (status == CS_OK)
        status = open_source(&d, false, err);
    if (status == CS_OK && index >= cs_source_count(d.source))
        status = cs_fail(err, CS_NOT_FOUND, "there is no sample %llu: %s has %llu",
                         (unsigned long long)index, cs_source_path(d.source),
                         (unsigned long long)cs_source_count(d.source));
    if (status == CS_OK) {
        status = cs_source_load(d.source, index, &loaded, err);
        if (status != CS_OK)
            cs_wrap(err, status, "sample %llu of %s", (unsigned long long)index,
                    cs_source_path(d.source));
    }
    if (status == CS_OK && cmd->json)
        status = cs_cmd_print_doc(sample_doc(&loaded, index), err);
    else if (status == CS_OK)
        print_sample(&loaded, index);
    cs_loaded_free(&loaded);
    close_data(&d);
    return status;
}

const struct cs_command cs_command_data_make_shapes = {
    .name = "data make shapes",
    .role = CS_ROLE_OWNER,
    .usage = "[options] DIR",
    .help = "write the sample data set of coloured shapes",
    .run = make_shapes,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(shapes_options, struct shapes_values),
};

const struct cs_command cs_command_data_check = {
    .name = "data check",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] SCRIPT",
    .help = "decode and count every sample of a script's data",
    .run = check,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_NO_OPTIONS,
};

const struct cs_command cs_command_inspect = {
    .name = "inspect",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] SCRIPT",
    .help = "one sample as the model sees it, trained tokens marked",
    .run = inspect,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(inspect_options, struct inspect_values),
};
