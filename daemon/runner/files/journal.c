/* Appends rows to the journal of a job. */
#include "runner/files/journal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/wire/wire.h"
#include "runner/files/backlog.h"

enum { MOST_WAITING = 4 << 20 };

struct cs_journal {
    int fd;
    struct cs_backlog log;
    bool is_dirty;
};

/* Size up to and including the last newline. */
static off_t whole_bytes(int fd, off_t size)
{
    char block[4096];
    while (size > 0) {
        size_t n = size < (off_t)sizeof block ? (size_t)size : sizeof block;
        if (pread(fd, block, n, size - (off_t)n) != (ssize_t)n)
            return size;
        const char *newline = memrchr(block, '\n', n);
        if (newline)
            return size - (off_t)n + (newline - block) + 1;
        size -= (off_t)n;
    }
    return 0;
}

enum cs_status cs_journal_open(const char *path, struct cs_journal **out, struct cs_err *err)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd == -1 || fstat(fd, &st) == -1)
        return cs_fail_errno(err, "cannot open the journal %s", path);
    off_t whole = whole_bytes(fd, st.st_size);
    if (whole != st.st_size && ftruncate(fd, whole) == -1) {
        enum cs_status status = cs_fail_errno(err, "cannot cut the torn end of %s", path);
        close(fd);
        return status;
    }
    struct cs_journal *journal = calloc(1, sizeof *journal);
    CS_ASSERT(journal);
    journal->fd = fd;
    journal->log = (struct cs_backlog){.fd = fd, .bytes = whole, .most = MOST_WAITING};
    *out = journal;
    return CS_OK;
}

bool cs_journal_is_there(const struct cs_journal *journal, const char *path)
{
    struct stat named, ours;
    return stat(path, &named) == 0 && fstat(journal->fd, &ours) == 0 &&
           named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
}

enum cs_status cs_journal_sync(struct cs_journal *journal, struct cs_err *err)
{
    CS_TRY(cs_backlog_flush(&journal->log, err));
    if (journal->is_dirty && fdatasync(journal->fd) == 0)
        journal->is_dirty = false;
    return CS_OK;
}

void cs_journal_close(struct cs_journal *journal)
{
    if (!journal)
        return;
    (void)!cs_journal_sync(journal, NULL);
    cs_backlog_free(&journal->log);
    close(journal->fd);
    free(journal);
}

enum cs_status cs_journal_add(struct cs_journal *journal, const json_t *row, struct cs_err *err)
{
    struct cs_buf line = {0};
    enum cs_status status = cs_msg_encode(row, &line, err);
    if (status == CS_OK)
        status = cs_backlog_add(&journal->log, line.data, line.len, err);
    journal->is_dirty = true;
    cs_buf_free(&line);
    return status;
}

bool cs_journal_waits(const struct cs_journal *journal)
{
    return journal->log.waiting.len > 0;
}
