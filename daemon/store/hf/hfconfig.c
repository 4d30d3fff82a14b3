/* Parts of model directories: which there are, their configurations, whose tensor is whose. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "store/hf/hfdir_parts.h"

static int is_folder(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Of the folders in dir those that hold models, by name, the first few. */
static void list_models(const char *dir, struct cs_buf *out)
{
    enum { SHOWN = 8 };

    struct dirent **entry = NULL;
    int found = 0;
    const int n = scandir(dir, &entry, is_folder, alphasort);
    for (int i = 0; i < n; i++) {
        char path[CS_PATH_CAP];
        if (cs_path(path, NULL, "%s/%s/config.json", dir, entry[i]->d_name) == CS_OK &&
            cs_fs_exists(path) && ++found <= SHOWN)
            cs_buf_addf(out, "%s%s/%s", found > 1 ? ", " : "", dir, entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
    if (found > SHOWN)
        cs_buf_addf(out, " and %d more", found - SHOWN);
}

/* An adapter as PEFT writes it: no model by itself. */
static bool is_adapter(const char *dir)
{
    char path[CS_PATH_CAP];
    return cs_path(path, NULL, "%s/adapter_config.json", dir) == CS_OK && cs_fs_exists(path);
}

enum cs_status cs_hfdir_read_document(const char *dir, json_t **root, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf models = {0};
    *root = NULL;
    CS_TRY(cs_path(path, err, "%s/config.json", dir));
    enum cs_status status = cs_fs_read_json(path, root, err);
    if (status == CS_OK)
        return cs_composite_complete(*root) ? CS_OK
                                            : cs_fail(err, CS_NO_MEMORY, "no memory for %s", path);
    if (status == CS_NOT_FOUND)
        list_models(dir, &models);
    if (models.len > 0)
        status = cs_fail(err, status, "%s has no config.json, but holds model directories: name %s",
                         dir, cs_buf_str(&models));
    else if (status == CS_NOT_FOUND && is_adapter(dir))
        status =
            cs_fail(err, status,
                    "%s holds an adapter, not a model: name the directory of the model that it "
                    "belongs to, and the adapter in :lora { from = \"%s\" }",
                    dir, dir);
    else
        status = cs_wrap(err, status, "%s is not a Hugging Face model directory", dir);
    cs_buf_free(&models);
    return status;
}

enum cs_status cs_hfdir_list(const char *dir, const char *out[CS_MODULE_KINDS], int *n,
                             struct cs_err *err)
{
    json_t *root = NULL;
    CS_TRY(cs_hfdir_read_document(dir, &root, err));
    const struct cs_composite_family *family = cs_composite_of(root);
    *n = 0;
    for (int kind = 0; family && kind < CS_MODULE_KINDS; kind++)
        if (cs_hfdir_part(family, kind))
            out[(*n)++] = cs_hfdir_part(family, kind);
    if (!family)
        out[(*n)++] = "";
    json_decref(root);
    return CS_OK;
}

const char *cs_hfdir_part(const struct cs_composite_family *family, enum cs_module_kind kind)
{
    if (kind == CS_MODULE_ENCODER)
        return family->branch;
    if (kind == CS_MODULE_PROJECTOR)
        return "projector";
    return family->text_key ? "llm" : NULL;
}

/* where the part's configuration stands in config.json */
static const char *place(const struct cs_hfdir *dir)
{
    const struct cs_composite_family *family = dir->composite.family;
    if (!family || dir->kind == CS_MODULE_PROJECTOR)
        return "";
    return dir->kind == CS_MODULE_LLM ? family->text_key : family->encoder_key;
}

static enum cs_status read_root_keys(const struct cs_hfdir *dir, struct cs_findings *findings,
                                     struct cs_composite *out, struct cs_err *err)
{
    const struct cs_config_source source = {dir->document, "", dir->root, findings};
    return cs_composite_read(&source, dir->kind != CS_MODULE_LLM, out, err);
}

/* The kind of part that is asked for by its name; CS_MODULE_KINDS: the family has none of that name. */
static enum cs_module_kind kind_named(const struct cs_composite_family *family, const char *part)
{
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        if (cs_hfdir_part(family, kind) && strcmp(cs_hfdir_part(family, kind), part) == 0)
            return kind;
    return CS_MODULE_KINDS;
}

static enum cs_status choose_part(struct cs_hfdir *dir, struct cs_err *err)
{
    const struct cs_composite_family *family = cs_composite_of(dir->root);
    if (family && !family->text_key && *dir->part == '\0')
        dir->part = family->branch; /* of a tower with its projector, the tower */
    const bool is_part = *dir->part != '\0';
    if (!family && is_part)
        return cs_fail(err, CS_INVALID,
                       "%s: part \"%s\" was asked for, but its config.json is not that of a "
                       "composite: open the directory as a whole",
                       dir->path, dir->part);
    if (!family)
        return CS_OK;
    dir->kind = kind_named(family, dir->part);
    if (dir->kind < CS_MODULE_KINDS)
        return read_root_keys(dir, NULL, &dir->composite, err);
    return cs_fail(err, CS_INVALID,
                   "%s holds a composite %s model%s%s%s: open its part %s%s or projector",
                   dir->path, family->model_type, is_part ? ", which has no part \"" : "",
                   dir->part, is_part ? "\"" : "", family->branch, family->text_key ? ", llm" : "");
}

enum cs_status cs_hfdir_pick_config(struct cs_hfdir *dir, struct cs_err *err)
{
    const char *key;
    CS_TRY(choose_part(dir, err));
    key = place(dir);
    if (*dir->part && dir->kind == CS_MODULE_PROJECTOR)
        dir->config = cs_composite_projector(&dir->composite, dir->root);
    else if (*dir->part && dir->kind == CS_MODULE_LLM)
        dir->config = cs_composite_text(dir->composite.family, json_object_get(dir->root, key));
    else
        dir->config = json_incref(*key ? json_object_get(dir->root, key) : dir->root);
    if (!json_is_object(dir->config))
        return cs_fail(err, CS_CORRUPT, "%s/config.json: %s is missing or not an object", dir->path,
                       *key ? key : "the configuration");
    return CS_OK;
}

const char *cs_hfdir_own_name(const struct cs_hfdir *dir, const char *disk, const char **prefix)
{
    *prefix = "";
    if (!dir->composite.family)
        return disk;
    const struct cs_part_name *name = cs_composite_name(dir->composite.family, disk);
    if (!name || name->kind != dir->kind)
        return NULL;
    *prefix = name->component;
    return disk + strlen(name->disk);
}

bool cs_hfdir_is_of_some_part(const struct cs_hfdir *dir, const char *disk)
{
    return !dir->composite.family || cs_composite_name(dir->composite.family, disk);
}

/* The projector of a composite, with what its tower says of it; the tower. */
static enum cs_status read_joined(const struct cs_hfdir *dir, struct cs_findings *findings,
                                  struct cs_arena *arena, struct cs_projector *out,
                                  struct cs_arch *encoder, struct cs_err *err)
{
    const char *key = dir->composite.family->encoder_key;
    const json_t *tower = *key ? json_object_get(dir->root, key) : dir->root;
    const struct cs_config_source from = {dir->document, key, tower, NULL};
    const struct cs_config_source own = {dir->document, place(dir), dir->config, findings};
    CS_TRY(cs_projector_read(&own, out, NULL, err));
    CS_TRY(cs_arch_read(&from, arena, encoder, err));
    cs_projector_settle(encoder, out);
    return CS_OK;
}

/* A projector is as wide as its neighbours. */
static enum cs_status projector_arch(const struct cs_hfdir *dir, struct cs_findings *findings,
                                     struct cs_arena *arena, struct cs_arch *out,
                                     struct cs_err *err)
{
    const struct cs_composite_family *family = dir->composite.family;
    const json_t *text = family->text_key ? json_object_get(dir->root, family->text_key) : NULL;
    struct cs_projector projector;
    struct cs_arch encoder, llm;
    CS_TRY(read_joined(dir, findings, arena, &projector, &encoder, err));
    int32_t width = encoder.front.out_width;
    if (text) {
        CS_TRY(cs_arch_read(&(struct cs_config_source){dir->document, family->text_key, text, NULL},
                            arena, &llm, err));
        width = llm.width;
    }
    CS_TRY(cs_arch_projector(&projector, encoder.width, width, out, err));
    return cs_arch_join(&encoder, out, err);
}

enum cs_status cs_hfdir_arch(const struct cs_hfdir *dir, struct cs_findings *findings,
                             struct cs_arena *arena, struct cs_arch *out, struct cs_err *err)
{
    const struct cs_config_source source = {dir->document, place(dir), dir->config, findings};
    struct cs_composite root;
    if (*dir->part)
        CS_TRY(read_root_keys(dir, findings, &root, err));
    if (*dir->part && dir->kind == CS_MODULE_PROJECTOR)
        return projector_arch(dir, findings, arena, out, err);
    return cs_projector_is(dir->config) ? cs_arch_read_projector(&source, out, err)
                                        : cs_arch_read(&source, arena, out, err);
}

enum cs_status cs_hfdir_projector(const struct cs_hfdir *dir, struct cs_projector *out,
                                  struct cs_err *err)
{
    const struct cs_config_source source = {dir->document, place(dir), dir->config, NULL};
    if (!dir->composite.family)
        return cs_projector_read(&source, out, NULL, err);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch encoder;
    const enum cs_status status = read_joined(dir, NULL, arena, out, &encoder, err);
    cs_arena_free(arena);
    return status;
}
