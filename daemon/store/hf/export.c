/* Exporting a model: component directories, then the whole, then one rename; see export.h. */
#include <stdio.h>
#include <string.h>

#include "core/base/units.h"
#include "store/hf/export_parts.h"
#include "store/hf/peft.h"

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

static enum cs_status prepare_part(struct cs_export *ex, struct cs_export_part *part)
{
    name_folder(ex, part);
    if (!cs_fs_is_plain_name(part->folder))
        return cs_fail(ex->err, CS_INVALID, "module name %s cannot name a directory",
                       part->module->name);
    CS_TRY(open_source(ex, part));
    CS_TRY(cs_export_gather(ex, part));
    return cs_export_config(ex, part);
}

static enum cs_status write_part(struct cs_export *ex, struct cs_export_part *part)
{
    char path[CS_PATH_CAP];
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

/* DIR/llm.adapter and the like, where the module has adapters: for PEFT, beside the whole model where
 * there is one of the directory that the parts came from, else beside the component. */
static enum cs_status write_adapters(struct cs_export *ex, const struct cs_export_part *part,
                                     const struct cs_export_whole *whole)
{
    char path[CS_PATH_CAP], folder[160];
    bool has_adapters = false;
    for (int32_t i = 0; i < ex->graph->n_adapters; i++)
        has_adapters |=
            &ex->graph->modules[ex->graph->params[ex->graph->adapters[i].param].module] ==
            part->module;
    if (!has_adapters)
        return CS_OK;
    const struct cs_composite *root =
        whole->folder && part->dir ? cs_hfdir_composite(part->dir) : NULL;
    snprintf(folder, sizeof folder, "%s.adapter", part->folder);
    CS_TRY(cs_export_put_folder(ex, folder));
    CS_TRY(cs_path(path, ex->err, "%s/%s", ex->root, folder));
    return cs_peft_write(ex->graph, part->module, root ? root->family : NULL,
                         part->dir ? cs_hfdir_path(part->dir) : part->folder, ex->source, ex->user,
                         path, ex->err);
}

/* Better said now than after most of it was written. Weights alone are counted: what else there is
 * fits into a few megabytes, and a file system that is full says so itself. */
static enum cs_status check_room(const struct cs_export *ex, const struct cs_export_part *parts,
                                 int n, int copies)
{
    char need[CS_UNITS_CAP], left[CS_UNITS_CAP];
    uint64_t bytes = 0, free = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < parts[i].n_tensors; k++)
            bytes += cs_st_out_bytes(&parts[i].tensor[k]);
    bytes *= (uint64_t)copies;
    if (cs_fs_free_bytes(ex->root, &free, NULL) != CS_OK || bytes <= free)
        return CS_OK; /* not every file system tells */
    cs_bytes_print(need, sizeof need, bytes);
    cs_bytes_print(left, sizeof left, free);
    return cs_fail(
        ex->err, CS_NO_SPACE,
        "its weights take %s as %s and %s are free there: make room, or name a directory "
        "on a larger disk",
        need, ex->dtype_name, left);
}

static enum cs_status write_parts(struct cs_export *ex)
{
    int n = ex->graph->n_modules;
    struct cs_export_part *parts = CS_NEW_ARRAY(ex->arena, struct cs_export_part, n + 1);
    struct cs_export_whole whole;
    enum cs_status status = CS_OK;
    for (int i = 0; i < n && status == CS_OK; i++) {
        parts[i].module = &ex->graph->modules[i];
        status = prepare_part(ex, &parts[i]);
    }
    if (status == CS_OK)
        status = cs_export_whole_plan(ex, parts, n, &whole);
    if (status == CS_OK) /* the whole model holds all of them once more */
        status = check_room(ex, parts, n, whole.folder ? 2 : 1);
    for (int i = 0; i < n && status == CS_OK; i++)
        status = write_part(ex, &parts[i]);
    for (int i = 0; i < n && status == CS_OK; i++)
        status = write_adapters(ex, &parts[i], &whole);
    if (status == CS_OK && whole.folder)
        status = cs_export_whole_write(ex, &whole);
    ex->report->whole = whole.folder;
    ex->report->no_whole = whole.why_not;
    for (int i = 0; i < n; i++) {
        cs_hfdir_close(parts[i].dir);
        json_decref(parts[i].config);
    }
    return status;
}

static enum cs_status export_to(struct cs_export *ex, const char *dir)
{
    struct cs_export_target target;
    CS_TRY(cs_export_begin(&target, dir, ex->err));
    ex->root = target.root;
    return cs_export_end(&target, write_parts(ex), ex->err);
}

enum cs_status cs_export_model(const struct cs_spec *spec, const struct cs_graph *graph,
                               cs_param_source source, void *user, const char *dtype,
                               const char *dir, struct cs_export_report *report, struct cs_err *err)
{
    static const struct {
        const char *name;
        enum cs_dtype dtype;
    } dtypes[] = {
        {"float32",  CS_F32 },
        {"bfloat16", CS_BF16}
    };
    struct cs_export ex = {
        .spec = spec, .graph = graph, .source = source, .user = user, .report = report, .err = err};
    *report = (struct cs_export_report){0};
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
