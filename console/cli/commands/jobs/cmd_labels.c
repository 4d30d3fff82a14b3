/* tag and note: what an owner says about jobs. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/registry.h"
#include "console/cli/shared/job_ids.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/wire/wire.h"

static json_t *new_request(int64_t id)
{
    json_t *request = cs_msg_new("job.label");
    cs_msg_set_int(request, "job", id);
    return request;
}

/* "job 3: a b" or "job 3: no tags" */
static void say_tags(const json_t *job)
{
    struct cs_buf text = {0};
    const json_t *tags = cs_msg_arr(job, "tags");
    for (size_t i = 0; i < json_array_size(tags); i++)
        cs_buf_addf(&text, " %s", json_string_value(json_array_get(tags, i)));
    cs_say(stdout, "job %lld:%s\n", (long long)cs_msg_int(job, "id", 0),
           text.len > 0 ? cs_buf_str(&text) : " no tags");
    cs_buf_free(&text);
}

static void say_note(const json_t *job)
{
    struct cs_buf safe = {0};
    const char *note = cs_msg_str(job, "note", "");
    cs_str_escape(&safe, note, strlen(note), false);
    cs_say(stdout, "job %lld: %s\n", (long long)cs_msg_int(job, "id", 0),
           note[0] ? cs_buf_str(&safe) : "no note");
    cs_buf_free(&safe);
}

/* Sends the request, or shows what there is when it changes nothing. */
static enum cs_status label(struct cs_cmd *cmd, json_t *request, bool is_change,
                            void (*say)(const json_t *job), struct cs_err *err)
{
    json_t *reply = NULL;
    if (!is_change)
        json_object_set_new(request, "type", json_string("job.show"));
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    enum cs_status status = CS_OK;
    json_object_del(reply, "spec");
    json_object_del(reply, "plan");
    if (cmd->json)
        status = cs_cmd_print_doc(cs_cmd_job_doc(reply), err);
    else
        say(cs_msg_obj(reply, "job"));
    json_decref(reply);
    return status;
}

/* +TAG or TAG adds, -TAG removes; a word of the command line that begins with - stands behind -- */
static enum cs_status tag(struct cs_cmd *cmd, struct cs_err *err)
{
    int64_t id;
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &id, err));
    json_t *request = new_request(id), *add = json_array(), *take = json_array();
    for (int i = 1; i < cmd->n; i++) {
        const char *word = cmd->args[i];
        const bool is_away = word[0] == '-' || word[0] == '^';
        word += is_away || word[0] == '+';
        json_array_append_new(is_away ? take : add, cs_json_bytes(word, strlen(word)));
    }
    cs_msg_set(request, "add", add);
    cs_msg_set(request, "remove", take);
    return label(cmd, request, cmd->n > 1, say_tags, err);
}

struct note_values {
    struct cs_cmd_common common;
    bool is_clear;
};

static const struct cs_option note_options[] = {
    {"clear", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "no note any more",
     offsetof(struct note_values, is_clear)},
};

static enum cs_status note(struct cs_cmd *cmd, struct cs_err *err)
{
    const bool is_clear = ((const struct note_values *)cmd->values)->is_clear;
    struct cs_buf text = {0};
    int64_t id;
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &id, err));
    for (int i = 1; i < cmd->n; i++)
        cs_buf_addf(&text, "%s%s", i > 1 ? " " : "", cmd->args[i]);
    json_t *request = new_request(id);
    cs_msg_set(request, "note", cs_json_bytes(cs_buf_str(&text), text.len));
    cs_buf_free(&text);
    return label(cmd, request, cmd->n > 1 || is_clear, say_note, err);
}

const struct cs_command cs_command_tag = {
    .name = "tag",
    .aliases = "label",
    .role = CS_ROLE_OWNER,
    .usage = "[options] ID [TAG ...]",
    .help = "give a job tags, or take them away with ^TAG; without tags: show them",
    .run = tag,
    .min_args = 1,
    .max_args = -1,
    CS_COMMAND_NO_OPTIONS,
};

const struct cs_command cs_command_note = {
    .name = "note",
    .role = CS_ROLE_OWNER,
    .usage = "[options] ID [TEXT ...]",
    .help = "write a note of a job; without a text: show it",
    .run = note,
    .min_args = 1,
    .max_args = -1,
    CS_COMMAND_OPTIONS(note_options, struct note_values),
};
