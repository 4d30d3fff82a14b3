/* Splits the output of a child into lines, stamps and rotates them. */
#include "runner/files/logfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/base/system/io.h"
#include "core/base/units.h"
#include "runner/files/backlog.h"

enum { MOST_WAITING = 256 << 10 };

struct cs_logfile {
    int fd;
    char path[CS_PATH_CAP];
    struct cs_backlog log;
    size_t rotate_bytes;
    uint64_t n_lost; /* lines since the last one that was kept */
    cs_logfile_line *on_line;
    void *user;
    struct cs_buf line;
    struct cs_buf last;
};

static int open_append(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

enum cs_status cs_logfile_open(const char *path, size_t rotate_bytes, cs_logfile_line *on_line,
                               void *user, struct cs_logfile **out, struct cs_err *err)
{
    struct stat st;
    int fd = open_append(path);
    if (fd == -1 || fstat(fd, &st) == -1)
        return cs_fail_errno(err, "cannot open the log %s", path);
    struct cs_logfile *log = calloc(1, sizeof *log);
    CS_ASSERT(log);
    log->fd = fd;
    snprintf(log->path, sizeof log->path, "%s", path);
    log->log = (struct cs_backlog){.fd = fd, .bytes = st.st_size, .most = MOST_WAITING};
    log->rotate_bytes = rotate_bytes;
    log->on_line = on_line;
    log->user = user;
    *out = log;
    return CS_OK;
}

static void rotate(struct cs_logfile *log)
{
    char from[CS_PATH_CAP + 16], to[CS_PATH_CAP + 16];
    for (int i = CS_LOG_FILES - 1; i >= 1; i--) {
        snprintf(to, sizeof to, "%s.%d", log->path, i);
        if (i == 1)
            snprintf(from, sizeof from, "%s", log->path);
        else
            snprintf(from, sizeof from, "%s.%d", log->path, i - 1);
        rename(from, to);
    }
    int fd = open_append(log->path);
    if (fd == -1)
        return; /* go on in the old file */
    close(log->fd);
    log->fd = fd;
    log->log.fd = fd;
    log->log.bytes = 0;
}

static void end_line(struct cs_logfile *log)
{
    char stamp[CS_ISO_CAP];
    struct cs_buf text = {0};
    cs_iso_print(stamp, sizeof stamp, cs_wall_ns());
    cs_buf_reset(&log->last);
    cs_str_escape(&log->last, cs_buf_str(&log->line), log->line.len, false);
    if (log->n_lost > 0)
        cs_buf_addf(&text, "%s (%llu %s missing here: the disk was full)\n", stamp,
                    (unsigned long long)log->n_lost, CS_NOUN(log->n_lost, "line is", "lines are"));
    const size_t line_at = text.len;
    cs_buf_addf(&text, "%s %s\n", stamp, cs_buf_str(&log->last));
    if ((size_t)log->log.bytes + text.len > log->rotate_bytes && log->log.waiting.len == 0)
        rotate(log);
    /* a full disk loses log lines, never the job */
    if (cs_backlog_add(&log->log, text.data, text.len, NULL) == CS_OK)
        log->n_lost = 0;
    else
        log->n_lost++;
    if (log->on_line)
        log->on_line(log->user, text.data + line_at, text.len - line_at - 1);
    cs_buf_reset(&log->line);
    cs_buf_free(&text);
}

void cs_logfile_write(struct cs_logfile *log, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n')
            cs_buf_addc(&log->line, bytes[i]);
        if (bytes[i] == '\n' || log->line.len >= CS_LOG_LINE_MAX)
            end_line(log);
    }
}

void cs_logfile_close(struct cs_logfile *log)
{
    if (!log)
        return;
    if (log->line.len)
        end_line(log);
    (void)!cs_backlog_flush(&log->log, NULL);
    cs_backlog_free(&log->log);
    close(log->fd);
    cs_buf_free(&log->line);
    cs_buf_free(&log->last);
    free(log);
}

const char *cs_logfile_last(const struct cs_logfile *log)
{
    return cs_buf_str(&log->last);
}
