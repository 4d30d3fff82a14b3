/* One connection that carries JSON objects, one per line, on the event loop or without one: the
 * daemon's with consoles and runners, the runner's with its children, the console's with its daemon.
 *
 * Out: what is sent is queued and leaves as fast as the peer reads. From `high` queued bytes on the
 * connection is full: nothing more is read from the peer (who asks must take the answers) until less
 * than `low` is queued; cs_conn_is_full tells senders that may drop messages.
 * In: bytes are cut into lines, a line over the limit is never kept. Whole lines that are no message
 * are dropped and told.
 *
 * A connection ends once, with a reason: the peer closed it, the socket failed, a line was too long,
 * or cs_conn_finish was asked for. on_closed is called from the event loop only, after every message
 * that still arrived. The owner may free the connection at any time, also inside a call-back. */
#ifndef CS_NET_CONN_H
#define CS_NET_CONN_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

struct cs_conn;

struct cs_conn_calls {
    void (*on_message)(void *user, const json_t *msg); /* borrowed */
    /* A line was dropped. CS_LIMIT: it was too long, and the connection ends after this call, or,
     * when cs_conn_finish is called in it, once what is queued has left. May be NULL. */
    void (*on_bad)(void *user, const struct cs_err *err);
    void (*on_room)(void *user); /* bytes have left and less than `low` is queued. May be NULL. */
    /* why->status: CS_OK after cs_conn_finish, CS_PEER_GONE at the end of the stream, CS_LIMIT a line
     * was too long, else what failed */
    void (*on_closed)(void *user, const struct cs_err *why);
};

struct cs_conn_options {
    struct event_base *base; /* NULL: cs_conn_wait does all the work */
    size_t line_max;         /* bytes of a line from the peer, 0: CS_LINE_MAX */
    size_t low, high;        /* bytes; high 0: the queue has no limit */
    bool checks_schema; /* what breaks the schema is told to on_bad; else that is the owner's */
};

struct cs_conn_stats {
    uint64_t lines_in, bytes_in, bad_lines, lines_out, bytes_out;
    size_t most_queued; /* bytes */
    int64_t taken_ns;   /* when the peer last took bytes; when the first were queued for it */
};

/* Takes fd, a stream socket, which becomes non-blocking. options are copied, calls are not. */
struct cs_conn *cs_conn_new(int fd, const struct cs_conn_options *options,
                            const struct cs_conn_calls *calls, void *user);
void cs_conn_free(struct cs_conn *conn); /* accepts NULL; closes the socket */

/* CS_LIMIT: msg is over CS_LINE_MAX, nothing was queued. To a connection that has ended or is
 * finishing nothing is sent, without an error: on_closed tells. */
enum cs_status cs_conn_send(struct cs_conn *conn, const json_t *msg,
                            struct cs_err *err) CS_NODISCARD;
void cs_conn_send_line(struct cs_conn *conn, const void *line, size_t n); /* with its newline */
/* as much as the socket takes now; CS_PEER_GONE: it takes nothing any more. The room that this makes
 * is told by the event loop. */
enum cs_status cs_conn_flush(struct cs_conn *conn, struct cs_err *err) CS_NODISCARD;
void cs_conn_finish(
    struct cs_conn *conn); /* read no more; close when all that is queued has left */
size_t cs_conn_queued(const struct cs_conn *conn);
bool cs_conn_is_full(const struct cs_conn *conn);

void cs_conn_line_max(struct cs_conn *conn, size_t bytes); /* 0: CS_LINE_MAX */
/* While held, messages stay where they are; released, the event loop delivers them. */
void cs_conn_hold(struct cs_conn *conn, bool is_held);
/* Deliver everything that has arrived already, now. */
void cs_conn_drain(struct cs_conn *conn);
/* Deliver what has arrived; when there is nothing, wait for the socket once. CS_TIMEOUT after
 * timeout_ms; the reason when the connection has ended; CS_STATE when it is held. */
enum cs_status cs_conn_wait(struct cs_conn *conn, int timeout_ms, struct cs_err *err) CS_NODISCARD;

const struct cs_conn_stats *cs_conn_stats(const struct cs_conn *conn);

#endif
