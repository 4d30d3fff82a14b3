/* Submits jobs: looks at them first, tells what came of it. */
#include "console/cli/shared/submit.h"

#include <stdio.h>
#include <string.h>

#include "console/preflight/preflight.h"
#include "core/base/say.h"
#include "core/wire/wire.h"

json_t *cs_option_texts_json(const struct cs_texts *texts)
{
    json_t *list = json_array();
    for (int i = 0; i < texts->n; i++)
        json_array_append_new(list, cs_json_bytes(texts->item[i], strlen(texts->item[i])));
    return list;
}

/* What would end the job is said before it is one, what is to be known goes with it. */
static enum cs_status look_first(const json_t *document, const struct cs_here *here,
                                 json_t **warnings, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_preflight_made made;
    struct cs_preflight preflight = {0};
    struct cs_buf text = {0};
    enum cs_status status = cs_preflight_make(document, true, here, arena, &made, err);
    if (status == CS_OK)
        status = cs_preflight_job(&made, arena, &preflight, err);
    if (status == CS_OK) {
        cs_preflight_warnings(&preflight, &text);
        cs_say_text(stderr, &text);
        *warnings = json_incref(preflight.warnings);
    }
    cs_buf_free(&text);
    cs_preflight_free(&preflight);
    cs_arena_free(arena);
    return status;
}

static json_t *submit_request(const struct cs_submission *what, json_t *warnings)
{
    json_t *request = cs_msg_new("job.submit");
    cs_msg_set_str(request, "plan_hash", cs_msg_str(what->document, "plan_hash", ""));
    cs_msg_set_bool(request, "replan", what->replans);
    if (what->ranks > 0)
        cs_msg_set_int(request, "ranks", what->ranks);
    cs_msg_set(request, "spec", json_incref((json_t *)(uintptr_t)what->document));
    cs_msg_set(request, "warnings", warnings);
    if (what->tags != NULL && what->tags->n > 0)
        cs_msg_set(request, "tags", cs_option_texts_json(what->tags));
    if (what->note != NULL)
        cs_msg_set_str(request, "note", what->note);
    return request;
}

enum cs_status cs_cmd_submit(struct cs_cmd *cmd, const struct cs_submission *what, int64_t *job,
                             struct cs_err *err)
{
    json_t *reply = NULL, *warnings = NULL;
    struct cs_here here;
    CS_TRY(cs_cmd_here(cmd, &here, err));
    CS_TRY(look_first(what->document, &here, &warnings, err));
    CS_TRY(cs_cmd_call(cmd, submit_request(what, warnings), &reply, err));
    *job = cs_msg_int(reply, "job", 0);
    json_decref(reply);
    return CS_OK;
}

enum cs_status cs_cmd_show_job(struct cs_cmd *cmd, int64_t job, json_t **reply, struct cs_err *err)
{
    json_t *request = cs_msg_new("job.show");
    cs_msg_set_int(request, "job", job);
    return cs_cmd_call(cmd, request, reply, err);
}

enum cs_status cs_cmd_print_submitted(struct cs_cmd *cmd, int64_t job, struct cs_err *err)
{
    json_t *reply = NULL;
    if (!cmd->json) {
        cs_say(stdout,
               "job %lld is submitted; watch it with 'cornstarch-console', wait for it with "
               "'cornstarch-console wait %lld'\n",
               (long long)job, (long long)job);
        return CS_OK;
    }
    CS_TRY(cs_cmd_show_job(cmd, job, &reply, err));
    json_t *doc = cs_doc_new("cornstarch.jobinfo/1");
    cs_msg_set(doc, "job", json_incref(cs_msg_obj(reply, "job")));
    json_decref(reply);
    return cs_cmd_print_doc(doc, err);
}
