/* Writes log events as text or as JSON lines. */
#include "core/base/system/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/str.h"
#include "core/base/system/clock.h"

#define PAIRS_MAX 32

struct sink {
    int fd; /* -1: callback */
    cs_log_fn *fn;
    void *ctx;
    enum cs_log_format format;
    enum cs_log_level level;
};

struct cs_log {
    char program[64];
    size_t n_sinks;
    struct sink sinks[CS_LOG_SINKS];
    uint32_t rate_events;
    int64_t rate_window_ns;
    cs_log_clock *wall, *monotonic;
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};
_Static_assert(CS_ARRAY_LEN(level_names) == CS_LOG_LEVEL_COUNT, "one name per level");

struct cs_log *cs_log_new(const char *program)
{
    struct cs_log *log = calloc(1, sizeof *log);
    CS_ASSERT(log != NULL);
    cs_str_copy(log->program, sizeof(log->program), program);
    log->rate_events = 100;
    log->rate_window_ns = INT64_C(10000000000);
    log->wall = cs_wall_ns;
    log->monotonic = cs_now_ns;
    return log;
}

void cs_log_free(struct cs_log *log)
{
    free(log);
}

static enum cs_status add_sink(struct cs_log *log, struct sink sink)
{
    if (log->n_sinks == CS_LOG_SINKS)
        return CS_LIMIT;
    log->sinks[log->n_sinks++] = sink;
    return CS_OK;
}

enum cs_status cs_log_to_fd(struct cs_log *log, int fd, enum cs_log_format format,
                            enum cs_log_level level)
{
    return add_sink(log, (struct sink){.fd = fd, .format = format, .level = level});
}

enum cs_status cs_log_to_fn(struct cs_log *log, cs_log_fn *fn, void *ctx, enum cs_log_format format,
                            enum cs_log_level level)
{
    return add_sink(
        log, (struct sink){.fd = -1, .fn = fn, .ctx = ctx, .format = format, .level = level});
}

void cs_log_set_fd(struct cs_log *log, int old_fd, int new_fd)
{
    for (size_t i = 0; i < log->n_sinks; i++)
        if (!log->sinks[i].fn && log->sinks[i].fd == old_fd)
            log->sinks[i].fd = new_fd;
}

void cs_log_set_rate(struct cs_log *log, uint32_t events, int64_t window_ns)
{
    log->rate_events = events;
    log->rate_window_ns = window_ns;
}

void cs_log_set_clock(struct cs_log *log, cs_log_clock *wall, cs_log_clock *monotonic)
{
    log->wall = wall;
    log->monotonic = monotonic;
}

const char *cs_log_level_name(enum cs_log_level level)
{
    return (unsigned)level < CS_LOG_LEVEL_COUNT ? level_names[level] : "?";
}

bool cs_log_level_parse(const char *name, enum cs_log_level *level)
{
    for (unsigned i = 0; i < CS_LOG_LEVEL_COUNT; i++)
        if (strcmp(level_names[i], name) == 0) {
            *level = (enum cs_log_level)i;
            return true;
        }
    return false;
}

struct cs_kv cs_kv_str(const char *key, const char *value)
{
    return (struct cs_kv){.key = key, .kind = CS_KV_STR, .as.str = value ? value : "-"};
}

struct cs_kv cs_kv_i64(const char *key, int64_t value)
{
    return (struct cs_kv){.key = key, .kind = CS_KV_I64, .as.i64 = value};
}

struct cs_kv cs_kv_u64(const char *key, uint64_t value)
{
    return (struct cs_kv){.key = key, .kind = CS_KV_U64, .as.u64 = value};
}

struct cs_kv cs_kv_f64(const char *key, double value)
{
    return (struct cs_kv){.key = key, .kind = CS_KV_F64, .as.f64 = value};
}

struct cs_kv cs_kv_bool(const char *key, bool value)
{
    return (struct cs_kv){.key = key, .kind = CS_KV_BOOL, .as.u64 = value};
}

struct cs_kv cs_kv_hex(const char *key, const void *bytes, size_t n)
{
    return (struct cs_kv){.key = key, .kind = CS_KV_HEX, .n = n, .as.bytes = bytes};
}

struct cs_kv cs_kv_end(void)
{
    return (struct cs_kv){.kind = CS_KV_END};
}

static void add_str(struct cs_buf *out, const char *text, enum cs_log_format format)
{
    size_t n = strlen(text);
    bool is_word = n > 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7F ||
            strchr("\"\\=", text[i]))
            is_word = false;
    if (format == CS_LOG_TEXT && is_word) {
        cs_buf_add(out, text, n);
        return;
    }
    cs_buf_addc(out, '"');
    if (format == CS_LOG_JSON)
        cs_str_escape_json(out, text, n);
    else
        cs_str_escape(out, text, n, true);
    cs_buf_addc(out, '"');
}

static void add_double(struct cs_buf *out, double value, enum cs_log_format format)
{
    const char *quote = format == CS_LOG_JSON ? "\"" : "";
    if (isnan(value))
        cs_buf_addf(out, "%snan%s", quote, quote);
    else if (isinf(value))
        cs_buf_addf(out, "%s%sinf%s", quote, value < 0 ? "-" : "", quote);
    else
        cs_buf_addf(out, "%.9g", value);
}

