/* metrics: the steps of a job, as a table, CSV, JSON lines or for TensorBoard; once or while it
 * runs. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/metric_out.h"
#include "core/base/say.h"
#include "core/base/units.h"
#include "core/export/board.h"
#include "core/wire/job_state.h"
#include "core/wire/metric.h"
#include "core/wire/wire.h"

enum { PAGE = 10000, TABLE_ROWS = 10000 };

struct values {
    struct cs_cmd_common common;
    int64_t after, every, limit, last;
    const char *columns, *tensorboard;
    bool follow, csv, lines;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"columns", 'c', CS_OPT_STRING, 0, 0, NULL, "NAMES", NULL, "columns and metrics to print, separated by commas: loss,tokens_per_s,loss/coco; a wrong one lists all", AT(columns)},
    {"after", 0, CS_OPT_INT, -1, INT64_C(9007199254740991), "-1", "STEP", NULL, "rows after this step", AT(after)},
    {"last", 0, CS_OPT_INT, 0, INT64_C(9007199254740991), "0", "STEPS", NULL, "rows of the last so many steps, 0 of all", AT(last)},
    {"every", 0, CS_OPT_INT, 1, INT64_C(9007199254740991), "1", NULL, NULL, "one row every so many steps", AT(every)},
    {"limit", 'n', CS_OPT_INT, 0, INT64_C(9007199254740991), "0", NULL, NULL, "at most so many rows; 0: 10000 in a table, else all", AT(limit)},
    {"follow", 'f', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "go on until the job has ended", AT(follow)},
    {"csv", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "as CSV: every metric a column, unknown empty", AT(csv)},
    {"lines", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "as JSON lines: an object a row", AT(lines)},
    {"tensorboard", 0, CS_OPT_STRING, 0, 0, NULL, "DIR", NULL, "write event files for TensorBoard to DIR/train and DIR/eval, in place of those that this command left there", AT(tensorboard)},
};

/* clang-format on */
#undef AT

struct fetch {
    struct cs_cmd *cmd;
    const struct values *values;
    int64_t job, after, left; /* left: rows */
    int64_t seen[2];          /* last step of training, of evaluations; -1 none */
    bool is_cut;
    struct cs_metric_out *out;
    struct cs_board *board;
    json_t *rows, *columns; /* of --json */
};

static enum cs_status check(const struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    const int forms = v->csv + v->lines + cmd->json + (v->tensorboard != NULL);
    if (forms > 1)
        return cs_fail(err, CS_USAGE, "one of --csv, --lines, --json and --tensorboard at a time");
    if (v->follow && cmd->json)
        return cs_fail(err, CS_USAGE, "--json is one document: --follow goes with --lines");
    if (v->columns && (cmd->json || v->tensorboard))
        return cs_fail(err, CS_USAGE, "--columns goes with a table, --csv and --lines");
    if (v->last > 0 && v->after >= 0)
        return cs_fail(err, CS_USAGE, "--last or --after, not both");
    return CS_OK;
}

static enum cs_status show_job(struct fetch *f, int64_t *step, bool *is_over, struct cs_err *err)
{
    json_t *reply = NULL, *request = cs_msg_new("job.show");
    cs_msg_set_int(request, "job", f->job);
    CS_TRY(cs_cmd_call(f->cmd, request, &reply, err));
    const json_t *job = cs_msg_obj(reply, "job");
    *step = cs_msg_int(job, "step", 0);
    *is_over = cs_job_state_is(cs_msg_str(job, "state", ""), CS_PHASE_ENDED);
    json_decref(reply);
    return CS_OK;
}

static enum cs_status open_out(struct fetch *f, const json_t *reply, struct cs_err *err)
{
    const struct values *v = f->values;
    if (f->out != NULL || f->board != NULL || f->cmd->json)
        return CS_OK;
    if (v->tensorboard)
        return cs_board_open(v->tensorboard, 0, &f->board, err);
    return cs_metric_out_new(v->csv      ? CS_METRIC_CSV
                             : v->lines  ? CS_METRIC_LINES
                             : v->follow ? CS_METRIC_STREAM
                                         : CS_METRIC_TABLE,
                             v->columns, reply, &f->out, err);
}

static enum cs_status take(struct fetch *f, const json_t *columns, json_t *cells,
                           struct cs_err *err)
{
    json_t *row = cs_metric_row(columns, cells);
    enum cs_status status = CS_OK;
    const int64_t step = cs_msg_int(row, "step", -1);
    int64_t *seen = &f->seen[cs_metric_is_eval(row)];
    if (step > *seen && f->left > 0) {
        *seen = step;
        f->left--;
        if (f->board)
            status = cs_board_add(f->board, row, err);
        else if (f->out)
            cs_metric_out_row(f->out, row);
        else
            json_array_append(f->rows, cells);
    }
    json_decref(row);
    return status;
}

