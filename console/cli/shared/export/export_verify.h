/* What was exported, read back: every tensor of its family is there, and what it computes is what the job
 * computes. */
#ifndef CS_CONSOLE_CLI_SHARED_EXPORT_EXPORT_VERIFY_H
#define CS_CONSOLE_CLI_SHARED_EXPORT_EXPORT_VERIFY_H

#include <jansson.h>

#include "core/base/buf.h"
#include "core/base/status.h"

struct cs_exported {
    const json_t *job;            /* its document */
    const char *checkpoint, *dir; /* what was exported, and where to */
    const char *whole;            /* folder of the whole model, NULL: there is none */
    const char *dtype;            /* "float32", "bfloat16" */
};

/* report: lines for people; *rows (a new list): what was compared, as in cornstarch.result/1. CS_CORRUPT: a
 * directory is not what its family has, or computes something else. */
enum cs_status cs_cmd_verify_export(const struct cs_exported *exported, struct cs_buf *report,
                                    json_t **rows, struct cs_err *err) CS_NODISCARD;

#endif
