/* Who owns a directory: the daemon that works in it holds a lock on DIR/daemon.lock as long as it
 * lives, and says there where it is reached. A lock ends with its process, whatever ends that: no
 * number of a process is ever trusted without it. */
#ifndef CS_NET_OWNER_H
#define CS_NET_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/system/io.h"

/* Our own claim. It belongs to the process, not to children. */
struct cs_claim {
    char path[CS_PATH_CAP]; /* of the lock file */
    int fd;                 /* -1: none */
};

/* CS_EXISTS: another process owns dir; the text names it and the remedy. On failure there is no
 * claim. */
enum cs_status cs_claim_take(struct cs_claim *claim, const char *dir,
                             struct cs_err *err) CS_NODISCARD;
/* Somebody may remove the file, on which another process could found a claim of its own: look now
 * and then, and take it again. CS_EXISTS: another process was faster. */
bool cs_claim_is_there(const struct cs_claim *claim);
enum cs_status cs_claim_keep(struct cs_claim *claim, struct cs_err *err) CS_NODISCARD;
/* writes where we are reached */
enum cs_status cs_claim_say(const struct cs_claim *claim, const char *socket,
                            struct cs_err *err) CS_NODISCARD;
void cs_claim_drop(struct cs_claim *claim);

struct cs_owner {
    int64_t pid;              /* 0: not known */
    char node[256];           /* "": not said */
    char socket[CS_PATH_CAP]; /* "": not said yet */
};

/* False: nobody owns dir. Never asked of a directory that is our own: looking would end the claim. */
bool cs_owner_find(const char *dir, struct cs_owner *out);
/* "process 12", "process 12 on node a", "a process" */
void cs_owner_name(const struct cs_owner *owner, char *out, size_t cap);

#endif
