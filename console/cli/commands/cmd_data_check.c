/* data check: what is good, bad and unknown in the samples of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/check/check_report.h"
#include "console/cli/shared/check/template_check.h"
#include "console/cli/shared/job_data.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "input/data/check.h"

enum { MOST_LISTED = 100000 }; /* samples of the document */

struct check_values {
    struct cs_cmd_common common;
    bool each, compares;
    struct cs_texts set;
};

#define AT(field) offsetof(struct check_values, field)
/* clang-format off */
static const struct cs_option check_options[] = {
    {"each", 'e', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "every sample on a line: its tokens and items, or why it is left out", AT(each)},
    {"template", 't', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "compare the text of every sample with what the model's own chat template makes of it (python3 with jinja2 renders that)", AT(compares)},
    {"set", 0, CS_OPT_TEXTS, 0, 0, NULL, "NAME=VALUE", NULL, CS_SET_HELP, AT(set)},
};

/* clang-format on */
#undef AT

/* What is done after every sample. */
struct progress {
    bool has_bar;
    const struct cs_record_keys *keys;
    json_t *list; /* with --each and --json, else NULL */
    bool is_printed;
};

static void print_each(const struct progress *p, uint64_t index, const struct cs_loaded *l,
                       const char *why)
{
    const struct cs_sample *s = &l->sample;
    struct cs_buf text = {0};
    cs_buf_addf(&text, "  %llu: ", (unsigned long long)index);
    if (why != NULL) {
        cs_buf_adds(&text, "left out: ");
        cs_str_escape(&text, why, strlen(why), false);
    } else {
        cs_buf_addf(&text, "%d tokens, %d of them trained", s->n_tokens, s->n_labels);
        for (int e = 0; e < p->keys->n; e++)
            if (s->n_items[e] > 0)
                cs_buf_addf(&text, ", %s %d row%s of %d item%s", p->keys->encoder[e].name,
                            s->n_rows[e], CS_PLURAL(s->n_rows[e]), s->n_items[e],
                            CS_PLURAL(s->n_items[e]));
    }
    cs_buf_addc(&text, '\n');
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static void list_each(const struct progress *p, uint64_t index, const struct cs_loaded *l,
                      const char *why)
{
    json_t *row = json_object(), *encoders = json_array();
    cs_msg_set_int(row, "index", (int64_t)index);
    cs_msg_set(row, "reason", why != NULL ? cs_json_bytes(why, strlen(why)) : json_null());
    cs_msg_set_int(row, "tokens", why != NULL ? l->sample.rows_wanted : l->sample.n_tokens);
    cs_msg_set_int(row, "trained_tokens", l->sample.n_labels);
    for (int e = 0; e < p->keys->n; e++)
        json_array_append_new(encoders,
                              json_pack("{s:i,s:i,s:i}", "items", l->sample.n_items[e], "rows",
                                        l->sample.n_rows[e], "patches", l->sample.n_patches[e]));
    cs_msg_set(row, "encoders", encoders);
    json_array_append_new(p->list, row);
}

static bool after_sample(void *user, const struct cs_check *so_far, const struct cs_loaded *sample,
                         const char *why)
{
    const struct progress *p = user;
    if (p->has_bar && so_far->n_samples % 256 == 0)
        fprintf(stderr, "\r%llu sample%s, %llu bad ", (unsigned long long)so_far->n_samples,
                CS_PLURAL(so_far->n_samples), (unsigned long long)so_far->n_bad);
    if (p->is_printed)
        print_each(p, so_far->n_samples - 1, sample, why);
    if (p->list != NULL && json_array_size(p->list) < MOST_LISTED)
        list_each(p, so_far->n_samples - 1, sample, why);
    return true;
}

static void print_check(const char *use, const struct cs_job_data *d, const struct cs_check *check)
{
    struct cs_buf text = {0};
    cs_check_text(use, d->source, d->spec->seq_tokens, cs_graph_positions(d->graph), check, &text);
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static enum cs_status check_one(const struct cs_cmd *cmd, struct cs_job_data *d, bool is_eval,
                                json_t *sets, struct cs_err *err)
{
    const char *use = is_eval ? "eval" : "train";
    struct cs_check *check = calloc(1, sizeof *check);
    const struct check_values *v = cmd->values;
    struct progress p = {.has_bar = !cmd->json && isatty(2) && !v->each,
                         .list = v->each && cmd->json ? json_array() : NULL,
                         .is_printed = v->each && !cmd->json};
    if (!check)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the check");
    check->findings.arena = d->arena;
    enum cs_status status = cs_job_data_source(d, is_eval, err);
    if (status == CS_OK)
        p.keys = cs_source_keys(d->source);
    if (status == CS_OK)
        status = cs_data_check(d->source, after_sample, &p, check, err);
    if (p.has_bar)
        fprintf(stderr, "\r                                        \r");
    if (status == CS_OK) {
        json_t *set = cs_check_report(use, d->source, check);
        if (p.list != NULL)
            cs_msg_set(set, "each", json_incref(p.list));
        json_array_append_new(sets, set);
        if (!cmd->json)
            print_check(use, d, check);
        if (v->compares)
            status = cs_template_compare(d, cmd->json ? set : NULL, err);
    }
    json_decref(p.list);
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
        return cs_fail(
            err, CS_INVALID, "%lld of %lld samples of %s %s bad: a job would end on them (%s)",
            (long long)bad, (long long)all, cs_msg_str(set, "path", ""), CS_NOUN(bad, "is", "are"),
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
    enum cs_status status =
        cs_job_data_open(cmd->args[0], &((const struct check_values *)cmd->values)->set, &d, err);
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
    CS_COMMAND_OPTIONS(check_options, struct check_values),
};
