/* The daemon as a whole: its start, its loop, its end. */
#ifndef CS_SERVER_SERVER_H
#define CS_SERVER_SERVER_H

#include "server/state/state.h"

enum cs_status cs_server_open(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_server_run(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
void cs_server_close(struct cs_server *server);
/* leave the loop; runners go on */
void cs_server_stop(struct cs_server *server);

#endif
