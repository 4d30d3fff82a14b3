/* complete: what may stand at the end of a command line, for shells. Numbers of jobs and tags come from the
 * daemon where one runs; none is started for it. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/docs/complete.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

enum { MOST_JOBS = 200 };

static const int64_t patience_ns = 1000000000; /* a shell waits for us */

static json_t *ask_jobs(const struct cs_cmd *cmd)
{
    struct cs_client *client = NULL;
    json_t *reply = NULL, *request = cs_msg_new("jobs.list");
    cs_msg_set_int(request, "limit", MOST_JOBS);
    if (cs_client_connect_running(NULL, cmd->socket, &client, NULL) == CS_OK)
        (void)!cs_client_call_for(client, request, patience_ns, &reply, NULL);
    else
        json_decref(request);
    cs_client_free(client);
    return reply;
}

/* what a state must allow for a command to make sense, 0: anything */
static unsigned order_of(const struct cs_command *command)
{
    static const struct {
        const char *name;
        unsigned order;
    } rows[] = {
        {"pause",      CS_ORDER_PAUSE     },
        {"resume",     CS_ORDER_RESUME    },
        {"retry",      CS_ORDER_RESUME    },
        {"stop",       CS_ORDER_STOP      },
        {"checkpoint", CS_ORDER_CHECKPOINT},
        {"rm",         CS_ORDER_REMOVE    },
    };

    for (size_t i = 0; command && i < CS_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, command->name) == 0)
            return rows[i].order;
    return 0;
}

static void add_jobs(const struct cs_cmd *cmd, const char *typed, struct cs_completion *out)
{
    json_t *reply = ask_jobs(cmd);
    const json_t *jobs = cs_msg_arr(reply, "jobs");
    const unsigned order = order_of(out->command);
    const size_t before = out->lines.len;
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *job = json_array_get(jobs, i);
        const struct cs_job_state_row *state = cs_job_state_find(cs_msg_str(job, "state", ""));
        char id[32], help[200];
        if (order && (!state || !(state->orders & order)))
            continue;
        snprintf(id, sizeof id, "%lld", (long long)cs_msg_int(job, "id", 0));
        snprintf(help, sizeof help, "%s %.100s, step %lld of %lld", cs_msg_str(job, "state", ""),
                 cs_msg_str(job, "name", ""), (long long)cs_msg_int(job, "step", 0),
                 (long long)cs_msg_int(job, "steps", 0));
        cs_complete_word(out, typed, id, help);
    }
    if (out->lines.len > before)
        cs_complete_word(out, typed, "latest", "the newest job");
    json_decref(reply);
}

static void add_tags(const struct cs_cmd *cmd, const char *typed, struct cs_completion *out)
{
    json_t *reply = ask_jobs(cmd), *seen = json_object();
    const json_t *jobs = cs_msg_arr(reply, "jobs");
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const json_t *tags = cs_msg_arr(json_array_get(jobs, i), "tags");
        for (size_t k = 0; k < json_array_size(tags); k++)
            json_object_set_new(seen, json_string_value(json_array_get(tags, k)), json_true());
    }
    const char *tag;
    json_t *value;
    json_object_foreach(seen, tag, value) cs_complete_word(out, typed, tag, "tag");
    json_decref(seen);
    json_decref(reply);
}

/* What the shell completes itself: a last line ":files SUFFIX", ":dirs" */
static void add_files(struct cs_completion *out)
{
    static const struct {
        const char *kind, *line;
    } rows[] = {
        {"SCRIPT", ":files lua"},
        {"FILE",   ":files"    },
        {"PATH",   ":files"    },
        {"TRACE",  ":files"    },
        {"DIR",    ":dirs"     },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        if (strstr(out->kind, rows[i].kind) != NULL)
            cs_buf_addf(&out->lines, "%s\n", rows[i].line);
}

static enum cs_status complete(struct cs_cmd *cmd, struct cs_err *err)
{
    struct cs_completion found;
    char *empty[] = {(char[]){""}};
    const int n = cmd->n > 0 ? cmd->n : 1;
    char **words = cmd->n > 0 ? cmd->args : empty;
    (void)err;
    cs_complete(cmd->all, n, words, &found);
    if (strcmp(found.kind, "ID") == 0)
        add_jobs(cmd, words[n - 1], &found);
    else if (strcmp(found.kind, "TAG") == 0)
        add_tags(cmd, words[n - 1], &found);
    add_files(&found);
    cs_cmd_print(&found.lines);
    cs_buf_free(&found.lines);
    return CS_OK;
}

const struct cs_command cs_command_complete = {
    .name = "complete",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] -- [WORD ...]",
    .help = "what may stand in the place of the last word, as shells ask for it",
    .run = complete,
    .max_args = -1,
    CS_COMMAND_NO_OPTIONS,
};
