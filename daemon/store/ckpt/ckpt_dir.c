/* Makes, tries, locks and measures the directory of a job's checkpoints. */
#include "store/ckpt/ckpt_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/units.h"
#include "store/fsio.h"

static enum cs_status write_test(const char *path, struct cs_err *err)
{
    static const char bytes[4096];
    char file[CS_PATH_CAP];
    CS_TRY(cs_path(file, err, "%s/.write-test-%d", path, (int)getpid()));
    CS_TRY(cs_fs_write(file, bytes, sizeof bytes, NULL, err));
    if (unlink(file) == -1)
        return cs_fail_errno(err, "cannot remove %s", file);
    return CS_OK;
}

enum cs_status cs_ckpt_dir_try(const char *path, struct cs_err *err)
{
    enum cs_status status = cs_mkdirs(path, err);
    if (status == CS_OK)
        status = write_test(path, err);
    return status == CS_OK ? CS_OK
                           : cs_wrap(err, status, "checkpoints cannot be written to %s", path);
}

static enum cs_status lock(struct cs_ckpt_dir *dir, struct cs_err *err)
{
    struct stat info;
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd == -1 || fstat(dir->fd, &info) == -1)
        return cs_fail_errno(err, "checkpoint directory %s", dir->path);
    dir->dev = info.st_dev;
    dir->ino = info.st_ino;
    if (flock(dir->fd, LOCK_EX | LOCK_NB) == 0)
        return CS_OK;
    if (errno == EWOULDBLOCK)
        return cs_fail(
            err, CS_REFUSED,
            "another job writes its checkpoints to %s now: wait for its end, or give this "
            "job a checkpoint.dir of its own",
            dir->path);
    close(dir->fd); /* some network file systems lock no directories */
    dir->fd = -1;
    return CS_OK;
}

enum cs_status cs_ckpt_dir_take(const char *path, struct cs_ckpt_dir *out, struct cs_err *err)
{
    *out = (struct cs_ckpt_dir){.fd = -1};
    CS_TRY(cs_path(out->path, err, "%s", path));
    CS_TRY(cs_ckpt_dir_try(path, err));
    const enum cs_status status = lock(out, err);
    if (status != CS_OK)
        cs_ckpt_dir_leave(out);
    return status;
}

void cs_ckpt_dir_leave(struct cs_ckpt_dir *dir)
{
    if (dir->fd != -1)
        close(dir->fd);
    dir->fd = -1;
}

bool cs_ckpt_dir_is_there(const struct cs_ckpt_dir *dir)
{
    struct stat info;
    return stat(dir->path, &info) == 0 && info.st_dev == dir->dev && info.st_ino == dir->ino;
}

uint64_t cs_ckpt_bytes(const struct cs_param *params, int32_t n)
{
    enum { STATES = 3, NAMES = 512 }; /* a parameter's entries in the headers, generously */

    uint64_t bytes = 0;
    for (int32_t i = 0; i < n; i++)
        if (params[i].is_trainable)
            bytes += STATES * (uint64_t)params[i].count * sizeof(float) + NAMES;
    return bytes;
}

static void say_bytes(char out[32], uint64_t bytes)
{
    cs_bytes_print(out, 32, bytes);
}

enum cs_status cs_ckpt_room(const char *path, uint64_t bytes, int64_t keep, int64_t held,
                            char warning[300], struct cs_err *err)
{
    char need[32], left[32], all[32];
    uint64_t free = 0;
    if (warning)
        warning[0] = '\0';
    CS_TRY(cs_fs_free_bytes(path, &free, err));
    say_bytes(need, bytes);
    say_bytes(left, free);
    if (free < bytes)
        return cs_fail(err, CS_NO_SPACE,
                       "a checkpoint of this job takes %s and %s are free at %.400s: make room, or "
                       "set checkpoint.dir to a larger disk",
                       need, left, path);
    const int64_t more = keep > held ? keep - held + 1 : 1;
    if (warning && keep > 0 && free / (uint64_t)more < bytes) {
        say_bytes(all, bytes * (uint64_t)more);
        snprintf(
            warning, 300,
            "%s are free for checkpoints: %lld of %s and the one that is written meanwhile take "
            "%s; keep fewer (checkpoint.keep), or use a larger disk",
            left, (long long)keep, need, all);
    }
    return CS_OK;
}
