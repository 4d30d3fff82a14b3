/* Writes the trace file of a job and keeps it short. */
#include "runner/files/tracelog.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/data/slot.h"
#include "runner/files/backlog.h"

static const size_t trace_max_bytes = (size_t)1 << 30;

enum { MOST_WAITING = 4 << 20 };

struct cs_tracelog {
    int fd, keep;
    struct cs_backlog log;
    int n_steps;                             /* STEP records in the file */
    bool has_program[CS_STEP_MAX_SLOTS + 1]; /* by number of slots */
    bool has_predicted;
    char path[CS_PATH_CAP];
};

/* Walk a file's records. Counts steps and programs of `log`; copies to `to` (may be NULL) the
 * programs and the steps after the first `skip`. Returns the size of the whole records, 0: not this
 * job's. */
static size_t walk(struct cs_tracelog *log, const struct cs_buf *file, const char *plan_hash,
                   int skip, struct cs_buf *to)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_trace_head head;
    struct cs_trace_record record;
    size_t at = 0, whole = 0;
    log->n_steps = 0;
    log->has_predicted = false;
    memset(log->has_program, 0, sizeof log->has_program);
    if (cs_trace_head_decode(file->data, file->len, arena, &head, &at, NULL) == CS_OK &&
        (!plan_hash || strcmp(plan_hash, head.plan_hash) == 0)) {
        whole = at;
        if (to)
            cs_buf_add(to, file->data, at);
        while (cs_trace_record_decode(file->data, file->len, &at, arena, &record, NULL) == CS_OK) {
            bool is_kept = record.type != CS_TRACE_STEP || log->n_steps++ >= skip;
            if (record.type == CS_TRACE_PROGRAM && record.n_slots >= 0 &&
                record.n_slots <= CS_STEP_MAX_SLOTS)
                log->has_program[record.n_slots] = true;
            log->has_predicted = log->has_predicted || record.type == CS_TRACE_PREDICTED;
            if (to && is_kept)
                cs_buf_add(to, file->data + whole, at - whole);
            whole = at;
        }
    }
    cs_arena_free(arena);
    return whole;
}

static enum cs_status reopen(struct cs_tracelog *log, struct cs_err *err)
{
    if (log->fd != -1)
        close(log->fd);
    log->fd = open(log->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    log->log.fd = log->fd;
    return log->fd == -1 ? cs_fail_errno(err, "cannot open the trace %s", log->path) : CS_OK;
}

static enum cs_status start_file(struct cs_tracelog *log, const struct cs_trace_head *head,
                                 struct cs_err *err)
{
    struct cs_buf bytes = {0};
    cs_trace_head_encode(head, &bytes);
    enum cs_status status = cs_write_file_atomic(log->path, bytes.data, bytes.len, 0600, err);
    log->log.bytes = (off_t)bytes.len;
    log->n_steps = 0;
    memset(log->has_program, 0, sizeof log->has_program);
    cs_buf_free(&bytes);
    return status;
}

enum cs_status cs_tracelog_open(const char *path, const struct cs_trace_head *head, int keep,
                                struct cs_tracelog **out, struct cs_err *err)
{
    struct cs_buf file = {0};
    struct cs_tracelog *log = calloc(1, sizeof *log);
    CS_ASSERT(log);
    log->fd = -1;
    log->log.most = MOST_WAITING;
    log->keep = keep;
    snprintf(log->path, sizeof log->path, "%s", path);
    if (cs_read_file(path, trace_max_bytes, &file, NULL) == CS_OK)
        log->log.bytes = (off_t)walk(log, &file, head->plan_hash, 0, NULL);
    enum cs_status status = CS_OK;
    if (log->log.bytes == 0)
        status = start_file(log, head, err);
    else if ((size_t)log->log.bytes < file.len && truncate(path, log->log.bytes) == -1)
        status = cs_fail_errno(err, "cannot cut the torn end of %s", path);
    if (status == CS_OK)
        status = reopen(log, err);
    cs_buf_free(&file);
    if (status != CS_OK) {
        cs_tracelog_close(log);
        return status;
    }
    *out = log;
    return CS_OK;
}

void cs_tracelog_close(struct cs_tracelog *log)
{
    if (!log)
        return;
    if (log->fd != -1)
        (void)!cs_backlog_flush(&log->log, NULL);
    if (log->fd != -1)
        close(log->fd);
    cs_backlog_free(&log->log);
    free(log);
}

/* Rewrite with the newest `keep` steps. */
static enum cs_status shrink(struct cs_tracelog *log, struct cs_err *err)
{
    struct cs_buf file = {0}, kept = {0};
    enum cs_status status = cs_read_file(log->path, trace_max_bytes, &file, err);
    int skip = log->n_steps - log->keep;
    if (status == CS_OK && walk(log, &file, NULL, skip, &kept) > 0) {
        status = cs_write_file_atomic(log->path, kept.data, kept.len, 0600, err);
        if (status == CS_OK) {
            log->log.bytes = (off_t)kept.len;
            log->n_steps = log->keep;
            status = reopen(log, err);
        }
    }
    cs_buf_free(&file);
    cs_buf_free(&kept);
    return status;
}

/* The program, when it is new to the file, and the record. */
static enum cs_status append(struct cs_tracelog *log, const struct cs_trace_record *record,
                             const struct cs_span_keys *keys, struct cs_err *err)
{
    struct cs_buf bytes = {0};
    bool is_new = record->n_slots >= 0 && record->n_slots <= CS_STEP_MAX_SLOTS &&
                  !log->has_program[record->n_slots];
    if (is_new) {
        const struct cs_trace_record program = {.type = CS_TRACE_PROGRAM,
                                                .n_slots = record->n_slots,
                                                .n_ranks = record->n_ranks,
                                                .keys = keys};
        cs_trace_record_encode(&program, &bytes);
    }
    cs_trace_record_encode(record, &bytes);
    const enum cs_status status = cs_backlog_add(&log->log, bytes.data, bytes.len, err);
    if (status == CS_OK && is_new)
        log->has_program[record->n_slots] = true;
    cs_buf_free(&bytes);
    return status;
}

enum cs_status cs_tracelog_predict(struct cs_tracelog *log, const struct cs_trace_record *step,
                                   const struct cs_span_keys *keys, struct cs_err *err)
{
    return log->has_predicted ? CS_OK : cs_tracelog_predict_again(log, step, keys, err);
}

enum cs_status cs_tracelog_predict_again(struct cs_tracelog *log,
                                         const struct cs_trace_record *step,
                                         const struct cs_span_keys *keys, struct cs_err *err)
{
    CS_TRY(append(log, step, keys, err));
    log->has_predicted = true;
    return CS_OK;
}

enum cs_status cs_tracelog_add(struct cs_tracelog *log, const struct cs_trace_record *step,
                               const struct cs_span_keys *keys, struct cs_err *err)
{
    CS_TRY(append(log, step, keys, err));
    log->n_steps++;
    /* what waits is not in the file that is shortened */
    return log->n_steps >= 2 * log->keep && log->log.waiting.len == 0 ? shrink(log, err) : CS_OK;
}
