/* Writes records, or keeps them until they can be written. */
#include "runner/files/backlog.h"

#include <unistd.h>

#include "core/base/system/io.h"

static enum cs_status write_whole(struct cs_backlog *log, const void *bytes, size_t n,
                                  struct cs_err *err)
{
    enum cs_status status = cs_write_all(log->fd, bytes, n, err);
    if (status == CS_OK)
        log->bytes += (off_t)n;
    else if (ftruncate(log->fd, log->bytes) == -1)
        status = cs_wrap(err, status, "the file has a torn end");
    return status;
}

enum cs_status cs_backlog_flush(struct cs_backlog *log, struct cs_err *err)
{
    if (log->waiting.len == 0)
        return CS_OK;
    CS_TRY(write_whole(log, log->waiting.data, log->waiting.len, err));
    cs_buf_free(&log->waiting);
    return CS_OK;
}

enum cs_status cs_backlog_add(struct cs_backlog *log, const void *record, size_t n,
                              struct cs_err *err)
{
    enum cs_status status = cs_backlog_flush(log, err);
    if (status == CS_OK)
        status = write_whole(log, record, n, err);
    if (status == CS_OK || log->waiting.len + n > log->most)
        return status;
    cs_buf_add(&log->waiting, record, n);
    return CS_OK;
}

void cs_backlog_free(struct cs_backlog *log)
{
    cs_buf_free(&log->waiting);
}
