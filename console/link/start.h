/* Finding and starting the private daemon of a user. It is where its lock on the state directory says
 * (net/owner.h), whatever runtime directory this terminal has; without one it is started. */
#ifndef CS_CONSOLE_LINK_START_H
#define CS_CONSOLE_LINK_START_H

#include <stdbool.h>

#include "core/base/status.h"
#include "core/base/system/io.h"

/* A connected, non-blocking socket; *fd -1 on failure (CS_UNREACHABLE). */
enum cs_status cs_client_dial(const char *path, int *fd, struct cs_err *err) CS_NODISCARD;
/* The same for the user's own daemon; path: where it answers. CS_UNREACHABLE: none runs, or one that
 * does not answer; *is_deaf then, and the text names its process and the remedy. */
enum cs_status cs_client_dial_own(char path[CS_PATH_CAP], int *fd, bool *is_deaf,
                                  struct cs_err *err) CS_NODISCARD;
/* It took a connection and says nothing: the same text, CS_TIMEOUT. */
enum cs_status cs_client_tell_deaf(const char *path, struct cs_err *err) CS_NODISCARD;
/* Dial; when nobody owns the state directory start cornstarchd and dial again. Of several consoles
 * that do so at the same time one starts it, the others wait for its lock. */
enum cs_status cs_client_dial_or_start(char path[CS_PATH_CAP], int *fd, bool *is_started,
                                       struct cs_err *err) CS_NODISCARD;
/* Until the daemon of this socket is gone: at most 30 s, CS_TIMEOUT. A daemon that leaves takes its
 * socket away first and still owns its directories for a while. */
enum cs_status cs_client_await_gone(const char *path, struct cs_err *err) CS_NODISCARD;

#endif
