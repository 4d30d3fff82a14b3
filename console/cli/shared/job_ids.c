/* Reads numbers of jobs, finds jobs by what they are, asks before something is gone. */
#include "console/cli/shared/job_ids.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "console/cli/shared/submit.h"
#include "core/base/near.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

void cs_job_ids_add(struct cs_job_ids *ids, int64_t id)
{
    for (int i = 0; i < ids->n; i++)
        if (ids->id[i] == id)
            return;
    if ((ids->n & (ids->n - 1)) == 0) {
        ids->id = realloc(ids->id, (size_t)(ids->n ? 2 * ids->n : 1) * sizeof *ids->id);
        CS_ASSERT(ids->id != NULL);
    }
    ids->id[ids->n++] = id;
}

void cs_job_ids_free(struct cs_job_ids *ids)
{
    free(ids->id);
    *ids = (struct cs_job_ids){0};
}

/* "5-8"; false: it is none */
static bool read_range(const char *word, int64_t *from, int64_t *to)
{
    char left[32] = "";
    const char *dash = strchr(word, '-');
    if (!dash || dash == word || (size_t)(dash - word) >= sizeof left)
        return false;
    memcpy(left, word, (size_t)(dash - word));
    return cs_str_to_i64(left, from) && cs_str_to_i64(dash + 1, to) && *from >= 1 && *to >= *from;
}

static enum cs_status read_word(struct cs_cmd *cmd, const char *word, struct cs_job_ids *out,
                                struct cs_err *err)
{
    int64_t from, to;
    if (read_range(word, &from, &to)) {
        if (to - from >= CS_JOB_IDS_MAX)
            return cs_fail(err, CS_USAGE, "'%.100s': at most %d jobs", word, CS_JOB_IDS_MAX);
        for (int64_t id = from; id <= to; id++)
            cs_job_ids_add(out, id);
        return CS_OK;
    }
    CS_TRY(cs_cmd_job_id(cmd, word, &from, err));
    cs_job_ids_add(out, from);
    return CS_OK;
}

enum cs_status cs_job_ids_read(struct cs_cmd *cmd, int n, char *const *words,
                               struct cs_job_ids *out, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    *out = (struct cs_job_ids){0};
    for (int i = 0; i < n && status == CS_OK; i++)
        status = read_word(cmd, words[i], out, err);
    if (status != CS_OK)
        cs_job_ids_free(out);
    return status;
}

/* --- orders ----------------------------------------------------------------------------------- */

static enum cs_status order_one(struct cs_cmd *cmd, int64_t id, json_t *request, struct cs_err *err)
{
    json_t *own = json_deep_copy(request), *reply = NULL;
    cs_msg_set_int(own, "job", id);
    CS_TRY(cs_cmd_call(cmd, own, &reply, err));
    json_decref(reply);
    return CS_OK;
}

enum cs_status cs_job_ids_order(struct cs_cmd *cmd, const struct cs_job_ids *ids, json_t *request,
                                const char *done, const char *result, struct cs_err *err)
{
    struct cs_job_ids those = {0};
    enum cs_status first = CS_OK;
    for (int i = 0; i < ids->n; i++) {
        struct cs_err why;
        const enum cs_status status = order_one(cmd, ids->id[i], request, &why);
        if (status == CS_OK)
            cs_job_ids_add(&those, ids->id[i]);
        else if (first == CS_OK)
            *err = why;
        else
            cs_say(stderr, "cornstarch-console: %s\n", why.text);
        first = first == CS_OK ? status : first;
        if (status == CS_OK && !cmd->json)
            cs_say(stdout, "job %lld%s\n", (long long)ids->id[i], done);
    }
    if (first == CS_OK && cmd->json)
        first = cs_job_ids_print(&those, result, err);
    cs_job_ids_free(&those);
    json_decref(request);
    return first;
}