static void add_hex(struct cs_buf *out, const struct cs_kv *kv, enum cs_log_format format)
{
    const unsigned char *bytes = kv->as.bytes;
    const char *quote = format == CS_LOG_JSON ? "\"" : "";
    cs_buf_adds(out, quote);
    for (size_t i = 0; i < kv->n; i++)
        cs_buf_addf(out, "%02x", (unsigned)bytes[i]);
    cs_buf_adds(out, quote);
}

static void add_value(struct cs_buf *out, const struct cs_kv *kv, enum cs_log_format format)
{
    switch (kv->kind) {
    case CS_KV_END:
        break;
    case CS_KV_STR:
        add_str(out, kv->as.str, format);
        break;
    case CS_KV_I64:
        cs_buf_addf(out, "%" PRId64, kv->as.i64);
        break;
    case CS_KV_U64:
        cs_buf_addf(out, "%" PRIu64, kv->as.u64);
        break;
    case CS_KV_F64:
        add_double(out, kv->as.f64, format);
        break;
    case CS_KV_BOOL:
        cs_buf_adds(out, kv->as.u64 ? "true" : "false");
        break;
    case CS_KV_HEX:
        add_hex(out, kv, format);
        break;
    }
}

static void add_pairs(struct cs_buf *out, const struct cs_kv *pairs, size_t n,
                      enum cs_log_format format)
{
    for (size_t i = 0; i < n; i++) {
        if (format == CS_LOG_JSON) {
            cs_buf_adds(out, ",\"");
            cs_str_escape_json(out, pairs[i].key, strlen(pairs[i].key));
            cs_buf_adds(out, "\":");
        } else {
            cs_buf_addf(out, " %s=", pairs[i].key);
        }
        add_value(out, &pairs[i], format);
    }
}

static void format_line(struct cs_buf *out, const struct cs_log *log, enum cs_log_level level,
                        const char *event, const struct cs_kv *pairs, size_t n,
                        enum cs_log_format format)
{
    char time[CS_ISO_CAP];
    cs_iso_print(time, sizeof(time), log->wall());
    if (format == CS_LOG_JSON) {
        cs_buf_addf(out, "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"", time,
                    cs_log_level_name(level));
        cs_str_escape_json(out, log->program, strlen(log->program));
        cs_buf_adds(out, "\",\"event\":\"");
        cs_str_escape_json(out, event, strlen(event));
        cs_buf_addc(out, '"');
        add_pairs(out, pairs, n, format);
        cs_buf_adds(out, "}\n");
    } else {
        cs_buf_addf(out, "%s %s ", time, cs_log_level_name(level));
        cs_str_escape(out, event, strlen(event), false);
        add_pairs(out, pairs, n, format);
        cs_buf_addc(out, '\n');
    }
}

/* true when the event may go out; *suppressed gets how many before it did not */
static bool pass_rate(const struct cs_log *log, struct cs_log_site *site, uint32_t *suppressed)
{
    *suppressed = 0;
    if (log->rate_events == 0)
        return true;
    int64_t now = log->monotonic();
    int64_t start = atomic_load(&site->window_start_ns);
    if (start == 0 || now - start >= log->rate_window_ns) {
        /* one thread opens the new window; the others count into it */
        if (atomic_compare_exchange_strong(&site->window_start_ns, &start, now ? now : 1)) {
            atomic_store(&site->count, 0);
            *suppressed = atomic_exchange(&site->suppressed, 0);
        }
    }
    if (atomic_fetch_add(&site->count, 1) < log->rate_events)
        return true;
    atomic_fetch_add(&site->suppressed, 1);
    return false;
}

static void write_line(const struct sink *sink, enum cs_log_level level, const struct cs_buf *line)
{
    if (sink->fn) {
        sink->fn(sink->ctx, level, line->data, line->len);
        return;
    }
    ssize_t n = write(sink->fd, line->data, line->len);
    (void)n; /* a full or closed log must not stop the program */
}

void cs_log_at(struct cs_log *log, enum cs_log_level level, struct cs_log_site *site,
               const char *event, ...)
{
    struct cs_kv pairs[PAIRS_MAX + 1];
    size_t n = 0;
    uint32_t suppressed;
    bool is_wanted = false;
    for (size_t i = 0; log && i < log->n_sinks; i++)
        is_wanted = is_wanted || level <= log->sinks[i].level;
    if (!is_wanted || !pass_rate(log, site, &suppressed))
        return;
    va_list ap;
    va_start(ap, event);
    for (;;) {
        struct cs_kv kv = va_arg(ap, struct cs_kv);
        if (kv.kind == CS_KV_END || n == PAIRS_MAX)
            break;
        pairs[n++] = kv;
    }
    va_end(ap);
    if (suppressed)
        pairs[n++] = cs_kv_u64("suppressed", suppressed);
    struct cs_buf line = {0};
    for (size_t i = 0; i < log->n_sinks; i++) {
        if (level > log->sinks[i].level)
            continue;
        cs_buf_reset(&line);
        format_line(&line, log, level, event, pairs, n, log->sinks[i].format);
        write_line(&log->sinks[i], level, &line);
    }
    cs_buf_free(&line);
}
