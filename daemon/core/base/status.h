/* Status codes and the error value with its cause chain.
 *
 * Every fallible function returns enum cs_status, is CS_NODISCARD and takes an optional
 * struct cs_err *err (NULL: the caller wants the code only). The callee fills it once with
 * cs_fail(); callers on the way up add context with cs_wrap(), outermost first, so that the text
 * reads "reading model: opening a/b.safetensors: header is 12 bytes, file says 900".
 * Ownership: cs_err is a plain value, nothing to free. Errors never travel through errno. */
#ifndef CS_BASE_STATUS_H
#define CS_BASE_STATUS_H

#include <stdbool.h>

#define CS_NODISCARD          __attribute__((warn_unused_result))
#define CS_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* code, slug (on the wire and in --json), text for people, exit code of the command line */
#define CS_STATUS_TABLE(X)                                                                         \
    X(OK, "ok", "success", 0)                                                                      \
    X(USAGE, "usage", "wrong usage", 1)                                                            \
    X(INVALID, "invalid", "invalid input", 1)                                                      \
    X(NOT_FOUND, "not_found", "not found", 2)                                                      \
    X(REFUSED, "refused", "refused", 3)                                                            \
    X(EXISTS, "exists", "exists already", 3)                                                       \
    X(STATE, "state", "not possible in this state", 3)                                             \
    X(PLAN, "plan_invalid", "the plan is not valid", 4)                                            \
    X(UNREACHABLE, "unreachable", "cannot be reached", 5)                                          \
    X(JOB_FAILED, "job_failed", "the job failed", 6)                                               \
    X(CORRUPT, "corrupt", "corrupt data", 1)                                                       \
    X(UNSUPPORTED, "unsupported", "not supported", 1)                                              \
    X(LIMIT, "limit", "over a limit", 1)                                                           \
    X(IO, "io", "input/output error", 1)                                                           \
    X(NO_SPACE, "no_space", "no space left", 1)                                                    \
    X(NO_MEMORY, "no_memory", "out of memory", 1)                                                  \
    X(PEER_GONE, "peer_gone", "the peer is gone", 5)                                               \
    X(TIMEOUT, "timeout", "timed out", 5)                                                          \
    X(INTERRUPTED, "interrupted", "interrupted", 1)                                                \
    X(INTERNAL, "internal", "internal error", 1)

enum cs_status {

#define X(code, slug, text, exit) CS_##code,
    CS_STATUS_TABLE(X)
#undef X
        CS_STATUS_COUNT
};

struct cs_err {
    enum cs_status status;
    int line;         /* where cs_fail was called */
    const char *file; /* static storage */
    char text[1000];
};

const char *cs_status_slug(enum cs_status status);
const char *cs_status_text(enum cs_status status);
int cs_status_exit(enum cs_status status);
/* CS_INTERNAL for an unknown slug */
enum cs_status cs_status_from_slug(const char *slug);

/* Fill err (when not NULL) and return status: return cs_fail(err, CS_IO, "cannot open %s",
 * path); */
#define cs_fail(err, status, ...) cs_fail_at((err), (status), __FILE__, __LINE__, __VA_ARGS__)
enum cs_status cs_fail_at(struct cs_err *err, enum cs_status status, const char *file, int line,
                          const char *fmt, ...) CS_PRINTF(5, 6);

/* The same for a failed system call: maps errno (ENOSPC, EFBIG, ENOENT, EPIPE ...) to a status and
 * appends its text. Reads errno at the call. */
#define cs_fail_errno(err, ...) cs_fail_errno_at((err), __FILE__, __LINE__, __VA_ARGS__)
enum cs_status cs_fail_errno_at(struct cs_err *err, const char *file, int line, const char *fmt,
                                ...) CS_PRINTF(4, 5);

/* Put "context: " before the text of err and return its status: return cs_wrap(err, st, "reading
 * %s", p); */
enum cs_status cs_wrap(struct cs_err *err, enum cs_status status, const char *fmt, ...)
    CS_PRINTF(3, 4);

/* The calls that led here, a line each with its file and the offset in it, which addr2line -e FILE takes. Safe in handlers of
 * signals, once it has been called before. */
void cs_calls_print(int fd);

/* Programming errors only; on in all builds, prints the calls and what was wrong, and aborts. */
#define CS_ASSERT(cond) ((cond) ? (void)0 : cs_assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void cs_assert_failed(const char *cond, const char *file, int line);

#define CS_TRY(expr)                                                                               \
    do {                                                                                           \
        enum cs_status cs_try_ = (expr);                                                           \
        if (cs_try_ != CS_OK)                                                                      \
            return cs_try_;                                                                        \
    } while (0)

#define CS_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
