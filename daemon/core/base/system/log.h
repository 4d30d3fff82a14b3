/* Log events: a slug and typed pairs, written as text or as one JSON object per line.
 *
 *   cs_log(log, CS_INFO, "job.start", CS_KV("job", id), CS_KV("name", name));
 *   2026-11-27T23:04:23.123Z info job.start job=12 name="a b"
 *
 * CS_KV takes strings, signed and unsigned integers, doubles and bools; bytes go through cs_kv_hex.
 * Control characters and invalid UTF-8 are escaped, so that one event is one line and cannot steer
 * a terminal. Each call site is limited (default 100 events in 10 s); the first event after a
 * silence carries suppressed=N. A NULL log drops everything. Lines reach a descriptor with one
 * write each, so threads and processes may share it; a callback must bring its own locking. A
 * failed write is dropped: logging never stops a program. */
#ifndef CS_BASE_LOG_H
#define CS_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

enum cs_log_level { CS_ERROR, CS_WARN, CS_INFO, CS_DEBUG, CS_LOG_LEVEL_COUNT };

enum cs_log_format { CS_LOG_TEXT, CS_LOG_JSON };

enum cs_kv_kind { CS_KV_END, CS_KV_STR, CS_KV_I64, CS_KV_U64, CS_KV_F64, CS_KV_BOOL, CS_KV_HEX };

struct cs_kv {
    const char *key;
    enum cs_kv_kind kind;
    size_t n; /* bytes of a hex value */

    union {
        const char *str;
        int64_t i64;
        uint64_t u64;
        double f64;
        const void *bytes;
    } as;
};

struct cs_log_site {
    _Atomic int64_t window_start_ns;
    _Atomic uint32_t count, suppressed;
};

struct cs_log;
typedef int64_t cs_log_clock(void); /* nanoseconds */
typedef void cs_log_fn(void *ctx, enum cs_log_level level, const char *line, size_t n);

struct cs_log *cs_log_new(const char *program); /* the name is copied into JSON lines */
void cs_log_free(struct cs_log *log);           /* accepts NULL; closes no descriptor */
/* events up to and including level; at most CS_LOG_SINKS sinks, more are CS_LIMIT */
#define CS_LOG_SINKS 4
CS_NODISCARD enum cs_status cs_log_to_fd(struct cs_log *log, int fd, enum cs_log_format format,
                                         enum cs_log_level level);
CS_NODISCARD enum cs_status cs_log_to_fn(struct cs_log *log, cs_log_fn *fn, void *ctx,
                                         enum cs_log_format format, enum cs_log_level level);
void cs_log_set_fd(struct cs_log *log, int old_fd, int new_fd); /* after a log file was reopened */
void cs_log_set_rate(struct cs_log *log, uint32_t events, int64_t window_ns); /* 0: no limit */
void cs_log_set_clock(struct cs_log *log, cs_log_clock *wall, cs_log_clock *monotonic);
const char *cs_log_level_name(enum cs_log_level level);
bool cs_log_level_parse(const char *name, enum cs_log_level *level);

struct cs_kv cs_kv_str(const char *key, const char *value); /* NULL prints as "-" */
struct cs_kv cs_kv_i64(const char *key, int64_t value);
struct cs_kv cs_kv_u64(const char *key, uint64_t value);
struct cs_kv cs_kv_f64(const char *key, double value);
struct cs_kv cs_kv_bool(const char *key, bool value);
struct cs_kv cs_kv_hex(const char *key, const void *bytes, size_t n);
struct cs_kv cs_kv_end(void);

/* clang-format off */
#define CS_KV(key, value) _Generic((value), bool: cs_kv_bool, char *: cs_kv_str, const char *: cs_kv_str, \
    float: cs_kv_f64, double: cs_kv_f64, signed char: cs_kv_i64, short: cs_kv_i64, int: cs_kv_i64,        \
    long: cs_kv_i64, long long: cs_kv_i64, unsigned char: cs_kv_u64, unsigned short: cs_kv_u64,           \
    unsigned: cs_kv_u64, unsigned long: cs_kv_u64, unsigned long long: cs_kv_u64)((key), (value))
/* clang-format on */

/* cs_log(log, level, event, CS_KV(..)...) */
#define cs_log(log, level, ...)                                                                    \
    do {                                                                                           \
        static struct cs_log_site cs_log_site_;                                                    \
        cs_log_at((log), (level), &cs_log_site_, __VA_ARGS__, cs_kv_end());                        \
    } while (0)
/* the pairs end with cs_kv_end(); use the macro */
void cs_log_at(struct cs_log *log, enum cs_log_level level, struct cs_log_site *site,
               const char *event, ...);

#endif
