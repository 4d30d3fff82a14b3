/* Parts of model directories: which there are, their configurations, whose tensor is whose. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "store/hf/hfdir_parts.h"

/* Names on disk -> names in the component's own directory. The first row of the part that fits
 * wins. */
static const struct {
    const char *part, *disk, *component;
} renames[] = {
    {"vision",    "vision_tower.",                ""        }, /* as saved */
    {"vision",    "model.vision_tower.",          ""        }, /* as in memory since transformers 4.52 */
    {"llm",       "language_model.",              ""        },
    {"llm",       "model.language_model.",        "model."  },
    {"llm",       "lm_head.",                     "lm_head."},
    {"projector", "multi_modal_projector.",       ""        },
    {"projector", "model.multi_modal_projector.", ""        },
};

/* of a composite, in the order of the data */
static const char *const parts[] = {"vision", "projector", "llm"};
_Static_assert(CS_ARRAY_LEN(parts) == CS_MODULE_KINDS, "one part per kind");

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

enum cs_status cs_hfdir_read_document(const char *dir, json_t **root, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf models = {0};
    *root = NULL;
    CS_TRY(cs_path(path, err, "%s/config.json", dir));
    enum cs_status status = cs_fs_read_json(path, root, err);
    if (status == CS_OK)
        return CS_OK;
    if (status == CS_NOT_FOUND)
        list_models(dir, &models);
    if (models.len > 0)
        status = cs_fail(err, status, "%s has no config.json, but holds model directories: name %s",
                         dir, cs_buf_str(&models));
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
    *n = cs_composite_is(root) ? CS_MODULE_KINDS : 1;
    for (int i = 0; i < *n; i++)
        out[i] = *n == 1 ? "" : parts[i];
    json_decref(root);
    return CS_OK;
}

/* LLaVA keeps no configuration of the projector: made from what fixes it. */
static json_t *projector_config(const struct cs_composite *composite, const json_t *root)
{
    return json_pack(
        "{s:s, s:i, s:s, s:b, s:O*, s:O*}", "model_type", "mlp", "n_layers", 2, "activation",
        composite->activation, "bias", (int)composite->has_bias, "in_width",
        json_object_get(json_object_get(root, "vision_config"), "hidden_size"), "out_width",
        json_object_get(json_object_get(root, "text_config"), "hidden_size"));
}

/* where the part's configuration stands in config.json */
static const char *place(const struct cs_hfdir *dir)
{
    if (strcmp(dir->part, "vision") == 0)
        return "vision_config";
    return strcmp(dir->part, "llm") == 0 ? "text_config" : "";
}

static enum cs_status read_root_keys(const struct cs_hfdir *dir, struct cs_findings *findings,
                                     struct cs_composite *out, struct cs_err *err)
{
    const struct cs_config_source source = {dir->document, "", dir->root, findings};
    return cs_composite_read(&source, strcmp(dir->part, "llm") != 0, out, err);
}

enum cs_status cs_hfdir_pick_config(struct cs_hfdir *dir, struct cs_err *err)
{
    bool is_part = *dir->part != '\0';
    if (cs_composite_is(dir->root) != is_part)
        return cs_fail(err, CS_INVALID,
                       is_part ? "%s: part \"%s\" was asked for, but its config.json is not of "
                                 "model_type llava: open the directory as a whole"
                               : "%s holds a composite llava model%s: open its part vision, llm or "
                                 "projector",
                       dir->path, dir->part);
    if (is_part)
        CS_TRY(read_root_keys(dir, NULL, &dir->composite, err));
    if (!is_part)
        dir->config = json_incref(dir->root);
    else if (strcmp(dir->part, "projector") == 0)
        dir->config = projector_config(&dir->composite, dir->root);
    else
        dir->config = json_incref(json_object_get(dir->root, place(dir)));
    if (!json_is_object(dir->config))
        return cs_fail(err, CS_CORRUPT, "%s/config.json: %s is missing or not an object", dir->path,
                       is_part ? place(dir) : "the configuration");
    return CS_OK;
}

const char *cs_hfdir_component_name(const char *part, const char *disk, const char **prefix)
{
    *prefix = "";
    if (*part == '\0')
        return disk;
    for (size_t i = 0; i < CS_ARRAY_LEN(renames); i++) {
        size_t len = strlen(renames[i].disk);
        if (strcmp(part, renames[i].part) == 0 && strncmp(disk, renames[i].disk, len) == 0 &&
            disk[len] != '\0') {
            *prefix = renames[i].component;
            return disk + len;
        }
    }
    return NULL;
}

bool cs_hfdir_is_of_some_part(const struct cs_hfdir *dir, const char *disk)
{
    const char *prefix;
    bool is_known = *dir->part == '\0';
    for (size_t i = 0; !is_known && i < CS_ARRAY_LEN(parts); i++)
        is_known = cs_hfdir_component_name(parts[i], disk, &prefix) != NULL;
    return is_known;
}

enum cs_status cs_hfdir_arch(const struct cs_hfdir *dir, struct cs_findings *findings,
                             struct cs_arena *arena, struct cs_arch *out, struct cs_err *err)
{
    const struct cs_config_source source = {dir->document, place(dir), dir->config, findings};
    struct cs_composite root;
    if (*dir->part)
        CS_TRY(read_root_keys(dir, findings, &root, err));
    return cs_projector_is(dir->config) ? cs_arch_read_projector(&source, out, err)
                                        : cs_arch_read(&source, arena, out, err);
}

enum cs_status cs_hfdir_projector(const struct cs_hfdir *dir, struct cs_projector *out,
                                  struct cs_err *err)
{
    const struct cs_config_source source = {dir->document, place(dir), dir->config, NULL};
    return cs_projector_read(&source, out, NULL, err);
}
