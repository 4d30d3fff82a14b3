/* Exporting a model: component directories, then llava, then one rename; see hfdir.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/export_parts.h"

/* one encoder: vision, projector, llm; several: under the name of their branch */
static void name_folder(const struct cs_export *ex, struct cs_export_part *part)
{
    const char *branch = ex->graph->branches[part->module->branch].name;
    static const char *const names[] = {"vision", "projector", "llm"};
    static const char *const ends[] = {"", ".projector", ""};
    enum cs_module_kind kind = part->module->kind;
    bool is_sole = ex->graph->n_encoders <= 1 || kind == CS_MODULE_LLM;
    snprintf(part->folder, sizeof(part->folder), "%s%s", is_sole ? names[kind] : branch,
             is_sole ? "" : ends[kind]);
}

static enum cs_status open_source(struct cs_export *ex, struct cs_export_part *part)
{
    const struct cs_spec_module *spec = part->module->spec;
    if (!spec->dir || !*spec->dir)
        return CS_OK;
    return cs_hfdir_open_kind(spec->dir, part->module->kind, &part->dir, ex->err);
}

static enum cs_status write_part(struct cs_export *ex, struct cs_export_part *part)
{
    char path[CS_PATH_CAP];
    name_folder(ex, part);
    if (!cs_fs_is_plain_name(part->folder))
        return cs_fail(ex->err, CS_INVALID, "module name %s cannot name a directory",
                       part->module->name);
    CS_TRY(open_source(ex, part));
    CS_TRY(cs_export_gather(ex, part));
    CS_TRY(cs_export_config(ex, part));
    CS_TRY(cs_export_put_folder(ex, part->folder));
    CS_TRY(cs_path(path, ex->err, "%s/%s/model.safetensors", ex->root, part->folder));
    CS_TRY(cs_st_write(path, part->tensor, part->n_tensors, NULL, NULL, ex->err));
    CS_TRY(cs_export_put_json(ex, part->folder, "config.json", part->config));
    if (part->module->kind == CS_MODULE_LLM)
        return cs_export_copy_tokenizer(ex, part, part->folder);
    if (part->module->kind == CS_MODULE_ENCODER)
        return cs_export_copy_processor(ex, part, part->folder);
    return CS_OK;
}

static enum cs_status write_parts(struct cs_export *ex, const char **why)
{
    int n = ex->graph->n_modules;
    struct cs_export_part *parts = CS_NEW_ARRAY(ex->arena, struct cs_export_part, n + 1);
    enum cs_status status = CS_OK;
    for (int i = 0; i < n && status == CS_OK; i++) {
        parts[i].module = &ex->graph->modules[i];
        status = write_part(ex, &parts[i]);
    }
    if (status == CS_OK)
        status = cs_export_llava(ex, parts, n, why);
    for (int i = 0; i < n; i++) {
        cs_hfdir_close(parts[i].dir);
        json_decref(parts[i].config);
    }
    return status;
}

/* absent or an empty directory: only then may the result be put there */
static enum cs_status check_target(const char *dir, struct cs_err *err)
{
    DIR *open_dir = opendir(dir);
    bool is_empty = true;
    if (!open_dir && errno == ENOENT)
        return CS_OK;
    if (!open_dir && errno == ENOTDIR)
        return cs_fail(err, CS_EXISTS, "%s exists and is not a directory", dir);
    if (!open_dir)
        return cs_fail_errno(err, "cannot look into %s", dir);
    for (struct dirent *entry; is_empty && (entry = readdir(open_dir));)
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(open_dir);
    if (!is_empty)
        return cs_fail(err, CS_EXISTS, "%s exists and is not empty: name a new directory", dir);
    return CS_OK;
}

static enum cs_status make_root(struct cs_export *ex, const char *dir, char target[CS_PATH_CAP],
                                char parent[CS_PATH_CAP])
{
    CS_TRY(cs_path(target, ex->err, "%s", dir));
    for (size_t len = strlen(target); len > 1 && target[len - 1] == '/';)
        target[--len] = '\0';
    CS_TRY(check_target(target, ex->err));
    CS_TRY(cs_fs_parent(target, parent, ex->err));
    CS_TRY(cs_mkdirs(parent, ex->err));
    CS_TRY(cs_path(ex->root, ex->err, "%s.tmp-%ld", target, (long)getpid()));
    CS_TRY(cs_fs_remove_tree(ex->root, ex->err));
    if (mkdir(ex->root, 0777) == -1)
        return cs_fail_errno(ex->err, "cannot create directory %s", ex->root);
    return CS_OK;
}

static enum cs_status export_to(struct cs_export *ex, const char *dir)
{
    char target[CS_PATH_CAP], parent[CS_PATH_CAP];
    const char *why = NULL;
    CS_TRY(make_root(ex, dir, target, parent));
    enum cs_status status = write_parts(ex, &why);
    if (status == CS_OK)
        status = cs_fsync_dir(ex->root, ex->err);
    if (status == CS_OK && rename(ex->root, target) == -1)
        status = cs_fail_errno(ex->err, "cannot rename %s to %s", ex->root, target);
    if (status == CS_OK)
        status = cs_fsync_dir(parent, ex->err);
    if (status != CS_OK) {
        (void)!cs_fs_remove_tree(ex->root, NULL);
        return cs_wrap(ex->err, status, "exporting to %s", dir);
    }
    if (ex->err) {
        memset(ex->err, 0, sizeof *ex->err);
        if (why)
            snprintf(ex->err->text, sizeof(ex->err->text), "%s/llava was not written: %s", dir,
                     why);
    }
    return CS_OK;
}

enum cs_status cs_export_model(const struct cs_spec *spec, const struct cs_graph *graph,
                               cs_param_source source, void *user, const char *dtype,
                               const char *dir, struct cs_err *err)
{
    static const struct {
        const char *name;
        enum cs_dtype dtype;
    } dtypes[] = {
        {"float32",  CS_F32 },
        {"bfloat16", CS_BF16}
    };
    struct cs_export ex = {
        .spec = spec, .graph = graph, .source = source, .user = user, .err = err};
    for (size_t i = 0; i < CS_ARRAY_LEN(dtypes); i++)
        if (strcmp(dtype, dtypes[i].name) == 0) {
            ex.dtype_name = dtypes[i].name;
            ex.dtype = dtypes[i].dtype;
        }
    if (!ex.dtype_name)
        return cs_fail(err, CS_INVALID, "dtype \"%s\": float32 and bfloat16 are written", dtype);
    ex.arena = cs_arena_new(0);
    enum cs_status status = export_to(&ex, dir);
    cs_arena_free(ex.arena);
    return status;
}
