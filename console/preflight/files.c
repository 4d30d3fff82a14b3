/* Destinations and weights of a job: there, writable, large enough. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "console/preflight/preflight.h"
#include "core/base/system/io.h"
#include "core/program/dirs.h"
#include "core/wire/wire.h"
#include "store/ckpt/ckpt_dir.h"
#include "store/ckpt/ckpt_training.h"
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
    char warning[300];
    const int64_t keep = spec->checkpoint_every > 0 ? spec->checkpoint_keep : 1;
    CS_TRY(cs_ckpt_room(dir, (uint64_t)out->checkpoint_bytes, keep, 0, warning, err));
    if (warning[0] != '\0')
        cs_preflight_warn(out, "%s", warning);
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

enum cs_status cs_preflight_files(const struct cs_preflight_made *made, struct cs_preflight *out,
                                  struct cs_err *err)
{
    const struct cs_spec *spec = made->spec;
    const struct cs_graph *graph = made->graph;
    char state[CS_PATH_CAP];
    if (spec->data.cache_dir[0])
        CS_TRY(cs_preflight_destination("data.cache_dir", spec->data.cache_dir, err));
    if (spec->has_eval && spec->eval_data.cache_dir[0])
        CS_TRY(cs_preflight_destination("eval.data.cache_dir", spec->eval_data.cache_dir, err));
    const char *board = cs_msg_str(made->document, "tensorboard", "");
    if (board[0])
        CS_TRY(cs_preflight_destination("tensorboard", board, err));
    for (int32_t m = 0; m < graph->n_modules && m < spec->n_modules; m++)
        CS_TRY(check_weights(&spec->module[m], &graph->modules[m], err));
    if (spec->checkpoint_dir[0]) {
        CS_TRY(cs_preflight_destination("checkpoint.dir", spec->checkpoint_dir, err));
        CS_TRY(cs_ckpt_check_newest(spec->checkpoint_dir, spec, made->document, err));
        return check_space(spec, spec->checkpoint_dir, out, err);
    }
    CS_TRY(cs_dir_state(state, err));
    return check_space(spec, state, out, err);
}
