/* rm and prune: jobs that have ended go, with their checkpoints and logs. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/registry.h"
#include "console/cli/shared/job_ids.h"
#include "core/base/say.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

enum { MOST_JOBS = 10000 };

static enum cs_status remove_all(struct cs_cmd *cmd, const struct cs_job_ids *ids,
                                 struct cs_err *err)
{
    return cs_job_ids_order(cmd, ids, cs_msg_new("job.remove"), " is removed", "removed", err);
}

/* --- rm --------------------------------------------------------------------------------------- */

struct rm_values {
    struct cs_cmd_common common;
    bool is_yes;
};

static const struct cs_option rm_options[] = {
    {"yes", 'y', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "do not ask",
     offsetof(struct rm_values, is_yes)},
};

static void name_all(const struct cs_job_ids *ids, char *out, size_t cap)
{
    size_t used = (size_t)snprintf(out, cap, "remove job%s", CS_PLURAL(ids->n));
    for (int i = 0; i < ids->n && used + 40 < cap; i++)
        used += (size_t)snprintf(out + used, cap - used, "%s %lld", i ? "," : "",
                                 (long long)ids->id[i]);
    snprintf(out + used, cap - used, "%s with checkpoints, logs and history?",
             used + 40 < cap ? "" : ", ...");
}

static enum cs_status rm(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct rm_values *v = cmd->values;
    struct cs_job_ids ids;
    char question[400];
    bool is_yes;
    CS_TRY(cs_job_ids_read(cmd, cmd->n, cmd->args, &ids, err));
    name_all(&ids, question, sizeof question);
    enum cs_status status = cs_cmd_confirm(question, v->is_yes, &is_yes, err);
    if (status == CS_OK && is_yes)
        status = remove_all(cmd, &ids, err);
    cs_job_ids_free(&ids);
    return status;
}

/* --- prune ------------------------------------------------------------------------------------ */

struct prune_values {
    struct cs_cmd_common common;
    struct cs_job_filter filter;
    int64_t older_ns, keep;
    bool is_yes, is_dry;
};

#define AT(field) offsetof(struct prune_values, field)
/* clang-format off */
static const struct cs_option prune_options[] = {
    CS_JOB_FILTER_OPTIONS(struct prune_values, filter),
    {"older", 0, CS_OPT_DURATION, 0, 0, "0s", NULL, NULL, "only those that ended so long ago, such as 168h", AT(older_ns)},
    {"keep", 0, CS_OPT_INT, 0, MOST_JOBS, "0", NULL, NULL, "but not the newest so many of them", AT(keep)},
    {"dry-run", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "only tell which", AT(is_dry)},
    {"yes", 'y', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "do not ask", AT(is_yes)},
};

/* clang-format on */
#undef AT

static enum cs_status choose(struct cs_cmd *cmd, const struct prune_values *v,
                             struct cs_job_ids *out, struct cs_err *err)
{
    struct cs_job_filter filter = v->filter;
    json_t *reply = NULL;
    int64_t kept = 0;
    if (filter.states == NULL)
        filter.states = "ended";
    CS_TRY(cs_cmd_find_jobs(cmd, &filter, MOST_JOBS, &reply, err));
    const json_t *jobs = cs_msg_arr(reply, "jobs");
    const int64_t before_ns = cs_wall_ns() - v->older_ns;
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);
        if (!cs_job_state_is(cs_msg_str(job, "state", ""), CS_PHASE_ENDED) ||
            cs_msg_int(job, "ended_ns", 0) > before_ns)
            continue;
        if (kept++ < v->keep)
            continue;
        cs_job_ids_add(out, cs_msg_int(job, "id", 0));
        if (!v->is_yes && !(cmd->json && v->is_dry))
            cs_say(cmd->json ? stderr : stdout, "%lld  %-9s  %s\n",
                   (long long)cs_msg_int(job, "id", 0), cs_msg_str(job, "state", ""),
                   cs_msg_str(job, "name", ""));
    }
    json_decref(reply);
    return CS_OK;
}

static enum cs_status ask_and_remove(struct cs_cmd *cmd, const struct cs_job_ids *ids,
                                     struct cs_err *err)
{
    const struct prune_values *v = cmd->values;
    const struct cs_job_ids none = {0};
    char question[120];
    bool is_yes = false;
    snprintf(question, sizeof question, "remove %s %d job%s with checkpoints, logs and history?",
             CS_NOUN(ids->n, "this", "these"), ids->n, CS_PLURAL(ids->n));
    if (ids->n > 0)
        CS_TRY(cs_cmd_confirm(question, v->is_yes, &is_yes, err));
    else if (!cmd->json)
        cs_say(stdout, "no job is to be removed\n");
    return is_yes || cmd->json ? remove_all(cmd, is_yes ? ids : &none, err) : CS_OK;
}

static enum cs_status prune(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct prune_values *v = cmd->values;
    struct cs_job_ids ids = {0};
    enum cs_status status = choose(cmd, v, &ids, err);
    if (status == CS_OK && v->is_dry && cmd->json)
        status = cs_job_ids_print(&ids, "would be removed", err);
    else if (status == CS_OK && !(v->is_dry && ids.n > 0))
        status = ask_and_remove(cmd, &ids, err);
    cs_job_ids_free(&ids);
    return status;
}

const struct cs_command cs_command_rm = {
    .name = "rm",
    .aliases = "remove delete",
    .role = CS_ROLE_OWNER,
    .confirm = CS_CONFIRM_ASK,
    .usage = "[options] ID ...",
    .help = "remove jobs that have ended: numbers, or ranges such as 3-7",
    .run = rm,
    .min_args = 1,
    .max_args = -1,
    CS_COMMAND_OPTIONS(rm_options, struct rm_values),
};

const struct cs_command cs_command_prune = {
    .name = "prune",
    .role = CS_ROLE_OWNER,
    .confirm = CS_CONFIRM_ASK,
    .usage = "[options]",
    .help = "remove all jobs that have ended, or some of them",
    .run = prune,
    CS_COMMAND_OPTIONS(prune_options, struct prune_values),
};
