/* Files that are whole or not there: names of what is unfinished, clearing away what killed processes
 * left, the whole write; see temp.h and io.h. */
#include "core/program/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char mark[] = ".tmp-";

enum cs_status cs_temp_name(const char *path, char out[CS_PATH_CAP], struct cs_err *err)
{
    return cs_path(out, err, "%s%s%ld", path, mark, (long)getpid());
}

/* whether `name` is BASE.tmp-PID of a process that is gone */
static bool is_leftover(const char *name, const char *base, size_t base_len)
{
    char *end = NULL;
    if (strncmp(name, base, base_len) != 0 || strncmp(name + base_len, mark, sizeof mark - 1) != 0)
        return false;
    const char *digits = name + base_len + sizeof mark - 1;
    long pid = strtol(digits, &end, 10);
    if (*digits < '1' || *digits > '9' || *end != '\0' || pid > INT32_MAX || pid == getpid())
        return false;
    return kill((pid_t)pid, 0) == -1 && errno == ESRCH;
}

void cs_temp_sweep(const char *path, void (*drop)(const char *leftover))
{
    char folder[CS_PATH_CAP], found[CS_PATH_CAP];
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t folder_len = slash ? (size_t)(slash - path) + 1 : 0;
    if (cs_path(folder, NULL, "%.*s%s", (int)folder_len, path, slash ? "" : ".") != CS_OK)
        return;
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (is_leftover(entry->d_name, base, strlen(base)) &&
            cs_path(found, NULL, "%.*s%s", (int)folder_len, path, entry->d_name) == CS_OK)
            drop(found);
    if (list)
        closedir(list);
}

static void drop_file(const char *path)
{
    unlink(path);
}

void cs_temp_sweep_files(const char *path)
{
    cs_temp_sweep(path, drop_file);
}

enum cs_status cs_temp_try(const char *path, struct cs_err *err)
{
    char temporary[CS_PATH_CAP];
    CS_TRY(cs_temp_name(path, temporary, err));
    int fd = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum cs_status status = CS_OK;
    if (fd == -1)
        return cs_fail_errno(err, "%s cannot be written", path);
    if (write(fd, "", 1) == -1)
        status = cs_fail_errno(err, "%s cannot be written", path);
    if (close(fd) == -1 && status == CS_OK)
        status = cs_fail_errno(err, "%s cannot be written", path);
    unlink(temporary);
    return status;
}

/* directory part of path, "." when there is none */
static enum cs_status parent_of(const char *path, char out[CS_PATH_CAP], struct cs_err *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return cs_path(out, err, ".");
    if (slash == path)
        return cs_path(out, err, "/");
    return cs_path(out, err, "%.*s", (int)(slash - path), path);
}

static enum cs_status write_temporary(int fd, const char *path, const void *bytes, size_t n,
                                      struct cs_err *err)
{
    enum cs_status status = cs_write_all(fd, bytes, n, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s", path);
    if (fsync(fd) == -1)
        return cs_fail_errno(err, "syncing %s", path);
    return CS_OK;
}

enum cs_status cs_write_file_atomic(const char *path, const void *bytes, size_t n, mode_t mode,
                                    struct cs_err *err)
{
    char dir[CS_PATH_CAP], temporary[CS_PATH_CAP];
    CS_TRY(parent_of(path, dir, err));
    CS_TRY(cs_temp_name(path, temporary, err));
    cs_temp_sweep_files(path);
    unlink(temporary); /* of an earlier process with this number */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd == -1)
        return cs_fail_errno(err, "creating a file beside %s", path);
    enum cs_status status = write_temporary(fd, path, bytes, n, err);
    if (close(fd) == -1 && status == CS_OK)
        status = cs_fail_errno(err, "closing %s", temporary);
    if (status == CS_OK && rename(temporary, path) == -1)
        status = cs_fail_errno(err, "renaming %s to %s", temporary, path);
    if (status != CS_OK) {
        unlink(temporary);
        return status;
    }
    return cs_fsync_dir(dir, err);
}
