/* A stream socket that carries one JSON object per line, on the event loop: children's control
 * sockets and the daemon's connections. Reads are checked against the schema before they arrive
 * here.
 *
 * The owner frees the connection in on_closed or later, never in on_message. */
#ifndef CS_RUNNER_CONN_H
#define CS_RUNNER_CONN_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

struct cs_conn;

struct cs_conn_calls {
    void (*on_message)(void *user, const json_t *msg);
    void (*on_bad)(void *user, const struct cs_err *err); /* a line that was dropped */
    void (*on_closed)(void *user); /* end of stream, error or an endless line */
};

/* takes fd, which becomes non-blocking */
struct cs_conn *cs_conn_new(struct event_base *base, int fd, const struct cs_conn_calls *calls,
                            void *user);
void cs_conn_free(struct cs_conn *conn); /* accepts NULL; closes */
void cs_conn_send(struct cs_conn *conn, const json_t *msg);
void cs_conn_send_bytes(struct cs_conn *conn, const void *bytes, size_t n);
size_t cs_conn_queued(const struct cs_conn *conn);
void cs_conn_drain(struct cs_conn *conn); /* handle everything that has arrived already */

#endif