enum cs_status cs_job_ids_print(const struct cs_job_ids *ids, const char *result,
                                struct cs_err *err)
{
    json_t *doc = cs_doc_new("cornstarch.result/1"), *jobs = json_array();
    for (int i = 0; i < ids->n; i++)
        json_array_append_new(jobs, json_integer(ids->id[i]));
    cs_msg_set_str(doc, "text", result);
    cs_msg_set(doc, "jobs", jobs);
    return cs_cmd_print_doc(doc, err);
}

/* --- by what they are ------------------------------------------------------------------------- */

static const char *const phases[] = {[CS_PHASE_WAITING] = "waiting",
                                     [CS_PHASE_LIVE] = "live",
                                     [CS_PHASE_RESTING] = "resting",
                                     [CS_PHASE_ENDED] = "ended"};

static enum cs_status unknown_state(const char *word, struct cs_err *err)
{
    const char *names[CS_JOB_STATE_COUNT + CS_ARRAY_LEN(phases)];
    char upper[64];
    int n = 0;
    for (int s = 0; s < CS_JOB_STATE_COUNT; s++)
        names[n++] = cs_job_state_row((enum cs_job_state)s)->name;
    for (size_t p = 0; p < CS_ARRAY_LEN(phases); p++)
        names[n++] = phases[p];
    cs_str_copy(upper, sizeof upper, word);
    for (char *c = upper; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    const char *near = cs_near(upper, names, (size_t)n);
    return cs_fail(
        err, CS_USAGE,
        "there is no state '%.40s'%s%s%s; there are%s, and waiting, live, resting, ended", word,
        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", CS_JOB_STATE_WORDS);
}

static enum cs_status add_states(const char *word, json_t *list, struct cs_err *err)
{
    bool has_any = false;
    for (int s = 0; s < CS_JOB_STATE_COUNT; s++) {
        const struct cs_job_state_row *row = cs_job_state_row((enum cs_job_state)s);
        if (strcasecmp(word, row->name) != 0 && strcasecmp(word, phases[row->phase]) != 0)
            continue;
        json_array_append_new(list, json_string(row->name));
        has_any = true;
    }
    return has_any ? CS_OK : unknown_state(word, err);
}

static enum cs_status read_states(const char *text, json_t *list, struct cs_err *err)
{
    char word[64];
    for (const char *at = text; *at; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        at += n;
        if (n > 0)
            CS_TRY(add_states(word, list, err));
    }
    return CS_OK;
}

enum cs_status cs_cmd_find_jobs(struct cs_cmd *cmd, const struct cs_job_filter *filter,
                                int64_t limit, json_t **reply, struct cs_err *err)
{
    json_t *request = cs_msg_new("jobs.list"), *states = json_array();
    enum cs_status status =
        filter->states != NULL ? read_states(filter->states, states, err) : CS_OK;
    cs_msg_set_int(request, "limit", limit);
    cs_msg_set(request, "states", states);
    cs_msg_set(request, "tags", cs_option_texts_json(&filter->tags));
    if (filter->owner)
        cs_msg_set_str(request, "owner", filter->owner);
    if (filter->name)
        cs_msg_set_str(request, "name", filter->name);
    if (status == CS_OK)
        return cs_cmd_call(cmd, request, reply, err);
    json_decref(request);
    return status;
}

/* --- a question ------------------------------------------------------------------------------- */

enum cs_status cs_cmd_confirm(const char *question, bool is_yes, bool *answer, struct cs_err *err)
{
    char line[16] = "";
    *answer = is_yes;
    if (is_yes)
        return CS_OK;
    if (!isatty(0))
        return cs_fail(err, CS_USAGE, "there is no terminal to ask on: --yes answers beforehand");
    cs_say(stderr, "%s [y/N] ", question);
    fflush(stderr);
    if (fgets(line, sizeof line, stdin) != NULL)
        *answer = line[0] == 'y' || line[0] == 'Y';
    if (!*answer)
        cs_say(stderr, "nothing was done\n");
    return CS_OK;
}
