/* data check: what is good, bad and unknown in the samples of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/job_data.h"
#include "core/base/str.h"
#include "core/wire/wire.h"
#include "input/data/check.h"

static bool show_progress(void *user, const struct cs_check *so_far)
{
    const bool *has_bar = user;
    if (*has_bar && so_far->n_samples % 256 == 0)
        fprintf(stderr, "\r%llu samples, %llu bad ", (unsigned long long)so_far->n_samples,
                (unsigned long long)so_far->n_bad);
    return true;
}

static json_t *encoders_of(const struct cs_check *check, const struct cs_record_keys *keys)
{
    json_t *rows = json_array();
    for (int e = 0; e < keys->n; e++) {
        json_t *row = json_object();
        cs_msg_set_str(row, "name", keys->encoder[e].name);
        cs_msg_set_str(row, "placeholder", keys->encoder[e].token);
        cs_msg_set_str(row, "keys", keys->encoder[e].names);
        cs_msg_set_int(row, "items", check->n_media[e]);
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *unknown_of(const struct cs_findings *findings)
{
    json_t *rows = json_array();
    for (int i = 0; i < findings->n; i++) {
        const struct cs_finding *f = &findings->items[i];
        if (f->kind != CS_FINDING_UNKNOWN)
            continue;
        json_t *row = json_object();
        cs_msg_set_str(row, "key", f->path);
        cs_msg_set_int(row, "count", f->n);
        cs_msg_set_str(row, "text", f->text);
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *reasons_of(const struct cs_check *check)
{
    json_t *reasons = json_array();
    for (int i = 0; i < check->n_reasons; i++) {
        json_t *row = json_object(), *examples = json_array();
        cs_msg_set_str(row, "text", check->reasons[i].text);
        cs_msg_set_int(row, "count", (int64_t)check->reasons[i].count);
        for (int k = 0; k < check->reasons[i].n_examples; k++)
            json_array_append_new(examples, json_integer((json_int_t)check->reasons[i].example[k]));
        cs_msg_set(row, "examples", examples);
        json_array_append_new(reasons, row);
    }
    return reasons;
}

static json_t *check_object(const char *use, const struct cs_source *source,
                            const struct cs_check *check)
{
    json_t *o = json_object();
    cs_msg_set_str(o, "use", use);
    cs_msg_set_str(o, "path", cs_source_path(source));
    cs_msg_set_int(o, "samples", (int64_t)check->n_samples);
    cs_msg_set_int(o, "good", (int64_t)check->n_good);
    cs_msg_set_int(o, "bad", (int64_t)check->n_bad);
    cs_msg_set_int(o, "tokens", check->n_tokens);
    cs_msg_set_int(o, "trained_tokens", check->n_labels);
    cs_msg_set(o, "encoders", encoders_of(check, cs_source_keys(source)));
    cs_msg_set_int(o, "too_long", (int64_t)check->n_too_long);
    cs_msg_set_int(o, "untrained", (int64_t)check->n_untrained);
    cs_msg_set_int(o, "shortest", check->shortest_rows);
    cs_msg_set_int(o, "longest", check->longest_rows);
    cs_msg_set_int(o, "saturated_pictures", check->n_saturated);
    cs_msg_set(o, "unknown_keys", unknown_of(&check->findings));
    cs_msg_set(o, "reasons", reasons_of(check));
    return o;
}

static void print_numbers(struct cs_buf *text, const struct cs_check *check,
                          const struct cs_record_keys *keys, int32_t seq_tokens)
{
    cs_buf_addf(text, "  samples  %llu good, %llu bad\n", (unsigned long long)check->n_good,
                (unsigned long long)check->n_bad);
    cs_buf_addf(text, "  tokens   %lld, %lld of them trained\n", (long long)check->n_tokens,
                (long long)check->n_labels);
    for (int e = 0; e < keys->n; e++) {
        cs_buf_addf(text, "  %-8s %lld items, from the keys ", keys->encoder[e].name,
                    (long long)check->n_media[e]);
        cs_record_keys_text(keys, e, text);
        cs_buf_addf(text, " (placeholder %s)\n", keys->encoder[e].token);
    }
    if (check->n_too_long > 0)
        cs_buf_addf(text,
                    "  too long %llu: more rows than seq_tokens = %d; the longest takes %lld, the "
                    "shortest %lld\n",
                    (unsigned long long)check->n_too_long, seq_tokens,
                    (long long)check->longest_rows, (long long)check->shortest_rows);
    if (check->n_untrained > 0)
        cs_buf_addf(text, "  untrained %llu: no token of them trains\n",
                    (unsigned long long)check->n_untrained);
    if (check->n_saturated > 0)
        cs_buf_addf(text,
                    "  note     %lld pictures are gray with 16 bits: every value over 255 becomes "
                    "white, as in transformers; convert them to 8 bits if they are to be seen\n",
                    (long long)check->n_saturated);
    for (int i = 0; i < CS_CHECK_BINS; i++)
        if (check->bins[i])
            cs_buf_addf(text, "  %6d to %-6d tokens: %llu samples\n", 1 << i, (2 << i) - 1,
                        (unsigned long long)check->bins[i]);
}

static void print_unknown(struct cs_buf *text, const struct cs_findings *findings)
{
    for (int i = 0; i < findings->n; i++)
        if (findings->items[i].kind == CS_FINDING_UNKNOWN)
            cs_buf_addf(text, "  unknown %lldx: %s\n", (long long)findings->items[i].n,
                        findings->items[i].text);
    if (findings->n_left_out > 0)
        cs_buf_addf(text, "  and %lld more\n", (long long)findings->n_left_out);
}

static void print_reasons(struct cs_buf *text, const struct cs_check *check)
{
    for (int i = 0; i < check->n_reasons; i++) {
        const struct cs_check_reason *r = &check->reasons[i];
        cs_buf_addf(text, "  bad %llux: ", (unsigned long long)r->count);
        cs_str_escape(text, r->text, strlen(r->text), false);
        cs_buf_adds(text, " (samples");
        for (int k = 0; k < r->n_examples; k++)
            cs_buf_addf(text, "%s %llu", k ? "," : "", (unsigned long long)r->example[k]);
        cs_buf_adds(text, r->count > (uint64_t)r->n_examples ? ", ...)\n" : ")\n");
    }
}

static void print_check(const char *use, const struct cs_job_data *d, const struct cs_check *check)
{
    struct cs_buf text = {0};
    cs_buf_addf(&text, "%s %s\n", use, cs_source_path(d->source));
    print_numbers(&text, check, cs_source_keys(d->source), d->spec->seq_tokens);
    print_unknown(&text, &check->findings);
    print_reasons(&text, check);
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static enum cs_status check_one(const struct cs_cmd *cmd, struct cs_job_data *d, bool is_eval,
                                json_t *sets, struct cs_err *err)
{
    const char *use = is_eval ? "eval" : "train";
    struct cs_check *check = calloc(1, sizeof *check);
    bool has_bar = !cmd->json && isatty(2);
    if (!check)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the check");
    check->findings.arena = d->arena;
    enum cs_status status = cs_job_data_source(d, is_eval, err);
    if (status == CS_OK)
        status = cs_data_check(d->source, show_progress, &has_bar, check, err);
    if (has_bar)
        fprintf(stderr, "\r                                        \r");
    if (status == CS_OK) {
        json_array_append_new(sets, check_object(use, d->source, check));
        if (!cmd->json)
            print_check(use, d, check);
    }
    free(check);
    return status;
}

/* Bad samples: the share that the job would bear decides. */
static enum cs_status judge_bad(const struct cs_spec_data *data, const json_t *set,
                                struct cs_err *err)
{
    int64_t bad = cs_msg_int(set, "bad", 0), all = cs_msg_int(set, "samples", 0);
    bool is_strict = strcmp(data->on_bad_sample, "fail") == 0;
    if (bad > 0 && (is_strict || (double)bad > data->max_bad_fraction * (double)all))
        return cs_fail(err, CS_INVALID,
                       "%lld of %lld samples of %s are bad: a job would end on them (%s)",
                       (long long)bad, (long long)all, cs_msg_str(set, "path", ""),
                       is_strict ? "on_bad_sample = \"fail\"" : "max_bad_fraction");
    return CS_OK;
}

static enum cs_status judge_items(const json_t *set, struct cs_err *err)
{
    const json_t *rows = json_object_get(set, "encoders"), *row = NULL;
    size_t i = 0;
    json_array_foreach(rows, i, row) if (cs_msg_int(row, "items", 0) == 0) return cs_fail(
        err, CS_INVALID,
        "encoder %s gets no item in the whole data set %s: a job would refuse it; its files are "
        "read from the keys %s",
        cs_msg_str(row, "name", ""), cs_msg_str(set, "path", ""), cs_msg_str(row, "keys", ""));
    return CS_OK;
}

static enum cs_status verdict(const struct cs_job_data *d, const json_t *sets, struct cs_err *err)
{
    for (size_t i = 0; i < json_array_size(sets); i++)
        CS_TRY(
            judge_bad(i == 0 ? &d->spec->data : &d->spec->eval_data, json_array_get(sets, i), err));
    return judge_items(json_array_get(sets, 0), err);
}

static enum cs_status check(struct cs_cmd *cmd, struct cs_err *err)
{
    struct cs_job_data d;
    json_t *sets = json_array();
    enum cs_status status = cs_job_data_open(cmd->args[0], &d, err);
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
    cs_job_data_close(&d);
    return status;
}

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
