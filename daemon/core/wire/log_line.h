/* A line of a log as it stands in its file: "2026-11-27T23:04:23.123Z warn job.start job=12". What a
 * child prints itself with stamp and level has the runner's stamp before its own. */
#ifndef CS_WIRE_LOG_LINE_H
#define CS_WIRE_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/system/log.h"

struct cs_log_line {
    int64_t wall_ns;         /* 0: it has no stamp */
    enum cs_log_level level; /* information unless it says otherwise */
    const char *text;        /* behind stamp and level, in the line */
    size_t n;
};

struct cs_log_line cs_log_line_parse(const char *line, size_t n);
/* Its text as people read it: `note text="a b"` is a b, `state state=RUN step=1` is state=RUN step=1. */
void cs_log_line_text(const struct cs_log_line *line, struct cs_buf *out);

#endif
