/* The directory that a job's checkpoints go to: made and tried before it is needed, locked by the job
 * that writes there, measured against what it will hold. */
#ifndef CS_STORE_CKPT_DIR_H
#define CS_STORE_CKPT_DIR_H

#include <sys/types.h>

#include "core/base/system/io.h"
#include "core/model/graph.h"

struct cs_ckpt_dir {
    char path[CS_PATH_CAP];
    int fd; /* holds the lock; -1: not taken, or a file system without locks */
    dev_t dev;
    ino_t ino;
};

/* Makes the directory and writes a file there, which is removed again. The error names the path. */
enum cs_status cs_ckpt_dir_try(const char *path, struct cs_err *err) CS_NODISCARD;
/* The same, and locks it until cs_ckpt_dir_leave or the end of the process. CS_REFUSED: another
 * process holds it. The lock is of the directory itself, whatever link leads to it. */
enum cs_status cs_ckpt_dir_take(const char *path, struct cs_ckpt_dir *out,
                                struct cs_err *err) CS_NODISCARD;
void cs_ckpt_dir_leave(struct cs_ckpt_dir *dir); /* fine for one that was not taken, with fd -1 */
/* false: it was removed or another one stands in its place */
bool cs_ckpt_dir_is_there(const struct cs_ckpt_dir *dir);

/* Bytes of one checkpoint of these parameters: masters and two moments in fp32, headers. */
uint64_t cs_ckpt_bytes(const struct cs_param *params, int32_t n);
/* Whether the file system of path (which may be missing, with parents) has room. CS_NO_SPACE: not
 * for one more. warning (may be NULL): what is to be said where `keep` of them and the one that is
 * written meanwhile do not fit beside the `held` ones; "" nothing. */
enum cs_status cs_ckpt_room(const char *path, uint64_t bytes, int64_t keep, int64_t held,
                            char warning[300], struct cs_err *err) CS_NODISCARD;

#endif
