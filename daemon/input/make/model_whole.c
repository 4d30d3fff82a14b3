/* Whole composites: what lies beside their configuration, and the weights of their parts. */
#include <string.h>

#include "core/base/system/io.h"
#include "core/doc/tokenizer_files.h"
#include "input/make/model_parts.h"
#include "store/fsio.h"
#include "store/hf/hfdir.h"

/* A file beside the configuration; one that is not there is no error. */
static enum cs_status copy(const struct cs_model_init *init, const char *name, struct cs_err *err)
{
    char from[CS_PATH_CAP], to[CS_PATH_CAP];
    const char *slash = strrchr(init->config, '/');
    const int n = slash != NULL ? (int)(slash - init->config) + 1 : 0;

    CS_TRY(cs_path(from, err, "%.*s%s", n, init->config, name));
    CS_TRY(cs_path(to, err, "%s/%s", init->dir, name));
    return cs_fs_exists(from) && !cs_fs_exists(to) ? cs_fs_copy(from, to, err) : CS_OK;
}

enum cs_status cs_make_copies(const struct cs_model_init *init, struct cs_err *err)
{
    static const char *const documents[] = {"preprocessor_config.json", "processor_config.json",
                                            "video_preprocessor_config.json", "chat_template.jinja",
                                            "chat_template.json"};

    for (size_t i = 0; i < CS_ARRAY_LEN(documents); i++)
        CS_TRY(copy(init, documents[i], err));
    for (int i = 0; init->text == NULL && cs_tokenizer_file(i) != NULL; i++)
        CS_TRY(copy(init, cs_tokenizer_file(i), err));
    return CS_OK;
}

/* Weights of one part, behind those that are there. */
static enum cs_status add_part(const struct cs_model_init *init, const char *part,
                               struct cs_arena *arena, struct cs_st_out **all, int *n_all,
                               struct cs_err *err)
{
    struct cs_hfdir *dir = NULL;
    struct cs_arch arch;
    struct cs_st_out *own = NULL;

    CS_TRY(cs_hfdir_open(init->dir, part, &dir, err));
    const enum cs_status status = cs_hfdir_arch(dir, init->findings, arena, &arch, err);
    if (status == CS_OK) {
        const int n =
            cs_make_weights(&arch, cs_hfdir_composite(dir)->family, init->seed, arena, &own);
        struct cs_st_out *both = CS_NEW_ARRAY(arena, struct cs_st_out, *n_all + n);
        for (int i = 0; i < *n_all + n; i++)
            both[i] = i < *n_all ? (*all)[i] : own[i - *n_all];
        *all = both;
        *n_all += n;
    }
    cs_hfdir_close(dir);
    return status;
}

enum cs_status cs_make_whole(const struct cs_model_init *init, struct cs_arena *arena,
                             struct cs_err *err)
{
    const char *part[CS_MODULE_KINDS];
    char path[CS_PATH_CAP];
    struct cs_st_out *all = NULL;
    int n = 0, n_all = 0;

    CS_TRY(cs_hfdir_list(init->dir, part, &n, err));
    for (int i = 0; i < n; i++)
        CS_TRY(add_part(init, part[i], arena, &all, &n_all, err));
    CS_TRY(cs_path(path, err, "%s/model.safetensors", init->dir));
    return cs_st_write(path, all, n_all, NULL, NULL, err);
}
