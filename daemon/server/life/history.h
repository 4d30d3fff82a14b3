/* The history of a daemon, and what the job directories know better. The directories are the truth:
 * history.db is an index over them. When it is missing, empty, damaged or behind, what it lacks is
 * taken from them; a damaged one is kept beside it. */
#ifndef CS_SERVER_HISTORY_H
#define CS_SERVER_HISTORY_H

#include "server/state/state.h"

/* server->db; --rebuild sets the old one aside and begins with an empty one */
enum cs_status cs_history_open(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
/* server->jobs by their numbers: those of the database, each as its directory says, then those that
 * only have a directory. Whether their runners live is not looked at yet. */
enum cs_status cs_history_load(struct cs_server *server, struct cs_err *err) CS_NODISCARD;

#endif
