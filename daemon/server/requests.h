/* Requests of consoles: one table, one handler each. */
#ifndef CS_SERVER_REQUESTS_H
#define CS_SERVER_REQUESTS_H

#include "server/callers/caller.h"

/* request has been checked against the schema; every one is answered, at once or later */
void cs_requests_handle(struct cs_server *server, struct cs_caller *caller, const json_t *request);

#endif
