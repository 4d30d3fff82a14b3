/* What stays in a directory of checkpoints: the newest ones, the newest finite one; and what is put
 * aside there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/ckpt/checkpoint.h"
#include "store/ckpt/ckpt_manifest.h"
#include "store/fsio.h"

/* one committed checkpoint, as retention sees it */
struct kept {
    int64_t step;
    bool is_finite;
};

/* false when the directory does not verify: it is not ours to judge, and stays */
static bool look_at(const char *dir, int64_t step, struct kept *out)
{
    char path[CS_PATH_CAP];
    json_t *manifest = NULL;
    const bool is_good = cs_path(path, NULL, "%s/ckpt-%lld", dir, (long long)step) == CS_OK &&
                         cs_ckpt_verify(path, false, &manifest, NULL) == CS_OK;
    *out = (struct kept){step, json_integer_value(json_object_get(manifest, "nonfinite")) == 0};
    json_decref(manifest);
    return is_good;
}

/* ckpt-STEP with one suffix to another, in place of what may be there */
static enum cs_status move_one(const char *dir, int64_t step, const char *from, const char *to,
                               struct cs_err *err)
{
    char path[CS_PATH_CAP], target[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/ckpt-%lld%s", dir, (long long)step, from));
    CS_TRY(cs_path(target, err, "%s/ckpt-%lld%s", dir, (long long)step, to));
    CS_TRY(cs_fs_remove_tree(target, err));
    if (rename(path, target) == -1)
        return cs_fail_errno(err, "cannot rename %s to %s", path, target);
    return cs_fsync_dir(dir, err);
}

static enum cs_status remove_suffixed(const char *dir, int64_t step, const char *suffix,
                                      struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/ckpt-%lld%s", dir, (long long)step, suffix));
    return cs_fs_remove_tree(path, err);
}

/* first out of the way, so that a kill in between leaves no damaged checkpoint */
static enum cs_status remove_one(const char *dir, int64_t step, struct cs_err *err)
{
    CS_TRY(move_one(dir, step, "", ".tmp", err));
    return remove_suffixed(dir, step, ".tmp", err);
}

enum cs_status cs_ckpt_prune(const char *dir, int64_t keep, int64_t newest, struct cs_err *err)
{
    int64_t *steps = NULL, seen = 0;
    int n = 0;
    bool has_finite = false;
    struct kept one;
    if (keep <= 0)
        return CS_OK;
    CS_TRY(cs_ckpt_list(dir, "", &steps, &n, err));
    enum cs_status status = CS_OK;
    for (int i = 0; i < n && status == CS_OK; i++) { /* descending */
        if (steps[i] > newest || !look_at(dir, steps[i], &one))
            continue;
        const bool is_last_finite = one.is_finite && !has_finite;
        has_finite = has_finite || one.is_finite;
        if (seen++ >= keep && !is_last_finite)
            status = remove_one(dir, one.step, err);
    }
    free(steps);
    return status;
}

/* The checkpoint that stepped aside for another of its step, which did not come. */
static enum cs_status settle_old(const char *dir, int64_t step, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/ckpt-%lld", dir, (long long)step));
    return cs_fs_exists(path) ? remove_suffixed(dir, step, ".old", err)
                              : move_one(dir, step, ".old", "", err);
}

static enum cs_status remove_temp(const char *dir, int64_t step, struct cs_err *err)
{
    return remove_suffixed(dir, step, ".tmp", err);
}

static enum cs_status for_each(const char *dir, const char *suffix,
                               enum cs_status (*act)(const char *, int64_t, struct cs_err *),
                               struct cs_err *err)
{
    int64_t *steps = NULL;
    int n = 0;
    CS_TRY(cs_ckpt_list(dir, suffix, &steps, &n, err));
    enum cs_status status = CS_OK;
    for (int i = 0; i < n && status == CS_OK; i++)
        status = act(dir, steps[i], err);
    free(steps);
    return status;
}

enum cs_status cs_ckpt_clean(const char *dir, struct cs_err *err)
{
    CS_TRY(for_each(dir, ".old", settle_old, err));
    return for_each(dir, ".tmp", remove_temp, err);
}

enum cs_status cs_ckpt_set_aside(const char *dir, int64_t step, struct cs_err *err)
{
    return move_one(dir, step, "", ".bad", err);
}

/* DIR/before-N, the first that is not there */
static enum cs_status make_before(const char *dir, char out[CS_PATH_CAP], struct cs_err *err)
{
    int number = 0;
    do
        CS_TRY(cs_path(out, err, "%s/before-%d", dir, ++number));
    while (cs_fs_exists(out));
    return cs_mkdirs(out, err);
}

enum cs_status cs_ckpt_begin_anew(const char *dir, int *n, struct cs_err *err)
{
    char before[CS_PATH_CAP], from[CS_PATH_CAP], to[CS_PATH_CAP];
    int64_t *steps = NULL;
    CS_TRY(cs_ckpt_list(dir, "", &steps, n, err));
    enum cs_status status = *n > 0 ? make_before(dir, before, err) : CS_OK;
    for (int i = *n; i-- > 0 && status == CS_OK;) {
        status = cs_path(from, err, "%s/ckpt-%lld", dir, (long long)steps[i]);
        if (status == CS_OK)
            status = cs_path(to, err, "%s/ckpt-%lld", before, (long long)steps[i]);
        if (status == CS_OK && rename(from, to) == -1)
            status = cs_fail_errno(err, "cannot rename %s to %s", from, to);
    }
    free(steps);
    if (status == CS_OK && *n > 0)
        status = cs_fsync_dir(before, err);
    return status == CS_OK && *n > 0 ? cs_fsync_dir(dir, err) : status;
}
