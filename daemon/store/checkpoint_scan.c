/* Finding the newest checkpoint of a directory, and clearing what is old or was never finished. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/checkpoint.h"
#include "store/ckpt_manifest.h"
#include "store/fsio.h"

enum cs_status cs_ckpt_latest(const char *dir, bool is_deep, int64_t *step, char *path,
                              size_t path_bytes, void (*on_skip)(void *, const char *text),
                              void *user, struct cs_err *err)
{
    char at[CS_PATH_CAP];
    int64_t *steps = NULL;
    int n = 0, n_bad = 0;
    struct cs_err why = {0};
    CS_TRY(cs_ckpt_list(dir, false, &steps, &n, err));
    enum cs_status status = CS_NOT_FOUND;
    for (int i = 0; i < n && status == CS_NOT_FOUND; i++) {
        if (cs_path(at, err, "%s/ckpt-%lld", dir, (long long)steps[i]) != CS_OK) {
            status = CS_LIMIT;
            break;
        }
        if (cs_ckpt_verify(at, is_deep, NULL, &why) != CS_OK) {
            n_bad++;
            if (on_skip)
                on_skip(user, why.text);
            continue;
        }
        *step = steps[i];
        status = snprintf(path, path_bytes, "%s", at) < (int)path_bytes
                     ? CS_OK
                     : cs_fail(err, CS_LIMIT, "the path of checkpoint %s is too long", at);
    }
    free(steps);
    if (status == CS_NOT_FOUND)
        return cs_fail(err, CS_NOT_FOUND,
                       n_bad ? "no usable checkpoint in %s: %d damaged, the "
                               "oldest: %s"
                             : "no checkpoint in %s",
                       dir, n_bad, why.text);
    return status;
}

/* one committed checkpoint, as retention sees it */
struct kept {
    int64_t step;
    struct timespec written;
    char spec_hash[80], trained_hash[80];
};

static bool is_later(const struct kept *a, const struct kept *b)
{
    if (a->written.tv_sec != b->written.tv_sec)
        return a->written.tv_sec > b->written.tv_sec;
    if (a->written.tv_nsec != b->written.tv_nsec)
        return a->written.tv_nsec > b->written.tv_nsec;
    return a->step > b->step;
}

static void copy_hash(char out[80], const json_t *manifest, const char *key)
{
    const char *hash = json_string_value(json_object_get(manifest, key));
    snprintf(out, 80, "%s", hash ? hash : "");
}

/* Of one job, whatever its layout was; version 1 knows the whole spec only. */
static bool is_same_job(const struct kept *a, const struct kept *b)
{
    return strcmp(a->spec_hash, b->spec_hash) == 0 ||
           (a->trained_hash[0] != '\0' && strcmp(a->trained_hash, b->trained_hash) == 0);
}

/* false when the directory does not verify: it is not ours to judge, and stays */
static bool look_at(const char *dir, int64_t step, struct kept *out)
{
    char path[CS_PATH_CAP];
    json_t *manifest = NULL;
    struct stat info;
    bool is_good =
        cs_path(path, NULL, "%s/ckpt-%lld", dir, (long long)step) == CS_OK &&
        cs_ckpt_verify(path, false, &manifest, NULL) == CS_OK &&
        cs_path(path, NULL, "%s/ckpt-%lld/checkpoint.json", dir, (long long)step) == CS_OK &&
        stat(path, &info) == 0;
    if (is_good) {
        out->step = step;
        out->written = info.st_mtim;
        copy_hash(out->spec_hash, manifest, "spec_hash");
        copy_hash(out->trained_hash, manifest, "trained_hash");
    }
    json_decref(manifest);
    return is_good;
}

/* first out of the way, so that a kill in between leaves no damaged checkpoint */
static enum cs_status remove_one(const char *dir, int64_t step, struct cs_err *err)
{
    char path[CS_PATH_CAP], temp[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/ckpt-%lld", dir, (long long)step));
    CS_TRY(cs_path(temp, err, "%s/ckpt-%lld.tmp", dir, (long long)step));
    if (rename(path, temp) == -1)
        return cs_fail_errno(err, "cannot rename %s", path);
    return cs_fs_remove_tree(temp, err);
}

/* Only checkpoints of the job that wrote last count and go: a directory may also hold higher steps
 * of another run. */
static enum cs_status keep_newest(const char *dir, int64_t keep, struct cs_err *err)
{
    int64_t *steps = NULL;
    int n = 0, n_good = 0;
    CS_TRY(cs_ckpt_list(dir, false, &steps, &n, err));
    struct kept *good = calloc((size_t)n + 1, sizeof *good), *last = NULL;
    CS_ASSERT(good != NULL);
    for (int i = 0; i < n; i++)
        n_good += look_at(dir, steps[i], &good[n_good]);
    for (int i = 0; i < n_good; i++)
        if (!last || is_later(&good[i], last))
            last = &good[i];
    enum cs_status status = CS_OK;
    int64_t seen = 0;
    for (int i = 0; i < n_good && status == CS_OK; i++) /* descending steps */
        if (is_same_job(&good[i], last) && seen++ >= keep && &good[i] != last)
            status = remove_one(dir, good[i].step, err);
    free(good);
    free(steps);
    return status;
}

enum cs_status cs_ckpt_prune(const char *dir, int64_t keep, struct cs_err *err)
{
    return keep > 0 ? keep_newest(dir, keep, err) : CS_OK;
}

enum cs_status cs_ckpt_clean(const char *dir, int64_t keep, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    int64_t *steps = NULL;
    int n = 0;
    CS_TRY(cs_ckpt_list(dir, true, &steps, &n, err));
    enum cs_status status = CS_OK;
    for (int i = 0; i < n && status == CS_OK; i++) {
        status = cs_path(path, err, "%s/ckpt-%lld.tmp", dir, (long long)steps[i]);
        if (status == CS_OK)
            status = cs_fs_remove_tree(path, err);
    }
    free(steps);
    if (status == CS_OK && keep > 0)
        status = keep_newest(dir, keep, err);
    return status;
}
