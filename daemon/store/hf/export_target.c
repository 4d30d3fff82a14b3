/* The place an export goes to: looked at, tried, and swapped in when the export is whole. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/program/temp.h"
#include "store/hf/export_parts.h"

/* absent or an empty directory: only then may the result be put there */
static enum cs_status check_empty(const char *dir, struct cs_err *err)
{
    DIR *open_dir = opendir(dir);
    bool is_empty = true;
    if (!open_dir && errno == ENOENT)
        return CS_OK;
    if (!open_dir && errno == ENOTDIR)
        return cs_fail(err, CS_EXISTS, "%s is not a directory, or one of its parents is not", dir);
    if (!open_dir)
        return cs_fail_errno(err, "cannot look into %s", dir);
    for (struct dirent *entry; is_empty && (entry = readdir(open_dir));)
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(open_dir);
    if (!is_empty)
        return cs_fail(err, CS_EXISTS, "%s exists and is not empty: name a new directory", dir);
    return CS_OK;
}

static void drop_tree(const char *path)
{
    (void)!cs_fs_remove_tree(path, NULL);
}

enum cs_status cs_export_begin(struct cs_export_target *target, const char *dir, struct cs_err *err)
{
    CS_TRY(cs_path(target->dir, err, "%s", dir));
    for (size_t len = strlen(target->dir); len > 1 && target->dir[len - 1] == '/';)
        target->dir[--len] = '\0';
    CS_TRY(check_empty(target->dir, err));
    CS_TRY(cs_fs_parent(target->dir, target->parent, err));
    CS_TRY(cs_mkdirs_shared(target->parent, err));
    cs_temp_sweep(target->dir, drop_tree);
    CS_TRY(cs_temp_name(target->dir, target->root, err));
    CS_TRY(cs_fs_remove_tree(target->root, err));
    if (mkdir(target->root, 0777) == -1)
        return cs_fail_errno(err, "cannot create directory %s", target->root);
    return CS_OK;
}

enum cs_status cs_export_end(struct cs_export_target *target, enum cs_status status,
                             struct cs_err *err)
{
    if (status == CS_OK)
        status = cs_fsync_dir(target->root, err);
    if (status == CS_OK && rename(target->root, target->dir) == -1)
        status = cs_fail_errno(err, "cannot rename %s to %s", target->root, target->dir);
    if (status == CS_OK)
        status = cs_fsync_dir(target->parent, err);
    if (status != CS_OK) {
        drop_tree(target->root);
        return cs_wrap(err, status, "exporting to %s", target->dir);
    }
    return CS_OK;
}

enum cs_status cs_export_try(const char *dir, struct cs_err *err)
{
    struct cs_export_target target;
    char file[CS_PATH_CAP];
    enum cs_status status = cs_export_begin(&target, dir, err);
    if (status == CS_OK) {
        status = cs_path(file, err, "%s/config.json", target.root);
        if (status == CS_OK)
            status = cs_temp_try(file, err);
        drop_tree(target.root);
    }
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "an export to %s", dir);
}
