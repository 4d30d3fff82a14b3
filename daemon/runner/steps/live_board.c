/* Rows of steps into event files, at most a second late. */
#include "runner/steps/live_board.h"

#include "core/base/system/clock.h"
#include "core/export/board.h"
#include "core/wire/wire.h"
#include "runner/state/records.h"

static const int64_t flush_every_ns = 1000000000;

static enum cs_status add(struct cs_runner *r, const char *dir, const json_t *row,
                          struct cs_err *err)
{
    const int64_t now_ns = cs_now_ns();
    if (r->board == NULL)
        CS_TRY(cs_board_open(dir, r->job.first_step, &r->board, err));
    CS_TRY(cs_board_add(r->board, row, err));
    if (now_ns - r->board_ns < flush_every_ns)
        return CS_OK;
    r->board_ns = now_ns;
    return cs_board_flush(r->board, err);
}

static void give_up(struct cs_runner *r, const struct cs_err *why)
{
    r->is_board_lost = true;
    cs_run_alarm(r, CS_ALERT_ROWS_LOST, CS_WARN, r->last_step,
                 "event files of TensorBoard are no longer written, 'metrics --tensorboard' makes "
                 "them whole again: %s",
                 why->text);
}

void cs_live_board_add(struct cs_runner *r, const json_t *row)
{
    struct cs_err err = {0};
    const char *dir = cs_msg_str(r->job.spec_json, "tensorboard", "");
    if (dir[0] != '\0' && !r->is_board_lost && add(r, dir, row, &err) != CS_OK)
        give_up(r, &err);
}

void cs_live_board_end(struct cs_runner *r)
{
    struct cs_err err = {0};
    if (r->board != NULL && !r->is_board_lost && cs_board_flush(r->board, &err) != CS_OK)
        give_up(r, &err);
    cs_board_close(r->board);
    r->board = NULL;
}
