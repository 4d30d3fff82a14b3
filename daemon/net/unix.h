/* Sockets of a node in the file system. Their paths may be as long as any path. */
#ifndef CS_NET_UNIX_H
#define CS_NET_UNIX_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/status.h"

/* *fd: connected, non-blocking; -1 on failure. may_block: wait while the other side is busy. who: for
 * the message "no WHO answers at PATH: ...". CS_UNREACHABLE: nobody listens there; CS_LIMIT: the name
 * of the file is too long; else what failed. */
enum cs_status cs_unix_connect(const char *path, bool may_block, const char *who, int *fd,
                               struct cs_err *err) CS_NODISCARD;
/* *fd: listening, non-blocking, for our user only. A file at path is replaced: make sure before that
 * nobody owns it. */
enum cs_status cs_unix_listen(const char *path, int *fd, struct cs_err *err) CS_NODISCARD;
/* Whose process is at the other end; false: not known. */
bool cs_unix_peer(int fd, uid_t *uid);

#endif
