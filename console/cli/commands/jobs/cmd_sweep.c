/* sweep: a job for every combination of parameters, then a table of them, the best first. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/cli/command/registry.h"
#include "console/cli/shared/job_ids.h"
#include "console/cli/shared/submit.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/wire/job_state.h"
#include "core/wire/tag.h"
#include "core/wire/wire.h"

enum { TAG_CAP = CS_TAG_BYTES + 1 };

struct values {
    struct cs_cmd_common common;
    struct cs_texts set;
    const char *name;
    int by;
    bool detach;
};

/* What jobs are ranked by: a figure of them, times sign the smallest first. */
static const struct {
    const char *key, *title;
    double sign;
} ranks[] = {
    {"loss",        "loss",        1 },
    {"exact_match", "exact match", -1},
    {"step_ns",     "step time",   1 },
};

static const char *const by_words[] = {"loss", "exact_match", "step_time", NULL};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"name", 0, CS_OPT_STRING, 1, 40, NULL, "NAME", NULL, "of the sweep, tag sweep=NAME of its jobs; default: the script's", AT(name)},
    {"by", 'b', CS_OPT_ENUM, 0, 0, "loss", NULL, by_words, "what the best has least of (exact_match: most)", AT(by)},
    {"detach", 'd', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "submit the jobs and return", AT(detach)},
    {"set", 0, CS_OPT_TEXTS, 0, 0, NULL, "NAME=VALUE", NULL, CS_SET_HELP, AT(set)},
};

/* clang-format on */
#undef AT

/* "dir/lr.lua" -> "lr"; what no tag may have becomes _ */
static void sweep_name(const struct cs_cmd *cmd, char *out, size_t cap)
{
    const struct values *v = cmd->values;
    const char *slash = strrchr(cmd->args[0], '/');
    cs_str_copy(out, cap, v->name ? v->name : slash ? slash + 1 : cmd->args[0]);
    const size_t n = strlen(out);
    if (n > 4 && strcmp(out + n - 4, ".lua") == 0)
        out[n - 4] = '\0';
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_-.", *c))
            *c = '_';
}

/* Of JSON quotes and brackets go, what else no tag may have becomes _: {"llm":[1,2]} is llm:1_2. */
static void parameter_tag(const char *name, const json_t *value, char out[TAG_CAP])
{
    struct cs_buf text = {0};
    size_t n = 0;
    cs_buf_addf(&text, "%s=", name);
    if (json_is_string(value)) {
        cs_buf_adds(&text, json_string_value(value));
    } else {
        char *dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS |
                                             JSON_REAL_PRECISION(9));
        cs_buf_adds(&text, dumped ? dumped : "?");
        free(dumped);
    }
    for (const char *c = cs_buf_str(&text); *c && n < CS_TAG_BYTES; c++)
        if (strchr(CS_TAG_LETTERS, *c))
            out[n++] = *c;
        else if (!strchr("\"{}[]", *c))
            out[n++] = '_';
    out[n] = '\0';
    cs_buf_free(&text);
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static enum cs_status submit_one(struct cs_cmd *cmd, const json_t *row, const char *name,
                                 struct cs_job_ids *ids, struct cs_err *err)
{
    char text[CS_TEXTS_MAX][TAG_CAP];
    struct cs_texts tags = {.n = 1, .item = {text[0]}};
    const char *key;
    json_t *value;
    int64_t job;
    snprintf(text[0], TAG_CAP, "sweep=%.40s", name);
    json_object_foreach(json_object_get(row, "parameters"), key, value) if (tags.n < CS_TEXTS_MAX)
    {
        parameter_tag(key, value, text[tags.n]);
        tags.item[tags.n] = text[tags.n];
        tags.n++;
    }
    qsort(tags.item + 1, (size_t)tags.n - 1, sizeof tags.item[0], by_text); /* Lua knows no order */
    const struct cs_submission what = {.document = json_object_get(row, "spec"),
                                       .ranks = (int32_t)cs_msg_int(row, "ranks", 0),
                                       .tags = &tags};
    CS_TRY(cs_cmd_submit(cmd, &what, &job, err));
    cs_job_ids_add(ids, job);
    return CS_OK;
}

static enum cs_status submit_all(struct cs_cmd *cmd, const char *name, struct cs_job_ids *ids,
                                 struct cs_err *err)
{
    const struct values *v = cmd->values;
    struct cs_lua_limits limits = {.set = &v->set};
    struct cs_script_result result;
    CS_TRY(cs_cmd_here(cmd, &limits.here, err));
    CS_TRY(cs_cmd_eval_jobs(cmd->args[0], &limits, &result, err));
    const json_t *rows = json_object_get(result.document, "jobs");
    enum cs_status status = CS_OK;
    for (size_t i = 0; i < json_array_size(rows) && status == CS_OK; i++)
        status = submit_one(cmd, json_array_get(rows, i), name, ids, err);
    cs_script_result_free(&result);
    return status;
}

/* Each is waited for in turn: those that end early are there when it is theirs. */
static enum cs_status wait_all(struct cs_cmd *cmd, const struct cs_job_ids *ids, json_t *jobs,
                               struct cs_err *err)
{
    for (int i = 0; i < ids->n; i++) {
        json_t *reply = NULL, *request = cs_msg_new("job.wait");
        cs_msg_set_int(request, "job", ids->id[i]);
        CS_TRY(cs_client_call_for(cmd->client, request, 0, &reply, err));
        const json_t *job = cs_msg_obj(reply, "job");
        cs_say(stderr, "job %lld is %s (%d of %d)\n", (long long)ids->id[i],
               cs_msg_str(job, "state", "-"), i + 1, ids->n);
        json_array_append(jobs, (json_t *)(uintptr_t)job);
        json_decref(reply);
    }
    return CS_OK;
}

