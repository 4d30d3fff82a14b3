/* Fills error values and names status codes. */
#include "core/base/status.h"

#include <errno.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CALLS = 64 };

struct status_row {
    const char *slug, *text;
    int exit_code;
};

static const struct status_row rows[] = {
#define X(code, slug, text, exit) {slug, text, exit},
    CS_STATUS_TABLE(X)
#undef X
};
_Static_assert(CS_ARRAY_LEN(rows) == CS_STATUS_COUNT, "one row per status");

static const struct {
    int error;
    enum cs_status status;
} errno_rows[] = {
    {ENOENT,       CS_NOT_FOUND  },
    {ENOTDIR,      CS_NOT_FOUND  },
    {ENOSPC,       CS_NO_SPACE   },
    {EDQUOT,       CS_NO_SPACE   },
    {EFBIG,        CS_NO_SPACE   },
    {ENOMEM,       CS_NO_MEMORY  },
    {EPIPE,        CS_PEER_GONE  },
    {ECONNRESET,   CS_PEER_GONE  },
    {ECONNREFUSED, CS_UNREACHABLE},
    {EACCES,       CS_REFUSED    },
    {EPERM,        CS_REFUSED    },
    {EROFS,        CS_REFUSED    },
    {EEXIST,       CS_EXISTS     },
    {ETIMEDOUT,    CS_TIMEOUT    },
    {EINTR,        CS_INTERRUPTED},
};

const char *cs_status_slug(enum cs_status status)
{
    return (unsigned)status < CS_STATUS_COUNT ? rows[status].slug : "internal";
}

const char *cs_status_text(enum cs_status status)
{
    return (unsigned)status < CS_STATUS_COUNT ? rows[status].text : "internal error";
}

int cs_status_exit(enum cs_status status)
{
    return (unsigned)status < CS_STATUS_COUNT ? rows[status].exit_code : 1;
}

enum cs_status cs_status_from_slug(const char *slug)
{
    for (unsigned i = 0; i < CS_STATUS_COUNT; i++)
        if (strcmp(rows[i].slug, slug) == 0)
            return (enum cs_status)i;
    return CS_INTERNAL;
}

enum cs_status cs_fail_at(struct cs_err *err, enum cs_status status, const char *file, int line,
                          const char *fmt, ...)
{
    if (err) {
        va_list ap;
        err->status = status;
        err->file = file;
        err->line = line;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
    }
    return status;
}

enum cs_status cs_fail_errno_at(struct cs_err *err, const char *file, int line, const char *fmt,
                                ...)
{
    int error = errno;
    enum cs_status status = CS_IO;
    for (size_t i = 0; i < CS_ARRAY_LEN(errno_rows); i++)
        if (errno_rows[i].error == error)
            status = errno_rows[i].status;
    if (err) {
        va_list ap;
        err->status = status;
        err->file = file;
        err->line = line;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof(err->text) - used, ": %s", strerror(error));
    }
    return status;
}

enum cs_status cs_wrap(struct cs_err *err, enum cs_status status, const char *fmt, ...)
{
    if (err) {
        char inner[sizeof(err->text)];
        va_list ap;
        memcpy(inner, err->text, sizeof(inner));
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, ap);
        va_end(ap);
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof(err->text) - used, ": %.*s",
                 (int)(sizeof(err->text) - used), inner);
    }
    return status;
}

void cs_calls_print(int fd)
{
    void *call[MAX_CALLS];
    backtrace_symbols_fd(call, backtrace(call, MAX_CALLS), fd);
}

/* What was wrong comes last: the last line is what others tell of a process that died. */
_Noreturn void cs_assert_failed(const char *cond, const char *file, int line)
{
    cs_calls_print(STDERR_FILENO);
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, cond);
    abort();
}
