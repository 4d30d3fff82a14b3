/* All parts as one directory. */
#include <string.h>

#include "store/hf/export_parts.h"

/* A tower that is saved with its projector: no part of its family is a language model. */
static bool is_tower(const struct cs_export_whole *whole)
{
    const struct cs_export_part *encoder = whole->of[CS_MODULE_ENCODER];
    const struct cs_composite *root =
        encoder && encoder->dir ? cs_hfdir_composite(encoder->dir) : NULL;
    return root && !root->family->text_key;
}

/* The composite directory that every part of its family came from, NULL: they have several sources, or
 * none. */
static const struct cs_hfdir *source_of(const struct cs_export_whole *whole)
{
    const struct cs_hfdir *first = NULL;
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++) {
        const struct cs_export_part *part = whole->of[kind];
        if (kind == CS_MODULE_LLM && is_tower(whole))
            continue;
        if (!part || !part->dir || !cs_hfdir_composite(part->dir))
            return NULL;
        if (first && strcmp(cs_hfdir_path(first), cs_hfdir_path(part->dir)) != 0)
            return NULL;
        first = first ? first : part->dir;
    }
    return first;
}

/* The state that feeds the projector is the one that the composite means. */
static bool is_as_trained(const struct cs_export_whole *whole, const struct cs_hfdir *source)
{
    const struct cs_composite *root = cs_hfdir_composite(source);
    const struct cs_spec_module *encoder = whole->of[CS_MODULE_ENCODER]->module->spec;
    return encoder->has_feature_layer != root->has_final_norm &&
           (root->has_final_norm || encoder->feature_layer == root->feature_layer);
}

/* llava's own files say what a job may have changed; all others go back as they came */
static bool is_copied(const struct cs_export_whole *whole)
{
    const struct cs_hfdir *source = source_of(whole);
    return source && is_as_trained(whole, source) &&
           strcmp(cs_hfdir_composite(source)->family->model_type, "llava") != 0;
}

enum cs_status cs_export_whole_plan(struct cs_export *ex, const struct cs_export_part *parts,
                                    int n_parts, struct cs_export_whole *out)
{
    *out = (struct cs_export_whole){.image_token = -1};
    for (int i = 0; i < n_parts; i++)
        out->of[parts[i].module->kind] = &parts[i];
    if (ex->graph->n_encoders != 1 || !is_copied(out))
        return cs_export_llava_plan(ex, out);
    out->folder = cs_hfdir_composite(source_of(out))->family->model_type;
    if (is_tower(out)) {
        out->of[CS_MODULE_LLM] = NULL;
        out->why_not =
            "the tower is written with its projector, as its class has them, and the language "
            "model by itself: no class of transformers has both";
    }
    return CS_OK;
}

static const struct cs_composite_family *family_of(const struct cs_export_whole *whole)
{
    const struct cs_hfdir *source = is_copied(whole) ? source_of(whole) : NULL;
    int n;
    return source ? cs_hfdir_composite(source)->family : cs_composite_families(&n);
}

static bool has_tensor(const struct cs_export_whole *whole, const char *disk)
{
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        if (whole->of[kind] && whole->of[kind]->dir &&
            cs_hfdir_has_disk_name(whole->of[kind]->dir, disk))
            return true;
    return false;
}

/* A tensor of a part under the name that the source has for it, else under the family's first. */
static const char *disk_name(const struct cs_export *ex, const struct cs_export_whole *whole,
                             const struct cs_composite_family *family, enum cs_module_kind kind,
                             const char *name)
{
    const char *first = NULL;
    for (int i = 0; i < family->n_names; i++) {
        const struct cs_part_name *row = &family->names[i];
        const size_t len = strlen(row->component);
        if (row->kind != kind || strncmp(name, row->component, len) != 0)
            continue;
        const char *disk = cs_arena_printf(ex->arena, "%s%s", row->disk, name + len);
        const struct cs_part_name *owner = cs_composite_name(family, disk);
        if (owner == NULL || owner->kind != kind)
            continue;
        if (is_copied(whole) && has_tensor(whole, disk))
            return disk;
        first = first ? first : disk;
    }
    return first;
}

static enum cs_status write_weights(const struct cs_export *ex, const struct cs_export_whole *whole)
{
    const struct cs_composite_family *family = family_of(whole);
    char path[CS_PATH_CAP];
    int n = 0, room = 0;
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++)
        room += whole->of[kind] ? whole->of[kind]->n_tensors : 0;
    struct cs_st_out *all = CS_NEW_ARRAY(ex->arena, struct cs_st_out, room + 1);
    for (int kind = 0; kind < CS_MODULE_KINDS; kind++) {
        const struct cs_export_part *part = whole->of[kind];
        for (int i = 0; part && i < part->n_tensors; i++) {
            all[n] = part->tensor[i];
            all[n].name = disk_name(ex, whole, family, kind,
                                    cs_export_plain_name(part->module, part->tensor[i].name));
            if (!all[n++].name)
                return cs_fail(ex->err, CS_INTERNAL, "%s has no name in a %s directory",
                               part->tensor[i].name, family->model_type);
        }
    }
    CS_TRY(cs_path(path, ex->err, "%s/%s/model.safetensors", ex->root, whole->folder));
    return cs_st_write(path, all, n, NULL, NULL, ex->err);
}

/* The source's own root: of what it says a job changes the type of the weights and the tie alone. */
static enum cs_status write_root(const struct cs_export *ex, const struct cs_export_whole *whole)
{
    static const char tie[] = "tie_word_embeddings";
    const struct cs_export_part *llm = whole->of[CS_MODULE_LLM];
    const bool is_tied = llm && llm->module->arch.is_tied;
    json_t *config = json_deep_copy(cs_hfdir_root_config(source_of(whole)));
    const char *text_key = family_of(whole)->text_key;
    json_t *text = text_key ? json_object_get(config, text_key) : NULL;
    if (!config)
        return cs_fail(ex->err, CS_NO_MEMORY, "no memory for the configuration");
    cs_export_set_dtype(config, ex->dtype_name);
    if (llm)
        json_object_set_new(config, tie, json_boolean(is_tied));
    if (json_object_get(text, tie))
        json_object_set_new(text, tie, json_boolean(is_tied));
    const enum cs_status status = cs_export_put_json(ex, whole->folder, "config.json", config);
    json_decref(config);
    return status;
}

enum cs_status cs_export_whole_write(struct cs_export *ex, const struct cs_export_whole *whole)
{
    CS_TRY(cs_export_put_folder(ex, whole->folder));
    CS_TRY(write_weights(ex, whole));
    if (!is_copied(whole))
        return cs_export_llava_files(ex, whole);
    CS_TRY(write_root(ex, whole));
    return cs_export_copy_all(ex, cs_hfdir_path(source_of(whole)), whole->folder);
}
