/* Lists the pictures of a folder in the order of their numbers. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/io.h"
#include "input/media/video/clip_parts.h"

enum { ENTRIES_MAX = 1 << 20 };

static int by_number(const void *a, const void *b)
{
    return strverscmp(((const struct cs_clip_picture *)a)->name,
                      ((const struct cs_clip_picture *)b)->name);
}

static enum cs_status add(struct cs_clip_folder *folder, size_t *room, const char *path,
                          const char *name, struct cs_err *err)
{
    char file[CS_PATH_CAP];

    CS_TRY(cs_path(file, err, "%s/%s", path, name));
    if (folder->n == ENTRIES_MAX)
        return cs_fail(err, CS_LIMIT, "%s: more than %d files", path, ENTRIES_MAX);
    if ((size_t)folder->n == *room) {
        const size_t larger = *room * 2 + 64;
        struct cs_clip_picture *more = realloc(folder->pictures, larger * sizeof *more);
        if (more == NULL)
            return cs_fail(err, CS_NO_MEMORY, "%s: no memory for the names of its files", path);
        folder->pictures = more;
        *room = larger;
    }
    folder->pictures[folder->n] = (struct cs_clip_picture){.name = strdup(file)};
    if (folder->pictures[folder->n].name == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory for the names of its files", path);
    folder->n++;
    return CS_OK;
}

enum cs_status cs_clip_folder_list(const char *path, struct cs_clip_folder *out, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    size_t room = 0;
    DIR *dir = opendir(path);

    *out = (struct cs_clip_folder){0};
    if (dir == NULL)
        return cs_fail_errno(err, "%s", path);
    for (struct dirent *e = NULL; status == CS_OK && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.') /* hidden files are no frames */
            status = add(out, &room, path, e->d_name, err);
    closedir(dir);
    if (status == CS_OK && out->n == 0)
        status = cs_fail(err, CS_INVALID, "%s: an empty folder, no video", path);
    if (status != CS_OK)
        cs_clip_folder_free(out);
    else
        qsort(out->pictures, (size_t)out->n, sizeof *out->pictures, by_number);
    return status;
}

void cs_clip_folder_free(struct cs_clip_folder *folder)
{
    for (int32_t i = 0; i < folder->n; i++)
        free((void *)(uintptr_t)folder->pictures[i].name);
    free(folder->pictures);
    *folder = (struct cs_clip_folder){0};
}
