/* Directories: remove, names, what is free there; see fsio.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/fsio.h"

enum { MAX_TREE_DEPTH = 16 };

static enum cs_status remove_at(int parent, const char *name, const char *path, int depth,
                                struct cs_err *err)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return CS_OK;
    if (errno != EISDIR && errno != EPERM)
        return cs_fail_errno(err, "cannot remove %s in %s", name, path);
    if (depth >= MAX_TREE_DEPTH)
        return cs_fail(err, CS_LIMIT, "%s: more than %d levels, not removed", path, MAX_TREE_DEPTH);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    if (!dir) {
        enum cs_status failed = cs_fail_errno(err, "cannot remove %s in %s", name, path);
        if (fd != -1)
            close(fd);
        return failed;
    }
    enum cs_status status = CS_OK;
    for (struct dirent *entry; status == CS_OK && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = remove_at(fd, entry->d_name, path, depth + 1, err);
    closedir(dir);
    if (status == CS_OK && unlinkat(parent, name, AT_REMOVEDIR) == -1 && errno != ENOENT)
        status = cs_fail_errno(err, "cannot remove %s in %s", name, path);
    return status;
}

enum cs_status cs_fs_remove_tree(const char *path, struct cs_err *err)
{
    return remove_at(AT_FDCWD, path, path, 0, err);
}

enum cs_status cs_fs_parent(const char *path, char out[CS_PATH_CAP], struct cs_err *err)
{
    CS_TRY(cs_path(out, err, "%s", path));
    size_t len = strlen(out);
    while (len > 1 && out[len - 1] == '/')
        out[--len] = '\0';
    char *slash = strrchr(out, '/');
    if (!slash)
        return cs_path(out, err, ".");
    slash[slash == out] = '\0';
    return CS_OK;
}

bool cs_fs_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

bool cs_fs_is_plain_name(const char *name)
{
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > NAME_MAX)
        return false;
    for (const char *c = name; *c; c++)
        if (*c == '/' || *c == '\\' || (unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return true;
}

enum cs_status cs_fs_free_bytes(const char *path, uint64_t *out, struct cs_err *err)
{
    char at[CS_PATH_CAP], parent[CS_PATH_CAP];
    struct statvfs info;
    CS_TRY(cs_path(at, err, "%s", path));
    while (statvfs(at, &info) == -1) {
        if (errno != ENOENT || strcmp(at, "/") == 0)
            return cs_fail_errno(err, "the space that is free at %s is not known", at);
        CS_TRY(cs_fs_parent(at, parent, err));
        CS_TRY(cs_path(at, err, "%s", parent));
    }
    *out = (uint64_t)info.f_bavail * info.f_frsize;
    return CS_OK;
}
