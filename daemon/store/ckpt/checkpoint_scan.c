/* Finding the newest checkpoint of a directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/ckpt/checkpoint.h"
#include "store/ckpt/ckpt_manifest.h"
#include "store/fsio.h"

/* One that verifies may still not be one that can be read. */
static enum cs_status try_one(const char *path, const struct cs_ckpt_search *search,
                              struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_ckpt_verify(path, search->is_deep, NULL, err));
    CS_TRY(cs_ckpt_open(path, &ckpt, err));
    enum cs_status status = search->accept ? search->accept(search->user, ckpt, err) : CS_OK;
    cs_ckpt_close(ckpt);
    return status;
}

enum cs_status cs_ckpt_latest(const char *dir, const struct cs_ckpt_search *search, int64_t *step,
                              char *path, struct cs_err *err)
{
    int64_t *steps = NULL;
    int n = 0, n_bad = 0;
    struct cs_err why = {0}, newest = {0};
    CS_TRY(cs_ckpt_list(dir, "", &steps, &n, err));
    enum cs_status status = CS_NOT_FOUND;
    for (int i = 0; i < n && status == CS_NOT_FOUND; i++) {
        if (cs_path(path, err, "%s/ckpt-%lld", dir, (long long)steps[i]) != CS_OK) {
            status = CS_LIMIT;
            break;
        }
        *step = steps[i];
        if (try_one(path, search, &why) == CS_OK) {
            status = CS_OK;
            break;
        }
        newest = n_bad++ == 0 ? why : newest;
        if (search->on_skip)
            search->on_skip(search->user, steps[i], &why);
    }
    free(steps);
    if (status == CS_NOT_FOUND && n_bad == 0)
        return cs_fail(err, CS_NOT_FOUND, "no checkpoint in %s", dir);
    if (status == CS_NOT_FOUND)
        return cs_fail(err, CS_CORRUPT,
                       "no checkpoint in %s can be used (%d are there); the newest: %.700s", dir,
                       n_bad, newest.text);
    return status;
}
