/* report: a run as one page of HTML. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/report/report.h"
#include "console/views/plan/plan.h"
#include "core/base/say.h"
#include "core/base/system/clock.h"
#include "core/base/system/io.h"
#include "core/wire/wire.h"

enum { ROWS = 2000, NOTES = CS_STORE_NOTES };

struct values {
    struct cs_cmd_common common;
    const char *html;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"html", 0, CS_OPT_STRING, 0, 0, NULL, "FILE", NULL, "the file to write; one that is there is replaced", AT(html)},
};

/* clang-format on */
#undef AT

struct answers {
    json_t *show, *node;
};

/* asks, and tells the store what is answered; keep NULL: that is all */
static enum cs_status ask(struct cs_cmd *cmd, struct cs_store *store, json_t *request,
                          json_t **keep, struct cs_err *err)
{
    json_t *reply = NULL;
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    cs_store_message(store, reply);
    if (keep != NULL)
        *keep = reply;
    else
        json_decref(reply);
    return CS_OK;
}

static json_t *about(const char *type, int64_t job)
{
    json_t *request = cs_msg_new(type);
    cs_msg_set_int(request, "job", job);
    return request;
}

/* of a long job a row stands for several steps */
static enum cs_status ask_rows(struct cs_cmd *cmd, struct cs_store *store, int64_t job,
                               struct cs_err *err)
{
    const int64_t steps = cs_store_selected(store)->step;
    int64_t before;
    do { /* evaluations are always there: they may take more than a page */
        before = store->metrics.last_step;
        json_t *request = about("job.metrics", job);
        cs_msg_set_int(request, "after_step", before);
        cs_msg_set_int(request, "limit", 2 * ROWS);
        cs_msg_set_bool(request, "fold", true);
        cs_msg_set_int(request, "every", steps > ROWS ? steps / ROWS + 1 : 1);
        CS_TRY(ask(cmd, store, request, NULL, err));
    } while (store->metrics.last_step > before);
    return CS_OK;
}

static enum cs_status gather(struct cs_cmd *cmd, struct cs_store *store, int64_t job,
                             struct answers *answers, struct cs_err *err)
{
    json_t *request;
    cs_store_select(store, job);
    CS_TRY(ask(cmd, store, about("job.show", job), &answers->show, err));
    CS_TRY(ask_rows(cmd, store, job, err));
    request = about("job.events", job);
    cs_msg_set_int(request, "limit", NOTES);
    CS_TRY(ask(cmd, store, request, NULL, err));
    CS_TRY(ask(cmd, store, cs_msg_new("node.show"), &answers->node, err));
    cs_store_adopt_trace(store);
    return CS_OK;
}

static enum cs_status write_page(const struct cs_store *store, const struct answers *answers,
                                 const char *path, struct cs_err *err)
{
    struct cs_preview preview = {.arena = NULL};
    struct cs_buf page = {0};
    const struct cs_variant_base base = cs_plan_base(store);
    if (base.plan != NULL) {
        const struct cs_variant own = cs_variant_own(&base);
        cs_preview_make(&preview, &base, &own);
    }
    const struct cs_report report = {.store = store,
                                     .job = cs_msg_obj(answers->show, "job"),
                                     .spec = cs_msg_obj(answers->show, "spec"),
                                     .node = answers->node,
                                     .preview = &preview,
                                     .wall_ns = cs_wall_ns()};
    cs_report_html(&report, &page);
    enum cs_status status = cs_write_file_atomic(path, page.data, page.len, 0666, err);
    cs_buf_free(&page);
    cs_preview_clear(&preview);
    return status;
}

static enum cs_status report(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    struct answers answers = {NULL, NULL};
    int64_t job;
    if (v->html == NULL)
        return cs_fail(err, CS_USAGE, "report needs --html FILE, the page to write");
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &job, err));
    struct cs_store *store = cs_store_new();
    enum cs_status status = gather(cmd, store, job, &answers, err);
    if (status == CS_OK)
        status = write_page(store, &answers, v->html, err);
    if (status == CS_OK)
        cs_say(stdout, "job %lld: %s\n", (long long)job, v->html);
    json_decref(answers.show);
    json_decref(answers.node);
    cs_store_free(store);
    return status;
}

const struct cs_command cs_command_report = {
    .name = "report",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] --html FILE ID",
    .help = "a run as one page: charts, timeline, plan, memory, evaluation, environment",
    .run = report,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
