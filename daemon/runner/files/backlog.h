/* Appends whole records to a file. What a full disk does not take waits in memory, in order, and goes
 * before whatever comes later; a record that memory has no room for either is lost, and its caller is
 * told. A record that was written in part is cut off again. */
#ifndef CS_RUNNER_BACKLOG_H
#define CS_RUNNER_BACKLOG_H

#include <sys/types.h>

#include "core/base/buf.h"
#include "core/base/status.h"

struct cs_backlog {
    int fd;      /* borrowed; opened with O_APPEND */
    off_t bytes; /* of whole records in the file */
    size_t most; /* bytes that may wait */
    struct cs_buf waiting;
};

/* CS_OK: it is in the file, or waits. Anything else: it is lost. */
enum cs_status cs_backlog_add(struct cs_backlog *log, const void *record, size_t n,
                              struct cs_err *err) CS_NODISCARD;
/* Tries again. CS_OK: nothing waits any more. */
enum cs_status cs_backlog_flush(struct cs_backlog *log, struct cs_err *err) CS_NODISCARD;
void cs_backlog_free(struct cs_backlog *log);

#endif
