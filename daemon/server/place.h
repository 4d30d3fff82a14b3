/* Where the daemon is: its directories, its claims on them (net/owner.h), its socket. One daemon per
 * state directory (two would tear each other's jobs apart) and per runtime directory (one would take
 * the other's socket). */
#ifndef CS_SERVER_PLACE_H
#define CS_SERVER_PLACE_H

#include "server/state/state.h"

/* By configuration, else the user's; both are made. */
enum cs_status cs_place_choose(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
/* CS_EXISTS: another daemon has one of them */
enum cs_status cs_place_claim(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_place_listen(struct cs_server *server, cs_listener_peer *on_peer,
                               struct cs_err *err) CS_NODISCARD;
/* Every 250 ms: what somebody has removed of socket, locks and directories is made again; a runtime
 * directory that cannot be, and was not asked for, gives way to another. */
void cs_place_tick(struct cs_server *server);

#endif
