/* The socket to one runner: RUNTIME/job-ID.sock. Adoption after a restart of the daemon and first
 * contact are the same thing. */
#ifndef CS_SERVER_RUNNER_LINK_H
#define CS_SERVER_RUNNER_LINK_H

#include <event2/event.h>
#include <jansson.h>

#include "core/base/status.h"

struct cs_runner_link;

struct cs_runner_link_calls {
    void (*on_message)(void *user, const json_t *message);
    void (*on_bad)(void *user, const struct cs_err *err); /* a line that was dropped */
    void (*on_lost)(void *user);                          /* the link is gone */
};

/* connect now; CS_UNREACHABLE when nobody listens, CS_IO when that is not known */
enum cs_status cs_runner_link_open(struct event_base *base, const char *path,
                                   const struct cs_runner_link_calls *calls, void *user,
                                   struct cs_runner_link **out, struct cs_err *err) CS_NODISCARD;
void cs_runner_link_close(struct cs_runner_link *link); /* accepts NULL */
/* deliver what has arrived already, before the connection of a runner that ended is closed */
void cs_runner_link_drain(struct cs_runner_link *link);                 /* accepts NULL */
void cs_runner_link_send(struct cs_runner_link *link, json_t *message); /* takes the reference */

#endif
