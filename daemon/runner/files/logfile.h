/* The log of one child: its output split into lines, stamped with wall time, rotated by size
 * (FILE, FILE.1, FILE.2). Renaming only: a reader that follows keeps its file. */
#ifndef CS_RUNNER_LOGFILE_H
#define CS_RUNNER_LOGFILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

enum { CS_LOG_LINE_MAX = 8000, CS_LOG_FILES = 3 };

struct cs_logfile;
typedef void cs_logfile_line(void *user, const char *line, size_t n); /* as it is in the file */

enum cs_status cs_logfile_open(const char *path, size_t rotate_bytes, cs_logfile_line *on_line,
                               void *user, struct cs_logfile **out,
                               struct cs_err *err) CS_NODISCARD;
void cs_logfile_close(struct cs_logfile *log); /* writes an unfinished line; accepts NULL */
void cs_logfile_write(struct cs_logfile *log, const char *bytes, size_t n);
const char *cs_logfile_last(const struct cs_logfile *log); /* last whole line, escaped; "" none */

#endif
