/* Destinations and weights of a job: there, writable, large enough. */
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "console/preflight/preflight.h"
#include "core/base/io.h"
#include "core/base/units.h"
#include "core/program/dirs.h"
#include "store/hf/hfdir.h"

/* The directory itself or its nearest parent that exists. */
static enum cs_status existing(const char *dir, char out[CS_PATH_CAP], struct cs_err *err)
{
    struct stat st;
    CS_TRY(cs_path(out, err, "%s", dir));
    while (stat(out, &st) != 0) {
        char *slash = strrchr(out, '/');
        if (!slash)
            return cs_path(out, err, ".");
        if (slash == out)
            return cs_path(out, err, "/");
        *slash = '\0';
    }
    return CS_OK;
}

enum cs_status cs_preflight_destination(const char *what, const char *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct stat st;
    CS_TRY(existing(dir, path, err));
    if (stat(path, &st) != 0)
        return cs_fail_errno(err, "%s %s: %s", what, dir, path);
    if (!S_ISDIR(st.st_mode))
        return cs_fail(err, CS_REFUSED, "%s %s: %s is no directory; name another one", what, dir,
                       path);
    if (access(path, W_OK | X_OK) != 0)
        return cs_fail_errno(err, "%s %s: nothing can be written to %s", what, dir, path);
    return CS_OK;
}

static enum cs_status check_space(const struct cs_spec *spec, const char *dir,
                                  struct cs_preflight *out, struct cs_err *err)
{
    char path[CS_PATH_CAP], one[CS_UNITS_CAP], has[CS_UNITS_CAP];
    struct statvfs fs;
    CS_TRY(existing(dir, path, err));
    if (statvfs(path, &fs) != 0)
        return CS_OK; /* not every file system tells */
    double unused = (double)fs.f_bavail * (double)fs.f_frsize, size = (double)out->checkpoint_bytes;
    int64_t kept = spec->checkpoint_every > 0 ? spec->checkpoint_keep : 1;
    int64_t written = spec->checkpoint_every > 0 ? spec->steps / spec->checkpoint_every + 1 : 1;
    if (kept == 0 || kept > written)
        kept = written;
    cs_bytes_print(one, sizeof one, (uint64_t)out->checkpoint_bytes);
    cs_bytes_print(has, sizeof has, (uint64_t)unused);
    if (unused < size)
        return cs_fail(err, CS_NO_SPACE,
                       "checkpoints of %s do not fit in %s, which has %s left; make room, or give "
                       "checkpoint.dir",
                       one, path, has);
    if (unused < size * (double)(kept + 1)) /* the next is written before the oldest goes */
        cs_preflight_warn(
            out,
            "%s has %s left: fewer than the %lld checkpoints of %s that are kept, and "
            "the next one",
            path, has, (long long)kept, one);
    return CS_OK;
}

static enum cs_status check_weights(const struct cs_spec_module *spec,
                                    const struct cs_module *module, struct cs_err *err)
{
    struct cs_hfdir *dir = NULL;
    if (strcmp(spec->init, "weights") != 0 || module->kind == CS_MODULE_PROJECTOR)
        return CS_OK;
    CS_TRY(cs_hfdir_open_kind(spec->dir, module->kind, &dir, err));
    enum cs_status status = cs_hfdir_check(dir, &module->arch, err);
    cs_hfdir_close(dir);
    return status == CS_OK ? CS_OK
                           : cs_wrap(err, status, "%s: weights of %s", module->name, spec->dir);
}

enum cs_status cs_preflight_files(const struct cs_spec *spec, const struct cs_graph *graph,
                                  struct cs_preflight *out, struct cs_err *err)
{
    char state[CS_PATH_CAP];
    for (int32_t m = 0; m < graph->n_modules && m < spec->n_modules; m++)
        CS_TRY(check_weights(&spec->module[m], &graph->modules[m], err));
    if (spec->checkpoint_dir[0]) {
        CS_TRY(cs_preflight_destination("checkpoint.dir", spec->checkpoint_dir, err));
        return check_space(spec, spec->checkpoint_dir, out, err);
    }
    CS_TRY(cs_dir_state(state, err));
    return check_space(spec, state, out, err);
}
