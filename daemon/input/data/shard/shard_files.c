/* Finds the files that a data set's path names. */
#include "input/data/shard/shard_files.h"

#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Ends of the names of files that are taken from a folder. What is not read is named by its file's error: of a data
 * set in Arrow files the JSON beside them is not the samples. */
static const char *const ends[] = {".parquet", ".tar", ".jsonl", ".arrow", ".json", ".csv",
                                   ".tsv",     ".txt", ".gz",    ".zst",   ".zip"};

static bool has_end(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n > n_end && name[0] != '.' && strcmp(name + n - n_end, end) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_name(struct cs_shard_files *f, const char *path)
{
    if ((f->n & (f->n - 1)) == 0) { /* full at powers of two */
        const char **more = CS_NEW_ARRAY(f->arena, const char *, f->n == 0 ? 1 : 2 * f->n);
        if (f->n > 0)
            memcpy(more, f->names, f->n * sizeof *more);
        f->names = more;
    }
    f->names[f->n++] = cs_arena_strdup(f->arena, path);
}

/* All files of the first kind that the folder has. */
static enum cs_status list_folder(struct cs_shard_files *f, const char *path, struct cs_err *err)
{
    for (size_t k = 0; k < CS_ARRAY_LEN(ends) && f->n == 0; k++) {
        DIR *dir = opendir(path);
        const struct dirent *entry = NULL;
        if (dir == NULL)
            return cs_fail_errno(err, "folder %s", path);
        while ((entry = readdir(dir)) != NULL)
            if (has_end(entry->d_name, ends[k]))
                add_name(f, cs_arena_printf(f->arena, "%s/%s", path, entry->d_name));
        closedir(dir);
    }
    if (f->n == 0)
        return cs_fail(err, CS_NOT_FOUND,
                       "data set: the folder %s has no .parquet, .tar, .jsonl or .json files",
                       path);
    qsort(f->names, f->n, sizeof *f->names, by_name);
    return CS_OK;
}

enum cs_status cs_shard_files_list(struct cs_shard_files *f, const char *path, struct cs_err *err)
{
    struct stat st;
    glob_t found = {0};

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return list_folder(f, path, err);
    if (strpbrk(path, "*?[") == NULL || stat(path, &st) == 0) {
        add_name(f, path);
        return CS_OK;
    }
    if (glob(path, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) /* sorted by name */
            add_name(f, found.gl_pathv[i]);
    globfree(&found);
    return f->n > 0 ? CS_OK : cs_fail(err, CS_NOT_FOUND, "data set: no file is called %s", path);
}

enum cs_status cs_shard_files_bytes(const char *path, uint64_t *bytes, struct cs_err *err)
{
    struct cs_shard_files files = {.arena = cs_arena_new(0)};
    enum cs_status status = cs_shard_files_list(&files, path, err);
    struct stat st;

    *bytes = 0;
    for (size_t i = 0; i < files.n && status == CS_OK; i++)
        if (stat(files.names[i], &st) == -1)
            status = cs_fail_errno(err, "%s", files.names[i]);
        else
            *bytes += (uint64_t)st.st_size;
    cs_arena_free(files.arena);
    return status;
}
