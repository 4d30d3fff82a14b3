/* Event files in the directories of a run. */
#include "core/export/board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/base/system/io.h"
#include "core/export/tfevents.h"
#include "core/wire/metric.h"
#include "core/wire/wire.h"

enum { PIECE = 1 << 20, VALUES = 128 };

static const char file_name[] = "events.out.tfevents.";
static const char file_end[] = ".cornstarch";

struct split { /* train or eval */
    int fd;    /* -1: no row yet */
    struct cs_buf text;
};

struct cs_board {
    char dir[CS_PATH_CAP];
    int64_t first_step, rows;
    struct split split[2];
};

enum cs_status cs_board_open(const char *dir, int64_t first_step, struct cs_board **out,
                             struct cs_err *err)
{
    struct cs_board *board = calloc(1, sizeof *board);
    CS_ASSERT(board);
    board->first_step = first_step;
    board->split[0].fd = board->split[1].fd = -1;
    enum cs_status status = cs_path(board->dir, err, "%s", dir);
    status = status == CS_OK ? cs_mkdirs(dir, err) : status;
    if (status != CS_OK) {
        free(board);
        return cs_wrap(err, status, "files for TensorBoard");
    }
    *out = board;
    return CS_OK;
}

/* files that an earlier call left: TensorBoard would show both */
static enum cs_status remove_old(const char *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct dirent *entry;
    enum cs_status status = CS_OK;
    DIR *open_dir = opendir(dir);
    const size_t tail = strlen(file_end);
    while (open_dir && status == CS_OK && (entry = readdir(open_dir))) {
        const size_t n = strlen(entry->d_name);
        if (strncmp(entry->d_name, file_name, strlen(file_name)) != 0 || n < tail ||
            strcmp(entry->d_name + n - tail, file_end) != 0)
            continue;
        status = cs_path(path, err, "%s/%s", dir, entry->d_name);
        if (status == CS_OK && unlink(path) != 0)
            status = cs_fail(err, CS_IO, "removing %s: %s", path, strerror(errno));
    }
    if (open_dir)
        closedir(open_dir);
    return status;
}

/* "events.out.tfevents.1785000000000000000.cornstarch": TensorBoard reads them in the order of their
 * names */
static enum cs_status open_split(struct cs_board *board, bool is_eval, double wall_s,
                                 struct cs_err *err)
{
    char dir[CS_PATH_CAP], path[CS_PATH_CAP];
    struct split *split = &board->split[is_eval];
    CS_TRY(cs_path(dir, err, "%s/%s", board->dir, is_eval ? "eval" : "train"));
    CS_TRY(cs_mkdirs(dir, err));
    if (board->first_step == 0)
        CS_TRY(remove_old(dir, err));
    CS_TRY(cs_path(path, err, "%s/%s%lld%s", dir, file_name, (long long)cs_wall_ns(), file_end));
    split->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (split->fd < 0)
        return cs_fail(err, CS_IO, "making %s: %s", path, strerror(errno));
    cs_tfevents_begin(&split->text, wall_s, board->first_step);
    return CS_OK;
}

struct values {
    struct cs_tfvalue value[VALUES];
    char tag[VALUES][CS_METRIC_NAME];
    int n;
};

static void take_value(void *user, const char *name, double value)
{
    struct values *v = user;
    if (v->n == VALUES)
        return;
    cs_str_copy(v->tag[v->n], CS_METRIC_NAME, name);
    v->value[v->n] = (struct cs_tfvalue){v->tag[v->n], value};
    v->n++;
}

static enum cs_status flush_split(struct split *split, struct cs_err *err)
{
    if (split->fd < 0 || split->text.len == 0)
        return CS_OK;
    CS_TRY(cs_write_all(split->fd, split->text.data, split->text.len, err));
    cs_buf_reset(&split->text);
    return CS_OK;
}

enum cs_status cs_board_add(struct cs_board *board, const json_t *step, struct cs_err *err)
{
    struct values v = {.n = 0};
    const bool is_eval = cs_metric_is_eval(step);
    const double wall_s = cs_msg_num(step, "wall_ns", 0) / 1e9;
    const int64_t number = cs_msg_int(step, "step", -1);
    struct split *split = &board->split[is_eval];
    cs_metric_read(step, take_value, &v);
    if (v.n == 0 || number < 0)
        return CS_OK;
    if (split->fd < 0)
        CS_TRY(open_split(board, is_eval, wall_s, err));
    cs_tfevents_add(&split->text, wall_s, number, v.value, v.n);
    board->rows++;
    return split->text.len < PIECE ? CS_OK : flush_split(split, err);
}

enum cs_status cs_board_flush(struct cs_board *board, struct cs_err *err)
{
    CS_TRY(flush_split(&board->split[0], err));
    return flush_split(&board->split[1], err);
}

int64_t cs_board_rows(const struct cs_board *board)
{
    return board->rows;
}

void cs_board_close(struct cs_board *board)
{
    for (int i = 0; board != NULL && i < 2; i++) {
        if (board->split[i].fd >= 0)
            close(board->split[i].fd);
        cs_buf_free(&board->split[i].text);
    }
    free(board);
}
