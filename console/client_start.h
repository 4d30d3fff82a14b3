/* Finding and starting the private daemon of a user. Private to client.c. */
#ifndef CS_CONSOLE_CLIENT_START_H
#define CS_CONSOLE_CLIENT_START_H

#include "core/base/status.h"

/* A connected, non-blocking socket; *fd -1 on failure (CS_UNREACHABLE). */
enum cs_status cs_client_dial(const char *path, int *fd, struct cs_err *err) CS_NODISCARD;
/* Dial; when nobody answers start cornstarchd and dial again. Of several consoles that do so at the
 * same time one starts it, the others wait for its lock. */
enum cs_status cs_client_dial_or_start(const char *path, int *fd, struct cs_err *err) CS_NODISCARD;

#endif
