/* The small files of an exported component: folders, configurations, and the tokenizer's and the
 * processor's files, which are copied byte for byte. */
#include <string.h>
#include <sys/stat.h>

#include "core/doc/tokenizer_files.h"
#include "store/hf/export_parts.h"

/* Older forms of what tokenizer.json holds, for those who read them. */
static const char *const older_files[] = {"vocab.json", "merges.txt"};

static const char *const processor_files[] = {"preprocessor_config.json", "processor_config.json",
                                              "video_preprocessor_config.json"};

enum cs_status cs_export_put_folder(const struct cs_export *ex, const char *folder)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, ex->err, "%s/%s", ex->root, folder));
    if (mkdir(path, 0777) == -1) /* what others may read is the caller's umask */
        return cs_fail_errno(ex->err, "cannot create directory %s", path);
    return CS_OK;
}

enum cs_status cs_export_put_json(const struct cs_export *ex, const char *folder, const char *name,
                                  const json_t *json)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, ex->err, "%s/%s/%s", ex->root, folder, name));
    return cs_fs_write_json(path, json, NULL, NULL, ex->err);
}

/* byte for byte; a file that is not there is no error */
static enum cs_status copy_if(const struct cs_export *ex, const char *dir, const char *name,
                              const char *folder, bool *is_copied)
{
    char from[CS_PATH_CAP], to[CS_PATH_CAP];
    *is_copied = false;
    if (!*dir)
        return CS_OK;
    CS_TRY(cs_path(from, ex->err, "%s/%s", dir, name));
    CS_TRY(cs_path(to, ex->err, "%s/%s/%s", ex->root, folder, name));
    if (!cs_fs_exists(from))
        return CS_OK;
    *is_copied = true;
    return cs_fs_copy(from, to, ex->err);
}

static enum cs_status copy_tokenizer_files(const struct cs_export *ex, const char *dir,
                                           const char *folder)
{
    bool is_copied = false;
    for (int i = 0; cs_tokenizer_file(i) != NULL; i++)
        CS_TRY(copy_if(ex, dir, cs_tokenizer_file(i), folder, &is_copied));
    for (size_t i = 0; i < CS_ARRAY_LEN(older_files); i++)
        CS_TRY(copy_if(ex, dir, older_files[i], folder, &is_copied));
    return CS_OK;
}

enum cs_status cs_export_copy_tokenizer(const struct cs_export *ex,
                                        const struct cs_export_part *llm, const char *folder)
{
    bool is_copied = false;
    const char *weights_dir = llm->dir ? cs_hfdir_path(llm->dir) : "";
    CS_TRY(copy_tokenizer_files(ex, cs_export_tokenizer_dir(llm), folder));
    return copy_if(ex, weights_dir, "generation_config.json", folder, &is_copied);
}

enum cs_status cs_export_copy_processor(const struct cs_export *ex,
                                        const struct cs_export_part *vision, const char *folder)
{
    static const char name[] = "preprocessor_config.json";
    bool is_copied = false;
    const json_t *processor = vision->module->spec->processor;
    CS_TRY(copy_if(ex, vision->dir ? cs_hfdir_path(vision->dir) : "", name, folder, &is_copied));
    if (!is_copied && !json_is_object(processor) && vision->dir)
        processor = cs_hfdir_processor(vision->dir);
    if (!is_copied && json_is_object(processor))
        return cs_export_put_json(ex, folder, name, processor);
    return CS_OK;
}

enum cs_status cs_export_copy_processors(const struct cs_export *ex, const char *dir,
                                         const char *folder)
{
    bool is_copied = false;
    for (size_t i = 0; i < CS_ARRAY_LEN(processor_files); i++)
        CS_TRY(copy_if(ex, dir, processor_files[i], folder, &is_copied));
    return CS_OK;
}

enum cs_status cs_export_copy_all(const struct cs_export *ex, const char *dir, const char *folder)
{
    bool is_copied = false;
    CS_TRY(copy_tokenizer_files(ex, dir, folder));
    CS_TRY(cs_export_copy_processors(ex, dir, folder));
    return copy_if(ex, dir, "generation_config.json", folder, &is_copied);
}
