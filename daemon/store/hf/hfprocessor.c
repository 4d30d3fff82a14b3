/* What turns pictures, videos and sounds into the rows of a directory's tower. */
#include <string.h>

#include "store/hf/hfdir_parts.h"

static enum cs_status read_optional(const struct cs_hfdir *dir, const char *name, json_t **out,
                                    struct cs_err *err)
{
    char path[CS_PATH_CAP];
    *out = NULL;
    CS_TRY(cs_path(path, err, "%s/%s", dir->path, name));
    return cs_fs_exists(path) ? cs_fs_read_json(path, out, err) : CS_OK;
}

static json_t *nested(const json_t *all, const char *key)
{
    json_t *part = json_object_get(all, key);
    return json_is_null(part) ? NULL : json_incref(part);
}

/* InternVL as its authors write it. */
static bool is_chat(const struct cs_hfdir *dir)
{
    const char *type = json_string_value(json_object_get(dir->root, "model_type"));
    return type && strcmp(type, "internvl_chat") == 0;
}

/* That names the feature extractor of CLIP, of which it uses the colours alone; how pictures are cut
 * stands in config.json. With the defaults of its classes. */
static enum cs_status make_tiles(struct cs_hfdir *dir, struct cs_err *err)
{
    static const struct {
        const char *theirs, *ours;
        int fallback;
    } counts[] = {
        {"min_dynamic_patch", "min_patches", 1},
        {"max_dynamic_patch", "max_patches", 6},
    };

    static const char *const colours[] = {"image_mean", "image_std"};
    static const double imagenet[2][3] = {
        {0.485, 0.456, 0.406},
        {0.229, 0.224, 0.225}
    };
    const bool is_cut = json_is_true(json_object_get(dir->root, "dynamic_image_size"));
    const json_t *side = json_object_get(dir->root, "force_image_size");
    if (!json_is_integer(side))
        side = json_object_get(json_object_get(dir->root, "vision_config"), "image_size");
    if (is_cut && !json_is_true(json_object_get(dir->root, "use_thumbnail")))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s: use_thumbnail is not true: tiles without the whole picture behind them "
                       "are not supported",
                       dir->document);
    json_t *made = json_pack("{s:s, s:{s:O?, s:O?}, s:b, s:i}", "image_processor_type",
                             "GotOcr2ImageProcessor", "size", "height", side, "width", side,
                             "crop_to_patches", (int)is_cut, "resample", 3);
    for (size_t i = 0; made && i < CS_ARRAY_LEN(counts); i++) {
        json_t *said = json_object_get(dir->root, counts[i].theirs);
        json_object_set_new(made, counts[i].ours,
                            said ? json_incref(said) : json_integer(counts[i].fallback));
    }
    for (size_t i = 0; made && i < CS_ARRAY_LEN(colours); i++) {
        json_t *said = json_object_get(dir->processor, colours[i]);
        const double *usual = imagenet[i];
        json_object_set_new(made, colours[i],
                            said ? json_incref(said)
                                 : json_pack("[f, f, f]", usual[0], usual[1], usual[2]));
    }
    if (!made)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the processor of %s", dir->path);
    json_decref(dir->processor);
    dir->processor = made;
    return CS_OK;
}

/* As in transformers 5: what processor_config.json nests holds over the files of their own. Who calls it
 * stands around it, and sets options of its own. */
enum cs_status cs_hfdir_read_processor(struct cs_hfdir *dir, struct cs_err *err)
{
    json_t *all = NULL;
    CS_TRY(read_optional(dir, "processor_config.json", &all, err));
    json_t *caller = json_object_get(all, "processor_class");
    if (strcmp(dir->part, "audio") != 0)
        dir->processor = nested(all, "image_processor");
    if (!dir->processor)
        dir->processor = nested(all, "feature_extractor");
    if (json_is_string(caller) && json_is_object(dir->processor) &&
        json_object_get(dir->processor, "processor_class") == NULL)
        json_object_set(dir->processor, "processor_class", caller);
    dir->video = nested(all, "video_processor");
    json_decref(all);
    if (!dir->video)
        CS_TRY(read_optional(dir, "video_preprocessor_config.json", &dir->video, err));
    if (!dir->processor)
        CS_TRY(read_optional(dir, "preprocessor_config.json", &dir->processor, err));
    return strcmp(dir->part, "vision") == 0 && is_chat(dir) ? make_tiles(dir, err) : CS_OK;
}
