/* The socket to one runner: RUNTIME/job-ID.sock. Adoption after a restart of the daemon and first
 * contact are the same thing. */
#ifndef CS_SERVER_RUNNER_LINK_H
#define CS_SERVER_RUNNER_LINK_H

#include "server/job.h"

/* connect now; CS_UNREACHABLE when nobody listens, CS_IO when that is not known */
enum cs_status cs_runner_link_open(struct cs_job *job, struct cs_runner_link **out,
                                   struct cs_err *err) CS_NODISCARD;
void cs_runner_link_close(struct cs_runner_link *link); /* accepts NULL */
/* deliver what has arrived already, before the connection of a runner that ended is closed */
void cs_runner_link_drain(struct cs_runner_link *link);                 /* accepts NULL */
void cs_runner_link_send(struct cs_runner_link *link, json_t *message); /* takes the reference */
/* fork and exec cornstarch-runner JOBDIR in a session of its own; it outlives the daemon. lock_fd:
 * holds the lock on JOBDIR, which goes to the runner (the caller closes its own); -1: none. */
enum cs_status cs_runner_start(struct cs_job *job, int lock_fd, struct cs_err *err) CS_NODISCARD;

#endif
