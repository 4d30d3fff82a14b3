/* clone and retry: a job once more, as another one or as itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/cli/command/registry.h"
#include "console/cli/shared/job_ids.h"
#include "console/cli/shared/submit.h"
#include "core/base/near.h"
#include "core/base/say.h"
#include "core/model/spec.h"
#include "core/wire/wire.h"

/* --- clone ------------------------------------------------------------------------------------ */

struct clone_values {
    struct cs_cmd_common common;
    struct cs_texts tags;
    const char *note;
    bool is_dry;
};

#define AT(field) offsetof(struct clone_values, field)
/* clang-format off */
static const struct cs_option clone_options[] = {
    {"tag", 't', CS_OPT_TEXTS, 0, 64, NULL, "TAG", NULL, "a tag of the new job; may be given several times", AT(tags)},
    {"note", 0, CS_OPT_STRING, 0, 1000, NULL, "TEXT", NULL, "a note of the new job", AT(note)},
    {"dry-run", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "print its specification, submit nothing", AT(is_dry)},
};

/* clang-format on */
#undef AT

/* "optimizer.lr" -> the row of the table of keys; "steps" is of the top level */
static const struct cs_spec_key *find_key(const char *path)
{
    int n;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    const char *dot = strrchr(path, '.');
    const size_t group = dot ? (size_t)(dot - path) : 0;
    const char *name = dot ? dot + 1 : path;
    for (int i = 0; i < n; i++)
        if (strcmp(keys[i].key, name) == 0 && strlen(keys[i].group) == group &&
            memcmp(keys[i].group, path, group) == 0)
            return &keys[i];
    return NULL;
}

static enum cs_status unknown_key(const char *path, struct cs_err *err)
{
    int n;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    char(*text)[96] = calloc((size_t)n, sizeof *text);
    const char **names = calloc((size_t)n, sizeof *names);
    CS_ASSERT(text != NULL && names != NULL);
    for (int i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "%s%s%s", keys[i].group, keys[i].group[0] ? "." : "",
                 keys[i].key);
        names[i] = text[i];
    }
    const char *near = cs_near(path, names, (size_t)n);
    enum cs_status status =
        cs_fail(err, CS_USAGE, "a job has no key '%.100s'%s%s%s; cornstarch-job(5) lists them",
                path, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    free(names);
    free(text);
    return status;
}

/* a number, true, false or JSON; anything else is a text */
static json_t *value_of(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    return value != NULL ? value : cs_json_bytes(text, strlen(text));
}

/* the object that a path is in; objects on the way are made where there are none */
static json_t *group_of(json_t *spec, const char *path)
{
    char name[96];
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        json_t *next = json_object_get(spec, name);
        if (!json_is_object(next)) {
            next = json_object();
            json_object_set_new(spec, name, next);
        }
        spec = next;
    }
    return spec;
}

static enum cs_status change(json_t *spec, const char *word, struct cs_err *err)
{
    char path[160];
    const size_t n = strcspn(word, "=");
    if (word[n] == '\0' || n == 0 || n >= sizeof path)
        return cs_fail(err, CS_USAGE, "'%.100s': write KEY=VALUE, such as optimizer.lr=1e-4", word);
    snprintf(path, sizeof path, "%.*s", (int)n, word);
    if (find_key(path) == NULL)
        return unknown_key(path, err);
    const char *dot = strrchr(path, '.');
    json_object_set_new(group_of(spec, path), dot ? dot + 1 : path, value_of(word + n + 1));
    return CS_OK;
}

/* What the old job was previewed with says nothing about the new one. */
static enum cs_status submit_copy(struct cs_cmd *cmd, json_t *spec, struct cs_err *err)
{
    const struct clone_values *v = cmd->values;
    int64_t job;
    json_object_set_new(spec, "plan_hash", json_string(""));
    for (int i = 1; i < cmd->n; i++)
        CS_TRY(change(spec, cmd->args[i], err));
    if (v->is_dry) {
        struct cs_buf text = {0};
        cs_json_pretty(spec, &text);
        cs_cmd_print(&text);
        cs_buf_free(&text);
        return CS_OK;
    }
    const struct cs_submission what = {
        .document = spec, .replans = true, .tags = &v->tags, .note = v->note};
    CS_TRY(cs_cmd_submit(cmd, &what, &job, err));
    return cs_cmd_print_submitted(cmd, job, err);
}

