/* Finding and starting the private daemon of a user. */
#ifndef CS_CONSOLE_LINK_START_H
#define CS_CONSOLE_LINK_START_H

#include <stdbool.h>

#include "core/base/status.h"

/* A connected, non-blocking socket; *fd -1 on failure (CS_UNREACHABLE). */
enum cs_status cs_client_dial(const char *path, int *fd, struct cs_err *err) CS_NODISCARD;
/* Until the daemon of this socket is gone, or one answers (answers NULL: that one must go as well):
 * at most 30 s, CS_TIMEOUT. A daemon that leaves takes its socket away first and still owns its
 * directories for a while. */
enum cs_status cs_client_await_gone(const char *path, bool *answers,
                                    struct cs_err *err) CS_NODISCARD;
/* Dial; when nobody answers start cornstarchd and dial again. Of several consoles that do so at the
 * same time one starts it, the others wait for its lock. */
enum cs_status cs_client_dial_or_start(const char *path, int *fd, struct cs_err *err) CS_NODISCARD;

#endif
