/* logs: the log of a rank, the feeder or the runner, and following it to the job's end. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "core/base/str.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

struct values {
    struct cs_cmd_common common;
    const char *rank;
    int64_t lines;
    bool follow;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"rank", 'r', CS_OPT_STRING, 0, 0, "0", "N", NULL, "a rank's number, feeder or runner", AT(rank)},
    {"lines", 'n', CS_OPT_INT, 1, 10000, "100", NULL, NULL, "so many lines, the newest", AT(lines)},
    {"follow", 'f', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "go on until the job is over", AT(follow)},
};

/* clang-format on */
#undef AT

static enum cs_status log_rank(const char *text, int64_t *rank, struct cs_err *err)
{
    static const struct {
        const char *name;
        int64_t rank;
    } names[] = {
        {"feeder", -1},
        {"runner", -2},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (strcmp(text, names[i].name) == 0) {
            *rank = names[i].rank;
            return CS_OK;
        }
    if (!cs_str_to_i64(text, rank) || *rank < 0 || *rank > 65536)
        return cs_fail(err, CS_USAGE,
                       "--rank is the number of a rank, 'feeder' or 'runner', not '%.100s'", text);
    return CS_OK;
}

static enum cs_status ask_log(struct cs_cmd *cmd, int64_t job, int64_t rank, int64_t offset,
                              json_t **reply, struct cs_err *err)
{
    const struct values *v = cmd->values;
    json_t *request = cs_msg_new("job.log");
    cs_msg_set_int(request, "job", job);
    cs_msg_set_int(request, "rank", rank);
    cs_msg_set_int(request, "offset", offset);
    cs_msg_set_int(request, "limit", offset < 0 ? v->lines : 1000);
    return cs_cmd_call(cmd, request, reply, err);
}

static void print_lines(const json_t *lines)
{
    struct cs_buf text = {0};
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        cs_str_escape(&text, json_string_value(line), json_string_length(line), false);
        cs_buf_addc(&text, '\n');
    }
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static enum cs_status is_over(struct cs_cmd *cmd, int64_t job, bool *over, struct cs_err *err)
{
    json_t *request = cs_msg_new("job.show"), *reply = NULL;
    cs_msg_set_int(request, "job", job);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    const char *state = cs_msg_str(cs_msg_obj(reply, "job"), "state", "");
    *over = !cs_job_state_is(state, CS_PHASE_WAITING) && !cs_job_state_is(state, CS_PHASE_LIVE);
    json_decref(reply);
    return CS_OK;
}

static enum cs_status follow(struct cs_cmd *cmd, int64_t job, int64_t rank, int64_t offset,
                             struct cs_err *err)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    for (bool over = false, was_over = false; !was_over;) {
        json_t *reply = NULL;
        was_over = over;
        CS_TRY(ask_log(cmd, job, rank, offset, &reply, err));
        size_t n = json_array_size(cs_msg_arr(reply, "lines"));
        print_lines(cs_msg_arr(reply, "lines"));
        fflush(stdout);
        offset = cs_msg_int(reply, "next", offset);
        json_decref(reply);
        if (n > 0) { /* more may wait, also after the end */
            was_over = false;
            continue;
        }
        if (was_over)
            break;
        CS_TRY(is_over(cmd, job, &over, err));
        if (!over)
            nanosleep(&pause, NULL);
    }
    return CS_OK;
}

static enum cs_status logs(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    json_t *reply = NULL;
    int64_t job, rank;
    CS_TRY(log_rank(v->rank, &rank, err));
    if (v->follow && cmd->json)
        return cs_fail(err, CS_USAGE, "--follow and --json do not go together");
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &job, err));
    CS_TRY(ask_log(cmd, job, rank, -1, &reply, err));
    enum cs_status status = CS_OK;
    if (cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.log/1");
        cs_msg_set_int(doc, "job", job);
        cs_msg_set_int(doc, "rank", rank);
        cs_msg_set(doc, "lines", json_incref(cs_msg_arr(reply, "lines")));
        status = cs_cmd_print_doc(doc, err);
    } else {
        print_lines(cs_msg_arr(reply, "lines"));
        if (v->follow)
            status = follow(cmd, job, rank, cs_msg_int(reply, "next", 0), err);
    }
    json_decref(reply);
    return status;
}

const struct cs_command cs_command_logs = {
    .name = "logs",
    .key = 'l',
    .role = CS_ROLE_VIEWER,
    .usage = "[options] ID",
    .help = "log of a rank, the feeder or the runner",
    .run = logs,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