static enum cs_status clone(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *reply = NULL;
    int64_t id;
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &id, err));
    CS_TRY(cs_cmd_show_job(cmd, id, &reply, err));
    json_t *spec = json_deep_copy(cs_msg_obj(reply, "spec"));
    json_decref(reply);
    if (spec == NULL)
        return cs_fail(err, CS_NOT_FOUND,
                       "the specification of job %lld is gone: submit its script", (long long)id);
    enum cs_status status = submit_copy(cmd, spec, err);
    json_decref(spec);
    return status;
}

/* --- retry ------------------------------------------------------------------------------------ */

struct retry_values {
    struct cs_cmd_common common;
    struct cs_job_filter filter;
    bool is_all, from_start;
};

#define AT(field) offsetof(struct retry_values, field)
/* clang-format off */
static const struct cs_option retry_options[] = {
    {"all", 'a', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "all jobs that failed or were lost", AT(is_all)},
    {"from-start", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "anew at step 0; checkpoints are put aside", AT(from_start)},
    {"state", 's', CS_OPT_STRING, 1, 200, "failed,lost", "STATE", NULL, "with --all: in these states, separated by commas", AT(filter.states)},
    {"tag", 't', CS_OPT_TEXTS, 0, 64, NULL, "TAG", NULL, "with --all: only with this tag; may be given several times", AT(filter.tags)},
};

/* clang-format on */
#undef AT

static enum cs_status choose(struct cs_cmd *cmd, const struct retry_values *v,
                             struct cs_job_ids *out, struct cs_err *err)
{
    json_t *reply = NULL;
    if (v->is_all == (cmd->n > 0))
        return cs_fail(err, CS_USAGE, "give numbers of jobs, or --all");
    if (!v->is_all && v->filter.tags.n > 0)
        return cs_fail(err, CS_USAGE, "--tag goes with --all");
    if (!v->is_all)
        return cs_job_ids_read(cmd, cmd->n, cmd->args, out, err);
    CS_TRY(cs_cmd_find_jobs(cmd, &v->filter, CS_JOB_IDS_MAX, &reply, err));
    const json_t *jobs = cs_msg_arr(reply, "jobs");
    for (size_t i = json_array_size(jobs); i-- > 0;) /* the oldest is first in the queue */
        cs_job_ids_add(out, cs_msg_int(json_array_get(jobs, i), "id", 0));
    json_decref(reply);
    if (out->n == 0)
        return cs_fail(err, CS_NOT_FOUND, "no job is %s", v->filter.states);
    return CS_OK;
}

static enum cs_status retry(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct retry_values *v = cmd->values;
    struct cs_job_ids ids = {0};
    CS_TRY(choose(cmd, v, &ids, err));
    json_t *request = cs_msg_new("job.resume");
    if (v->from_start)
        cs_msg_set_bool(request, "from_start", true);
    enum cs_status status = cs_job_ids_order(
        cmd, &ids, request,
        v->from_start ? ": queued, to begin anew"
                      : ": queued, to go on from its newest checkpoint if there is one",
        "queued again", err);
    cs_job_ids_free(&ids);
    return status;
}

const struct cs_command cs_command_clone = {
    .name = "clone",
    .aliases = "copy",
    .role = CS_ROLE_OWNER,
    .usage = "[options] ID [KEY=VALUE ...]",
    .help = "submit a job's specification again as a new job, with other values of some keys",
    .run = clone,
    .min_args = 1,
    .max_args = -1,
    CS_COMMAND_OPTIONS(clone_options, struct clone_values),
};

const struct cs_command cs_command_retry = {
    .name = "retry",
    .aliases = "requeue",
    .role = CS_ROLE_OWNER,
    .usage = "[options] [ID ...]",
    .help = "let jobs that failed, were lost or stopped go on",
    .run = retry,
    .max_args = -1,
    CS_COMMAND_OPTIONS(retry_options, struct retry_values),
};
