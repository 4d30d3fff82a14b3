/* Whether jobs computed on devices while a command measured on them: its figures would be theirs, too. */
#ifndef CS_CONSOLE_CLI_SHARED_UNDISTURBED_H
#define CS_CONSOLE_CLI_SHARED_UNDISTURBED_H

#include <jansson.h>

#include "console/cli/command/command.h"
#include "core/base/buf.h"

struct cs_undisturbed {
    const char *device; /* kind of devices that are measured on: "cpu", "cuda" */
    int64_t begin_ns;   /* wall time */
    json_t *before;     /* the daemon's jobs (jobs.list), NULL: none answered */
};

/* Before anything is measured, of the daemon that runs; none does, or it does not answer soon: no job is known.
 * CS_REFUSED: jobs compute on CPU ranks, which share the cores. GPUs that jobs hold are for free_gpus.h.
 * cs_undisturbed_end either way. */
enum cs_status cs_undisturbed_begin(const struct cs_cmd *cmd, const char *device,
                                    struct cs_undisturbed *out, struct cs_err *err) CS_NODISCARD;
/* What was measured is there. CS_REFUSED: jobs started meanwhile, which it names. */
enum cs_status cs_undisturbed_check(const struct cs_cmd *cmd, const struct cs_undisturbed *watch,
                                    struct cs_err *err) CS_NODISCARD;
void cs_undisturbed_end(struct cs_undisturbed *watch);

/* Names of the jobs that computed on such devices, "job 3, job 5", into out; returns how many. before (NULL: none was
 * known) and after: lists of jobs; those that were at work before are not meant. */
int32_t cs_undisturbed_by(const json_t *before, const json_t *after, const char *device,
                          int64_t begin_ns, struct cs_buf *out);

#endif