struct ranked {
    json_t *job;
    double value; /* the smallest is the best; NaN: it did not end well */
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (isnan(x->value) || isnan(y->value))
        return isnan(x->value) - isnan(y->value);
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return cs_msg_int(x->job, "id", 0) < cs_msg_int(y->job, "id", 0) ? -1 : 1;
}

/* The same jobs, the best first. */
static json_t *rank(const json_t *jobs, int by)
{
    const size_t n = json_array_size(jobs);
    struct ranked *row = calloc(n + 1, sizeof *row);
    json_t *out = json_array();
    CS_ASSERT(row);
    for (size_t i = 0; i < n; i++) {
        json_t *job = json_array_get(jobs, i);
        const bool is_done = strcmp(cs_msg_str(job, "state", ""), "DONE") == 0;
        row[i].job = job;
        row[i].value =
            is_done ? ranks[by].sign * cs_msg_num(job, ranks[by].key, (double)NAN) : (double)NAN;
    }
    qsort(row, n, sizeof *row, compare);
    for (size_t i = 0; i < n; i++)
        json_array_append(out, row[i].job);
    free(row);
    return out;
}

static void add_parameters(struct cs_buf *out, const json_t *job)
{
    const json_t *tags = cs_msg_arr(job, "tags");
    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *tag = json_string_value(json_array_get(tags, i));
        if (tag && strncmp(tag, "sweep=", 6) != 0)
            cs_buf_addf(out, "%s%s", out->len ? " " : "", tag);
    }
}

static const struct cs_column columns[] = {
    {"ID",         2,  0,  0, CS_ALIGN_RIGHT},
    {"PARAMETERS", 10, 60, 0, CS_ALIGN_LEFT },
    {"STATE",      5,  0,  0, CS_ALIGN_LEFT },
    {"STEPS",      5,  0,  3, CS_ALIGN_RIGHT},
    {"LOSS",       4,  0,  0, CS_ALIGN_RIGHT},
    {"EXACT",      5,  0,  1, CS_ALIGN_RIGHT},
    {"STEP MS",    7,  0,  2, CS_ALIGN_RIGHT},
};

static void add_job(struct cs_table *table, const json_t *job)
{
    struct cs_buf parameters = {0};
    char id[32], steps[32], loss[32], exact[32], ms[32];
    snprintf(id, sizeof id, "%lld", (long long)cs_msg_int(job, "id", 0));
    cs_cmd_number(steps, job, "step", 1, 0, "");
    cs_cmd_number(loss, job, "loss", 1, 4, "");
    cs_cmd_number(exact, job, "exact_match", 1, 3, "");
    cs_cmd_number(ms, job, "step_ns", 1e-6, 2, "");
    add_parameters(&parameters, job);
    const char *cells[] = {
        id, cs_buf_str(&parameters), cs_msg_str(job, "state", "-"), steps, loss, exact, ms};
    cs_table_add(table, cells);
    cs_buf_free(&parameters);
}

static void print_table(const json_t *jobs, int by)
{
    struct cs_table *table = cs_table_new(columns, CS_ARRAY_LEN(columns));
    struct cs_buf text = {0};
    const json_t *best = json_array_get(jobs, 0);
    for (size_t i = 0; i < json_array_size(jobs); i++)
        add_job(table, json_array_get(jobs, i));
    cs_table_render(table, cs_cmd_width(), true, &text);
    if (strcmp(cs_msg_str(best, "state", ""), "DONE") == 0) {
        cs_buf_addf(&text, "best by %s: job %lld, ", ranks[by].title,
                    (long long)cs_msg_int(best, "id", 0));
        struct cs_buf parameters = {0};
        add_parameters(&parameters, best);
        cs_buf_addf(&text, "%s\n", cs_buf_str(&parameters));
        cs_buf_free(&parameters);
    } else {
        cs_buf_adds(&text, "no job is done\n");
    }
    cs_cmd_print(&text);
    cs_table_free(table);
    cs_buf_free(&text);
}

static enum cs_status show(struct cs_cmd *cmd, const json_t *jobs, struct cs_err *err)
{
    const struct values *v = cmd->values;
    json_t *ranked = rank(jobs, v->by);
    for (size_t i = 0; i < json_array_size(ranked) && cmd->exit_code == 0; i++)
        cmd->exit_code = cs_cmd_job_exit(json_array_get(ranked, i));
    if (cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.jobs/1");
        cs_msg_set(doc, "jobs", ranked);
        return cs_cmd_print_doc(doc, err);
    }
    print_table(ranked, v->by);
    json_decref(ranked);
    return CS_OK;
}

static enum cs_status sweep(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    struct cs_job_ids ids = {0};
    json_t *jobs = json_array();
    char name[41];
    sweep_name(cmd, name, sizeof name);
    enum cs_status status = submit_all(cmd, name, &ids, err);
    if (ids.n > 0)
        cs_say(stderr,
               "%d job%s of sweep %s: 'jobs --tag sweep=%s' lists them, 'queue' what waits\n",
               ids.n, CS_PLURAL(ids.n), name, name);
    if (status == CS_OK && !v->detach)
        status = wait_all(cmd, &ids, jobs, err);
    if (status == CS_OK && !v->detach)
        status = show(cmd, jobs, err);
    json_decref(jobs);
    cs_job_ids_free(&ids);
    return status;
}

const struct cs_command cs_command_sweep = {
    .name = "sweep",
    .role = CS_ROLE_OWNER,
    .usage = "[options] SCRIPT",
    .help = "run the job of every combination of a cs.sweep, then a table of them, the best first",
    .run = sweep,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
