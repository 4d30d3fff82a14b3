/* The daemon's connections to this runner: whatever happens is sent to all of them. A slow reader
 * loses messages and gets a gap marker; the job never waits for it. */
#ifndef CS_RUNNER_SUBSCRIBERS_H
#define CS_RUNNER_SUBSCRIBERS_H

#include "runner/state/state.h"

struct cs_subscriber {
    struct cs_runner *runner;
    struct cs_conn *conn;
    int64_t dropped; /* messages since the last one it was sent */
    struct cs_subscriber *next;
};

/* Takes fd. calls get the subscriber. NULL: there are too many, fd is closed. */
struct cs_subscriber *cs_subscriber_add(struct cs_runner *r, int fd,
                                        const struct cs_conn_calls *calls);
void cs_subscriber_drop(struct cs_subscriber *subscriber);
void cs_subscriber_send(struct cs_subscriber *to, json_t *msg);   /* takes the reference */
void cs_subscribers_send(struct cs_runner *r, const json_t *msg); /* borrowed */
void cs_subscribers_close(struct cs_runner *r); /* what is queued gets half a second to leave */

#endif
