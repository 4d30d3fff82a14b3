/* logs: what the processes of a job said, merged by time or of one alone, and following it to the job's
 * end. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/store/store.h"
#include "console/views/log_rows.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

struct values {
    struct cs_cmd_common common;
    const char *rank, *grep;
    int64_t lines;
    int level;
    bool follow;
};

static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"rank", 'r', CS_OPT_STRING, 0, 0, "all", "N", NULL, "a rank's number, feeder, runner or daemon; all: merged by time", AT(rank)},
    {"level", 'l', CS_OPT_ENUM, 0, 0, "debug", NULL, levels, "the least level", AT(level)},
    {"grep", 'g', CS_OPT_STRING, 0, 0, NULL, "TEXT", NULL, "only lines with a text or regular expression; small letters match both cases", AT(grep)},
    {"lines", 'n', CS_OPT_INT, 1, 10000, "100", NULL, NULL, "so many lines, the newest", AT(lines)},
    {"follow", 'f', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "go on until the job is over", AT(follow)},
};

/* clang-format on */
#undef AT

enum { ALL = INT32_MAX };

static enum cs_status log_rank(const char *text, int64_t *rank, struct cs_err *err)
{
    static const struct {
        const char *name;
        int64_t rank;
    } names[] = {
        {"all",    ALL},
        {"feeder", -1 },
        {"runner", -2 },
        {"daemon", -3 },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (strcmp(text, names[i].name) == 0) {
            *rank = names[i].rank;
            return CS_OK;
        }
    if (!cs_str_to_i64(text, rank) || *rank < 0 || *rank > 65536)
        return cs_fail(
            err, CS_USAGE,
            "--rank is the number of a rank, 'feeder', 'runner', 'daemon' or 'all', not '%.100s'",
            text);
    return CS_OK;
}

/* what is asked for, and what is printed of it */
struct reading {
    struct cs_cmd *cmd;
    int64_t job, rank;
    enum cs_log_level level;
    struct cs_needle grep;
    struct cs_store_lines lines; /* what was printed: what comes twice is told apart by it */
    bool is_over, is_streaming;
};

static enum cs_status ask(struct reading *r, int64_t limit, json_t **reply, struct cs_err *err)
{
    json_t *request = cs_msg_new("job.logs");
    cs_msg_set_int(request, "job", r->job);
    cs_msg_set_int(request, "limit", limit);
    cs_msg_set_str(request, "level", cs_log_level_name(r->level));
    if (r->rank != ALL)
        cs_msg_set_int(request, "rank", r->rank);
    return cs_cmd_call(r->cmd, request, reply, err);
}

/* "2026-11-27T23:04:23.123Z runner info  step=9 loss=2.5" */
static void print_line(const struct reading *r, int64_t rank, const struct cs_store_line *line)
{
    struct cs_buf text = {0};
    char stamp[CS_ISO_CAP] = "-", source[16];
    if (!cs_needle_match(&r->grep, line->text, NULL, NULL))
        return;
    if (line->wall_ns > 0)
        cs_iso_print(stamp, sizeof stamp, line->wall_ns);
    cs_log_source(source, (int)rank);
    cs_buf_addf(&text, "%-24s %-6s %-5s ", stamp, source, cs_log_level_name(line->level));
    cs_str_escape(&text, line->text, strlen(line->text), false);
    cs_buf_addc(&text, '\n');
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static void take(struct reading *r, int64_t rank, const char *text, size_t n, bool is_past)
{
    if (!cs_lines_add_log(&r->lines, (int32_t)rank, text, n, is_past))
        return;
    for (int i = r->lines.n - 1; i >= 0; i--) { /* the one that was added */
        const struct cs_store_line *line = &r->lines.line[r->lines.order[i]];
        if (line->number == r->lines.total && line->level <= r->level) {
            print_line(r, rank, line);
            return;
        }
    }
}

static void take_all(struct reading *r, const json_t *lines)
{
    cs_lines_begin_past(&r->lines);
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *row = json_array_get(lines, i), *text = json_array_get(row, 1);
        if (json_is_string(text))
            take(r, json_integer_value(json_array_get(row, 0)), json_string_value(text),
                 json_string_length(text), true);
    }
    fflush(stdout);
}

/* --- following -------------------------------------------------------------------------------- */

static void on_message(void *user, const json_t *msg)
{
    struct reading *r = user;
    const char *line = cs_msg_str(msg, "line", "");
    const int64_t rank = cs_msg_int(msg, "rank", -2);
    const json_t *job = cs_msg_obj(msg, "job");
    if (strcmp(cs_msg_type(msg), "event.log") == 0 && (r->rank == ALL || r->rank == rank))
        take(r, rank, line, strlen(line), false);
    if (strcmp(cs_msg_type(msg), "event.job") == 0) {
        const char *state = cs_msg_str(job, "state", "");
        r->is_over =
            !cs_job_state_is(state, CS_PHASE_WAITING) && !cs_job_state_is(state, CS_PHASE_LIVE);
        event_base_loopbreak(r->cmd->base);
    }
    fflush(stdout);
}

static void on_state(void *user, bool is_connected)
{
    struct reading *r = user;
    r->is_streaming = r->is_streaming && is_connected;
    event_base_loopbreak(r->cmd->base);
}

static enum cs_status is_over(struct reading *r, struct cs_err *err)
{
    json_t *request = cs_msg_new("job.show"), *reply = NULL;
    cs_msg_set_int(request, "job", r->job);
    CS_TRY(cs_cmd_call(r->cmd, request, &reply, err));
    const char *state = cs_msg_str(cs_msg_obj(reply, "job"), "state", "");
    r->is_over =
        !cs_job_state_is(state, CS_PHASE_WAITING) && !cs_job_state_is(state, CS_PHASE_LIVE);
    json_decref(reply);
    return CS_OK;
}

static enum cs_status open_stream(struct reading *r, struct cs_err *err)
{
    json_t *request = cs_msg_new("sub.open"), *reply = NULL;
    cs_msg_set_int(request, "job", r->job);
    cs_msg_set_bool(request, "gauges", false);
    cs_msg_set_bool(request, "events", true);
    cs_msg_set_bool(request, "logs", true);
    CS_TRY(cs_cmd_call(r->cmd, request, &reply, err));
    json_decref(reply);
    r->is_streaming = true;
    return CS_OK;
}

/* The past is read again with every new state: a runner that has just started logs before the daemon
 * has found it. */
static enum cs_status follow(struct reading *r, struct cs_err *err)
{
    json_t *reply = NULL;
    cs_client_on_message(r->cmd->client, on_message, r);
    cs_client_on_state(r->cmd->client, on_state, r);
    for (bool was_over = false; !was_over;) {
        if (!r->is_streaming) {
            CS_TRY(open_stream(r, err));
            CS_TRY(is_over(r, err));
        }
        was_over = r->is_over;
        CS_TRY(ask(r, 1000, &reply, err));
        take_all(r, cs_msg_arr(reply, "lines"));
        json_decref(reply);
        if (!was_over)
            event_base_dispatch(r->cmd->base);
        while (!cs_client_is_connected(r->cmd->client) && !cs_client_was_ended(r->cmd->client))
            event_base_dispatch(r->cmd->base); /* it comes back, and the job is asked for anew */
        if (cs_client_was_ended(r->cmd->client))
            return cs_fail(err, CS_PEER_GONE, "the daemon was stopped; the job goes on without it");
    }
    return CS_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

static json_t *document(const struct reading *r, const json_t *lines)
{
    json_t *doc = cs_doc_new("cornstarch.log/1"), *texts = json_array(), *ranks = json_array();
    for (size_t i = 0; i < json_array_size(lines); i++) {
        json_t *row = json_array_get(lines, i), *text = json_array_get(row, 1);
        if (!json_is_string(text) ||
            !cs_needle_match(&r->grep, json_string_value(text), NULL, NULL))
            continue;
        json_array_append(texts, text);
        json_array_append(ranks, json_array_get(row, 0));
    }
    cs_msg_set_int(doc, "job", r->job);
    if (r->rank != ALL)
        cs_msg_set_int(doc, "rank", r->rank);
    cs_msg_set(doc, "ranks", ranks);
    cs_msg_set(doc, "lines", texts);
    return doc;
}

static enum cs_status read_logs(struct reading *r, const struct values *v, struct cs_err *err)
{
    json_t *reply = NULL;
    enum cs_status status = CS_OK;
    CS_TRY(ask(r, v->lines, &reply, err));
    if (r->cmd->json)
        status = cs_cmd_print_doc(document(r, cs_msg_arr(reply, "lines")), err);
    else
        take_all(r, cs_msg_arr(reply, "lines"));
    if (!r->cmd->json && !v->follow && json_array_size(cs_msg_arr(reply, "lines")) == 0)
        cs_say(stderr, "cornstarch-console: no lines of '%s' from level %s on yet\n", v->rank,
               levels[v->level]);
    json_decref(reply);
    if (status == CS_OK && v->follow)
        status = follow(r, err);
    return status;
}

static enum cs_status logs(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    struct reading r = {.cmd = cmd, .level = (enum cs_log_level)v->level};
    CS_TRY(log_rank(v->rank, &r.rank, err));
    if (v->follow && cmd->json)
        return cs_fail(err, CS_USAGE, "--follow and --json do not go together");
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &r.job, err));
    cs_lines_init(&r.lines, CS_STORE_LOGS);
    cs_needle_make(&r.grep, v->grep ? v->grep : "");
    enum cs_status status = read_logs(&r, v, err);
    cs_needle_free(&r.grep);
    cs_lines_free(&r.lines);
    return status;
}

const struct cs_command cs_command_logs = {
    .name = "logs",
    .key = 'l',
    .role = CS_ROLE_VIEWER,
    .usage = "[options] ID",
    .help = "what the processes of a job said, merged by time; states, steps, evaluations, "
            "checkpoints",
    .run = logs,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
