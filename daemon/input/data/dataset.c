/* Opens a data set and reads item i of it. */
#include "input/data/dataset.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input/data/index.h"
#include "input/data/json_tolerant.h"

struct cs_dataset {
    int fd;
    struct cs_arena *arena;
    const char *path, *root, *named_root; /* root: real path; named_root: as it was given */
    bool follows_links;
    const struct cs_record_keys *keys;
    struct cs_index index;
};

static enum cs_status set_root(struct cs_dataset *set, const char *root, struct cs_err *err)
{
    char real[CS_PATH_CAP], folder[CS_PATH_CAP];
    const char *slash = strrchr(set->path, '/');

    if (root[0] == '\0') {
        if (slash == NULL)
            root = ".";
        else if (slash == set->path)
            root = "/";
        else {
            CS_TRY(cs_path(folder, err, "%.*s", (int)(slash - set->path), set->path));
            root = folder;
        }
    }
    if (realpath(root, real) == NULL)
        return cs_fail_errno(err, "folder of the pictures %s", root);
    set->root = cs_arena_strdup(set->arena, real);
    set->named_root = cs_arena_strdup(set->arena, root);
    return CS_OK;
}

enum cs_status cs_dataset_open(const char *path, const struct cs_dataset_options *options,
                               const struct cs_record_keys *keys, struct cs_dataset **out,
                               struct cs_err *err)
{
    struct cs_dataset *set = calloc(1, sizeof *set);
    enum cs_status status = CS_OK;

    *out = NULL;
    if (set == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", path);
    set->arena = cs_arena_new(0);
    set->path = cs_arena_strdup(set->arena, path);
    set->keys = keys;
    set->follows_links = options->follows_links;
    status = cs_open_regular(path, &set->fd, NULL, err);
    if (status != CS_OK)
        cs_wrap(err, status, "data set");
    if (status == CS_OK)
        status = set_root(set, options->root, err);
    if (status == CS_OK)
        status = cs_index_make(set->fd, path, options->max_items, &set->index, err);
    if (status != CS_OK) {
        cs_dataset_close(set);
        return status;
    }
    *out = set;
    return CS_OK;
}

void cs_dataset_close(struct cs_dataset *set)
{
    if (set == NULL)
        return;
    if (set->fd != -1)
        close(set->fd);
    cs_index_free(&set->index);
    cs_arena_free(set->arena);
    free(set);
}

uint64_t cs_dataset_count(const struct cs_dataset *set)
{
    return set->index.n;
}

const char *cs_dataset_path(const struct cs_dataset *set)
{
    return set->path;
}

void cs_dataset_identity(const struct cs_dataset *set, struct cs_dataset_id *out)
{
    *out = (struct cs_dataset_id){.samples = set->index.n};
    memcpy(out->xxh3, set->index.xxh3, sizeof out->xxh3);
}

enum cs_status cs_dataset_identify(const char *path, struct cs_dataset_id *out, struct cs_err *err)
{
    const struct cs_dataset_options options = {.root = ""};
    struct cs_dataset *set = NULL;

    CS_TRY(cs_dataset_open(path, &options, NULL, &set, err));
    cs_dataset_identity(set, out);
    cs_dataset_close(set);
    return CS_OK;
}

enum cs_status cs_dataset_read(const struct cs_dataset *set, uint64_t index,
                               struct cs_findings *findings, struct cs_record **out,
                               struct cs_err *err)
{
    const struct cs_index_item *item = &set->index.items[index];
    enum cs_status status = CS_OK;
    json_t *json = NULL;
    char *bytes = NULL;
    size_t got = 0;

    *out = NULL;
    CS_ASSERT(index < set->index.n);
    if (item->len > CS_RECORD_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "sample of %llu bytes, at most %d",
                       (unsigned long long)item->len, CS_RECORD_MAX_BYTES);
    bytes = malloc(item->len + 1);
    if (bytes == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample");
    status = cs_read_at(set->fd, set->path, bytes, item->len, item->offset, &got, err);
    if (status == CS_OK && got < item->len)
        status = cs_fail(err, CS_CORRUPT, "%s became shorter", set->path);
    if (status == CS_OK)
        status = cs_json_tolerant(bytes, got, item->offset, &json, err);
    if (status == CS_OK)
        status = cs_record_read(json, set->keys, findings, out, err);
    if (status == CS_OK)
        (*out)->index = index;
    json_decref(json);
    free(bytes);
    return status;
}

static bool has_parent_step(const char *file)
{
    for (const char *p = file; p != NULL; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return true;
    }
    return false;
}

static bool is_below(const char *path, const char *root)
{
    size_t n = strlen(root);

    return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0' || n == 1);
}

enum cs_status cs_dataset_resolve(const struct cs_dataset *set, const char *file,
                                  char out[CS_PATH_CAP], struct cs_err *err)
{
    const char *root = set->root;
    char joined[CS_PATH_CAP];

    if (has_parent_step(file))
        return cs_fail(err, CS_REFUSED, "%.300s: \"..\" is not followed", file);
    if (file[0] != '/')
        CS_TRY(cs_path(joined, err, "%s/%s", strcmp(root, "/") == 0 ? "" : root, file));
    else
        CS_TRY(cs_path(joined, err, "%s", file));
    if (file[0] == '/' && set->follows_links && !is_below(file, root) &&
        !is_below(file, set->named_root))
        return cs_fail(err, CS_REFUSED,
                       "%.300s: outside of %.300s; images = \"/\" of the data allows it", file,
                       root);
    if (realpath(joined, out) == NULL)
        return cs_fail_errno(err, "missing file %.300s", joined);
    if (!is_below(out, root) && !set->follows_links)
        return cs_fail(err, CS_REFUSED, "%.300s: %s %.300s; %s of the data allows it", file,
                       file[0] == '/' ? "outside of" : "a link out of", root,
                       file[0] == '/' ? "images = \"/\"" : "follow_links = true");
    return CS_OK;
}
