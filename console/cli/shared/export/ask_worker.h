/* Work that a process of its own does for a command. */
#ifndef CS_CONSOLE_CLI_SHARED_EXPORT_ASK_WORKER_H
#define CS_CONSOLE_CLI_SHARED_EXPORT_ASK_WORKER_H

#include <jansson.h>

#include "core/base/status.h"

/* Starts cornstarch-worker with `task` ("--profile"), which reads the request and answers with a JSON
 * document: *out, a new reference. Its errors go to standard error; then CS_INTERNAL. */
enum cs_status cs_ask_worker(const char *task, const json_t *request, json_t **out,
                             struct cs_err *err) CS_NODISCARD;

#endif