static enum cs_status take_page(struct fetch *f, const json_t *reply, int64_t *next,
                                struct cs_err *err)
{
    const json_t *columns = cs_msg_arr(reply, "columns"), *rows = cs_msg_arr(reply, "rows");
    CS_TRY(open_out(f, reply, err));
    for (size_t i = 0; i < json_array_size(rows); i++)
        CS_TRY(take(f, columns, json_array_get(rows, i), err));
    if (f->columns == NULL)
        f->columns = json_incref(cs_msg_arr(reply, "columns"));
    *next = cs_msg_int(reply, "next", -1);
    f->is_cut = f->left == 0 && *next >= 0;
    return CS_OK;
}

/* all rows after f->after */
static enum cs_status fetch_all(struct fetch *f, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    int64_t after = f->after, next = -1;
    do {
        json_t *reply = NULL, *request = cs_msg_new("job.metrics");
        cs_msg_set_int(request, "job", f->job);
        cs_msg_set_int(request, "after_step", after);
        cs_msg_set_int(request, "every", f->values->every);
        cs_msg_set_int(request, "limit", f->left < PAGE ? f->left : PAGE);
        CS_TRY(cs_cmd_call(f->cmd, request, &reply, err));
        status = take_page(f, reply, &next, err);
        after = next;
        json_decref(reply);
    } while (status == CS_OK && next >= 0 && f->left > 0);
    return status;
}

/* A step that is made again after a resume is printed again. */
static void rewind_to(struct fetch *f, int64_t step)
{
    for (int i = 0; i < 2; i++)
        if (f->seen[i] >= step)
            f->seen[i] = step - 1;
}

/* The evaluation of a step comes after its training: that step is asked for again. */
static enum cs_status follow(struct fetch *f, struct cs_err *err)
{
    const struct timespec pause = {1, 0};
    bool is_over = false;
    while (!is_over && f->left > 0) {
        int64_t step;
        CS_TRY(show_job(f, &step, &is_over, err)); /* before the rows: none is missed at the end */
        rewind_to(f, step);
        f->after = f->seen[0] > 0 ? f->seen[0] - 1 : -1;
        CS_TRY(fetch_all(f, err));
        if (f->board)
            CS_TRY(cs_board_flush(f->board, err));
        if (!is_over)
            nanosleep(&pause, NULL);
    }
    return CS_OK;
}

static enum cs_status run(struct fetch *f, struct cs_err *err)
{
    const struct values *v = f->values;
    int64_t step;
    bool is_over;
    CS_TRY(show_job(f, &step, &is_over, err));
    f->after = v->last > 0 ? (step > v->last ? step - v->last - 1 : -1) : v->after;
    CS_TRY(fetch_all(f, err));
    return v->follow ? follow(f, err) : CS_OK;
}

static enum cs_status end(struct fetch *f, struct cs_err *err)
{
    if (f->board) {
        CS_TRY(cs_board_flush(f->board, err));
        cs_say(stdout, "job %lld: %lld row%s in %s; look with 'tensorboard --logdir %s'\n",
               (long long)f->job, (long long)cs_board_rows(f->board),
               CS_PLURAL(cs_board_rows(f->board)), f->values->tensorboard, f->values->tensorboard);
    } else if (f->cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.metrics/1");
        cs_msg_set_int(doc, "job", f->job);
        cs_msg_set(doc, "columns", json_incref(f->columns));
        cs_msg_set(doc, "rows", json_incref(f->rows));
        CS_TRY(cs_cmd_print_doc(doc, err));
    }
    return CS_OK;
}

static enum cs_status metrics(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    const bool is_table = !v->csv && !v->lines && !v->tensorboard && !v->follow;
    struct fetch f = {
        .cmd = cmd, .values = v, .seen = {-1, -1},
                .rows = json_array()
    };
    f.left = v->limit > 0 ? v->limit : is_table ? TABLE_ROWS : INT64_MAX;
    enum cs_status status = check(cmd, err);
    if (status == CS_OK)
        status = cs_cmd_job_id(cmd, cmd->args[0], &f.job, err);
    if (status == CS_OK)
        status = run(&f, err);
    cs_metric_out_end(f.out);
    if (status == CS_OK)
        status = end(&f, err);
    if (status == CS_OK && f.is_cut && v->limit == 0)
        cs_say(stderr, "these are the first %d rows: --after, --last, --every and --limit choose\n",
               TABLE_ROWS);
    cs_board_close(f.board);
    json_decref(f.rows);
    json_decref(f.columns);
    return status;
}

const struct cs_command cs_command_metrics = {
    .name = "metrics",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] ID",
    .help = "the step series of a job: as a table, CSV, JSON lines or for TensorBoard",
    .run = metrics,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
