/* job.log: a window of a log of a job, cut at lines. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "server/request_call.h"

enum { MAX_LOG_BYTES = 1 << 20 }; /* of one answer; escaped at most six times as much */

static void log_name(int64_t rank, char *out, size_t cap)
{
    if (rank == -1)
        snprintf(out, cap, "feeder.log");
    else if (rank == -2)
        snprintf(out, cap, "runner.log");
    else
        snprintf(out, cap, "%lld.log", (long long)rank);
}

/* offset of the last `lines` lines of bytes[0, n) */
static size_t tail_of(const char *bytes, size_t n, int64_t lines)
{
    size_t at = n;
    if (at && bytes[at - 1] == '\n')
        at--;
    while (at > 0 && lines > 0)
        if (bytes[--at] == '\n' && --lines == 0)
            return at + 1;
    return 0;
}

/* Whole lines of bytes[at, n) into an array; returns where they end. A line that fills the whole
 * window is given out in pieces: a reader must get on. */
static size_t take_log_lines(const char *bytes, size_t at, size_t n, int64_t limit, json_t *lines)
{
    if (n == MAX_LOG_BYTES && !memchr(bytes + at, '\n', n - at)) {
        json_array_append_new(lines, cs_json_bytes(bytes + at, n - at));
        return n;
    }
    while (at < n && (int64_t)json_array_size(lines) < limit) {
        const char *newline = memchr(bytes + at, '\n', n - at);
        if (!newline)
            break;
        json_array_append_new(lines, cs_json_bytes(bytes + at, (size_t)(newline - bytes) - at));
        at = (size_t)(newline - bytes) + 1;
    }
    return at;
}

/* *offset -1: the last window of the file, whose first line may be a piece of one */
static enum cs_status read_window(const char *path, int64_t *offset, char *bytes, size_t *n,
                                  struct cs_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd == -1)
        return cs_fail_errno(err, "there is no log %s", path);
    off_t end = lseek(fd, 0, SEEK_END);
    if (*offset < 0)
        *offset = end > MAX_LOG_BYTES ? end - MAX_LOG_BYTES : 0;
    ssize_t got = pread(fd, bytes, MAX_LOG_BYTES, *offset);
    enum cs_status status = got == -1 ? cs_fail_errno(err, "reading %s", path) : CS_OK;
    close(fd);
    *n = got > 0 ? (size_t)got : 0;
    return status;
}

enum cs_status cs_request_log(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    char path[CS_PATH_CAP], name[32];
    size_t n = 0, at = 0;
    CS_TRY(cs_call_job(c, &job, err));
    int64_t offset = cs_msg_int(c->request, "offset", -1);
    int64_t limit = cs_msg_int(c->request, "limit", 100);
    bool is_tail = offset < 0;
    log_name(cs_msg_int(c->request, "rank", 0), name, sizeof(name));
    CS_TRY(cs_path(path, err, "%s/logs/%s", job->row.dir, name));
    char *bytes = malloc(MAX_LOG_BYTES);
    if (!bytes)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a log");
    enum cs_status status = read_window(path, &offset, bytes, &n, err);
    if (status == CS_OK) {
        json_t *lines = json_array();
        if (is_tail)
            at = tail_of(bytes, n, limit);
        if (is_tail && at == 0 && offset > 0 && memchr(bytes, '\n', n))
            at = (size_t)((char *)memchr(bytes, '\n', n) - bytes) + 1;
        at = take_log_lines(bytes, at, n, limit, lines);
        cs_msg_set(c->reply, "lines", lines);
        cs_msg_set_int(c->reply, "next", offset + (int64_t)at);
    }
    free(bytes);
    return status;
}
