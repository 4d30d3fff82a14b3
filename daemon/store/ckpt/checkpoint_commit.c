/* The commit that makes the files of all ranks a checkpoint: nothing is one before the last rename. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/ckpt/checkpoint.h"
#include "store/ckpt/ckpt_manifest.h"
#include "store/fsio.h"

static bool is_listed(const struct cs_ckpt_file *files, int n, const char *folder, const char *name)
{
    size_t len = strlen(folder);
    for (int i = 0; i < n; i++)
        if (strncmp(files[i].name, folder, len) == 0 && files[i].name[len] == '/' &&
            strcmp(files[i].name + len + 1, name) == 0)
            return true;
    return false;
}

/* Files that an earlier, killed attempt with more ranks left in the temporary directory. */
static enum cs_status drop_unlisted(const char *temp, const char *folder,
                                    const struct cs_ckpt_file *files, int n, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    enum cs_status status = CS_OK;
    CS_TRY(cs_path(path, err, "%s/%s", temp, folder));
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? CS_OK : cs_fail_errno(err, "cannot list %s", path);
    for (struct dirent *entry; status == CS_OK && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_listed(files, n, folder, name))
            continue;
        status = cs_path(path, err, "%s/%s/%s", temp, folder, name);
        if (status == CS_OK)
            status = cs_fs_remove_tree(path, err);
    }
    closedir(dir);
    return status == CS_OK ? cs_path(path, err, "%s/%s", temp, folder) : status;
}

static enum cs_status check_reported(const char *temp, const struct cs_ckpt_file *file,
                                     struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct stat info;
    if (!cs_ckpt_is_file_name(file->name) || strcmp(file->name, "trainer.json") == 0 ||
        strlen(file->xxh3) != 32)
        return cs_fail(err, CS_INVALID, "a rank reported a checkpoint file called \"%.100s\"",
                       file->name);
    CS_TRY(cs_path(path, err, "%s/%s", temp, file->name));
    if (lstat(path, &info) == -1)
        return cs_fail_errno(err, "a rank reported %s, which is not there", path);
    if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != file->bytes)
        return cs_fail(err, CS_CORRUPT, "%s has %lld bytes, its rank reported %llu", path,
                       (long long)info.st_size, (unsigned long long)file->bytes);
    return CS_OK;
}

static enum cs_status fill_temp(const char *temp, int64_t step, const struct cs_ckpt_origin *origin,
                                const json_t *trainer, const struct cs_ckpt_file *files, int n,
                                struct cs_err *err)
{
    char path[CS_PATH_CAP];
    enum cs_status status = CS_OK;
    if (n <= 0)
        return cs_fail(err, CS_INVALID, "no rank reported a file");
    for (int i = 0; i < n; i++)
        CS_TRY(check_reported(temp, &files[i], err));
    CS_TRY(drop_unlisted(temp, "params", files, n, err));
    CS_TRY(drop_unlisted(temp, "opt", files, n, err));
    struct cs_ckpt_file *all = calloc((size_t)n + 1, sizeof *all);
    if (!all)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the list of %d files", n);
    memcpy(all, files, (size_t)n * sizeof *all);
    snprintf(all[n].name, sizeof(all[n].name), "trainer.json");
    status = cs_path(path, err, "%s/trainer.json", temp);
    if (status == CS_OK)
        status = cs_fs_write_json(path, trainer, all[n].xxh3, &all[n].bytes, err);
    if (status == CS_OK)
        status = cs_path(path, err, "%s/checkpoint.json", temp);
    json_t *manifest = status == CS_OK ? cs_ckpt_manifest_new(step, origin, all, n + 1) : NULL;
    if (status == CS_OK && !manifest)
        status = cs_fail(err, CS_INVALID, "a hash of the spec or the plan is not text");
    if (status == CS_OK)
        status = cs_fs_write_json(path, manifest, NULL, NULL, err);
    json_decref(manifest);
    free(all);
    return status;
}

/* File systems without exchange: the old one steps aside first. After a kill in between cs_ckpt_clean
 * takes it back. */
static enum cs_status put_aside_first(const char *temp, const char *final, struct cs_err *err)
{
    char old[CS_PATH_CAP];
    CS_TRY(cs_path(old, err, "%s.old", final));
    CS_TRY(cs_fs_remove_tree(old, err));
    if (rename(final, old) == -1)
        return cs_fail_errno(err, "cannot rename %s to %s", final, old);
    if (rename(temp, final) == -1) {
        const enum cs_status status = cs_fail_errno(err, "cannot rename %s to %s", temp, final);
        (void)!rename(old, final);
        return status;
    }
    return cs_fs_remove_tree(old, err);
}

/* A checkpoint of this step may exist (saved again after a resume): the two change
 * places at once. */
static enum cs_status put_in_place(const char *temp, const char *final, struct cs_err *err)
{
    if (rename(temp, final) == 0)
        return CS_OK;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return cs_fail_errno(err, "cannot rename %s to %s", temp, final);
    if (renameat2(AT_FDCWD, temp, AT_FDCWD, final, RENAME_EXCHANGE) == 0)
        return cs_fs_remove_tree(temp, err);
    if (errno != EINVAL && errno != ENOSYS)
        return cs_fail_errno(err, "cannot exchange %s and %s", temp, final);
    return put_aside_first(temp, final, err);
}

/* Read as a resume will: what all ranks wrote is every trained parameter, each element once. */
static enum cs_status check_written(const char *temp, const struct cs_ckpt_origin *origin,
                                    struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_ckpt_open(temp, &ckpt, err));
    enum cs_status status =
        origin->params ? cs_ckpt_check_whole(ckpt, origin->params, origin->n_params, err) : CS_OK;
    cs_ckpt_close(ckpt);
    return status;
}

enum cs_status cs_ckpt_commit(const char *dir, int64_t step, const struct cs_ckpt_origin *origin,
                              const json_t *trainer, const struct cs_ckpt_file *files, int n_files,
                              struct cs_err *err)
{
    char temp[CS_PATH_CAP], final[CS_PATH_CAP];
    CS_TRY(cs_path(temp, err, "%s/ckpt-%lld.tmp", dir, (long long)step));
    CS_TRY(cs_path(final, err, "%s/ckpt-%lld", dir, (long long)step));
    enum cs_status status = fill_temp(temp, step, origin, trainer, files, n_files, err);
    if (status == CS_OK)
        status = check_written(temp, origin, err);
    if (status == CS_OK)
        status = cs_fsync_dir(temp, err);
    if (status == CS_OK)
        status = put_in_place(temp, final, err);
    if (status == CS_OK)
        return cs_fsync_dir(dir, err);
    /* the save failed, the run goes on: give the space back */
    struct cs_err unused;
    (void)!cs_fs_remove_tree(temp, &unused);
    return cs_wrap(err, status, "checkpoint of step %lld", (long long)step);
}
