/* Reads and writes whole files, makes directories. */
#include "core/base/system/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum cs_status cs_path(char out[CS_PATH_CAP], struct cs_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, CS_PATH_CAP, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= CS_PATH_CAP)
        return cs_fail(err, CS_LIMIT, "path is longer than %d bytes: %.100s...", CS_PATH_CAP - 1,
                       out);
    return CS_OK;
}

enum cs_status cs_write_all(int fd, const void *bytes, size_t n, struct cs_err *err)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t wrote = write(fd, at, n);
        if (wrote == -1 && errno == EINTR)
            continue;
        if (wrote == -1)
            return cs_fail_errno(err, "writing %zu bytes", n);
        at += wrote;
        n -= (size_t)wrote;
    }
    return CS_OK;
}

static int open_retry(const char *path, int flags, mode_t mode)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd == -1 && errno == EINTR);
    return fd;
}

static const char *kind_of(mode_t mode)
{
    static const struct {
        mode_t type;
        const char *word;
    } kinds[] = {
        {S_IFDIR,  "a directory"       },
        {S_IFIFO,  "a FIFO"            },
        {S_IFSOCK, "a socket"          },
        {S_IFCHR,  "a character device"},
        {S_IFBLK,  "a block device"    },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++)
        if ((mode & S_IFMT) == kinds[i].type)
            return kinds[i].word;
    return "something else";
}

enum cs_status cs_open_regular(const char *path, int *fd, uint64_t *bytes, struct cs_err *err)
{
    struct stat sb;
    *fd = open_retry(path, O_RDONLY | O_NONBLOCK, 0);
    if (*fd == -1 && errno == ENXIO)
        return cs_fail(err, CS_INVALID, "%s is a socket or a device, not a regular file", path);
    if (*fd == -1)
        return cs_fail_errno(err, "opening %s", path);
    enum cs_status status = CS_OK;
    if (fstat(*fd, &sb) == -1)
        status = cs_fail_errno(err, "looking at %s", path);
    else if (!S_ISREG(sb.st_mode))
        status =
            cs_fail(err, CS_INVALID, "%s is %s, not a regular file", path, kind_of(sb.st_mode));
    if (status == CS_OK && bytes)
        *bytes = (uint64_t)sb.st_size;
    if (status != CS_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

enum cs_status cs_read_at(int fd, const char *path, void *out, size_t n, uint64_t at, size_t *got,
                          struct cs_err *err)
{
    char *to = out;
    *got = 0;
    while (*got < n) {
        ssize_t r = pread(fd, to + *got, n - *got, (off_t)(at + *got));
        if (r == -1 && errno == EINTR)
            continue;
        if (r == -1)
            return cs_fail_errno(err, "reading %s", path);
        if (r == 0)
            break;
        *got += (size_t)r;
    }
    return CS_OK;
}

/* reads to the end, one byte past the limit at most: size from stat is wrong for /proc */
static enum cs_status read_rest(int fd, const char *path, size_t max_bytes, struct cs_buf *out,
                                struct cs_err *err)
{
    size_t start = out->len;
    for (;;) {
        size_t left = max_bytes - (out->len - start);
        size_t want = left < 65536 ? left + 1 : 65536;
        char *to = cs_buf_try_room(out, want);
        if (to == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory to hold %s, of which %zu bytes were read",
                           path, out->len - start);
        ssize_t got = read(fd, to, want);
        if (got == -1 && errno == EINTR)
            continue;
        if (got == -1)
            return cs_fail_errno(err, "reading %s", path);
        if ((size_t)got > left)
            return cs_fail(err, CS_LIMIT, "%s is larger than %zu bytes", path, max_bytes);
        out->len += (size_t)got;
        out->data[out->len] = '\0';
        if (got == 0)
            return CS_OK;
    }
}

enum cs_status cs_read_file(const char *path, size_t max_bytes, struct cs_buf *out,
                            struct cs_err *err)
{
    size_t start = out->len;
    int fd;
    CS_TRY(cs_open_regular(path, &fd, NULL, err));
    enum cs_status status = read_rest(fd, path, max_bytes, out, err);
    close(fd);
    if (status != CS_OK && out->data) {
        out->len = start;
        out->data[start] = '\0';
    }
    return status;
}

enum cs_status cs_fsync_dir(const char *path, struct cs_err *err)
{
    int fd = open_retry(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -1)
        return cs_fail_errno(err, "opening directory %s", path);
    enum cs_status status = CS_OK;
    /* some file systems cannot sync a directory and say EINVAL */
    if (fsync(fd) == -1 && errno != EINVAL)
        status = cs_fail_errno(err, "syncing directory %s", path);
    close(fd);
    return status;
}

static enum cs_status make_one(const char *path, mode_t mode, struct cs_err *err)
{
    struct stat sb;
    if (mkdir(path, mode) == 0)
        return CS_OK;
    int saved = errno;
    if (stat(path, &sb) == 0)
        return S_ISDIR(sb.st_mode)
                   ? CS_OK
                   : cs_fail(err, CS_EXISTS, "%s exists and is not a directory", path);
    errno = saved;
    return cs_fail_errno(err, "creating directory %s", path);
}

static enum cs_status make_all(const char *path, mode_t mode, struct cs_err *err)
{
    char part[CS_PATH_CAP];
    if (path[0] == '\0')
        return cs_fail(err, CS_INVALID, "empty directory name");
    CS_TRY(cs_path(part, err, "%s", path));
    for (char *at = part + 1; *at; at++)
        if (*at == '/' && at[-1] != '/') {
            *at = '\0';
            CS_TRY(make_one(part, mode, err));
            *at = '/';
        }
    return make_one(part, mode, err);
}

enum cs_status cs_mkdirs(const char *path, struct cs_err *err)
{
    return make_all(path, 0700, err);
}

enum cs_status cs_mkdirs_shared(const char *path, struct cs_err *err)
{
    return make_all(path, 0777, err);
}
