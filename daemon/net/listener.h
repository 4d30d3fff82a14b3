/* A socket in the file system on which a process is reached for as long as it lives: when its file is
 * removed (a clean-up of /tmp, a session's directory that goes at logout), it listens there anew.
 * What is connected already stays so. */
#ifndef CS_NET_LISTENER_H
#define CS_NET_LISTENER_H

#include <event2/event.h>
#include <stdbool.h>

#include "core/base/status.h"

struct cs_listener;

/* fd: connected, non-blocking, close-on-exec, the callee's. -1: no descriptor is left (errno says
 * more); nothing is accepted until the next cs_listener_tick. */
typedef void cs_listener_peer(void *user, int fd);

/* A file at path is replaced: make sure before that nobody owns it. */
enum cs_status cs_listener_open(struct event_base *base, const char *path,
                                cs_listener_peer *on_peer, void *user, struct cs_listener **out,
                                struct cs_err *err) CS_NODISCARD;
const char *cs_listener_path(const struct cs_listener *listener);
/* Is the file at its path still its socket? */
bool cs_listener_is_there(const struct cs_listener *listener);
/* Listens at path from now on, also when that is where it was. On failure all stays as it is. */
enum cs_status cs_listener_move(struct cs_listener *listener, const char *path,
                                struct cs_err *err) CS_NODISCARD;
void cs_listener_tick(struct cs_listener *listener); /* now and then: accepts again */
void cs_listener_close(
    struct cs_listener *listener); /* accepts NULL; removes the file if it is ours */

#endif
