/* Opens a data set and reads item i of it. */
#include "input/data/dataset.h"

#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/data/mixture.h"
#include "input/data/shard/shard.h"

struct shard {
    struct cs_shard *shard;
    uint64_t first; /* number of its first sample in the set */
};

/* Files that belong together. */
struct source {
    const char *root, *named_root; /* of pictures: the real path, and as it was given */
    const char *name;
    uint64_t first, n; /* samples */
    double weight;
};

struct cs_dataset {
    struct cs_arena *arena;
    const char *path;
    struct source *sources; /* (n_sources) */
    int32_t n_sources;
    struct cs_mixture mixture;
    bool follows_links;
    int64_t max_pixels;
    const struct cs_record_keys *keys;
    struct shard *shards; /* (n_shards) */
    size_t n_shards;
    uint64_t n;    /* samples */
    bool is_whole; /* all files are open */
};

/* first: the first file of the source */
static enum cs_status set_root(struct cs_dataset *set, struct source *source, const char *first,
                               const char *root, struct cs_err *err)
{
    char real[CS_PATH_CAP], folder[CS_PATH_CAP];
    const char *slash = strrchr(first, '/');

    if (root[0] == '\0') {
        if (slash == NULL)
            root = ".";
        else if (slash == first)
            root = "/";
        else {
            CS_TRY(cs_path(folder, err, "%.*s", (int)(slash - first), first));
            root = folder;
        }
    }
    if (realpath(root, real) == NULL)
        return cs_fail_errno(err, "folder of the pictures %s", root);
    source->root = cs_arena_strdup(set->arena, real);
    source->named_root = cs_arena_strdup(set->arena, root);
    return CS_OK;
}

/* --- which files ------------------------------------------------------------------------------ */

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

struct files {
    struct cs_arena *arena;
    const char **names;
    size_t n;
};

static void add_name(struct files *f, const char *path)
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
static enum cs_status list_folder(struct files *f, const char *path, struct cs_err *err)
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

/* A file, a folder of files, or a pattern such as "train-*.parquet". */
static enum cs_status list_files(struct files *f, const char *path, struct cs_err *err)
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

/* --- opening ---------------------------------------------------------------------------------- */

static enum cs_status open_shards(struct cs_dataset *set, const struct files *files,
                                  uint64_t max_items, struct cs_err *err)
{
    struct shard *more = CS_NEW_ARRAY(set->arena, struct shard, set->n_shards + files->n);
    const size_t had = set->n_shards;

    if (had > 0)
        memcpy(more, set->shards, had * sizeof *more);
    set->shards = more;
    for (size_t i = 0; i < files->n && (max_items == 0 || set->n < max_items); i++) {
        struct shard *shard = &set->shards[set->n_shards];
        CS_TRY(cs_shard_open(files->names[i], max_items > 0 ? max_items - set->n : 0, &shard->shard,
                             err));
        shard->first = set->n;
        set->n += cs_shard_count(shard->shard);
        set->n_shards++;
    }
    set->is_whole &= set->n_shards == had + files->n;
    return CS_OK;
}

/* A source that comes behind so many samples as are wanted is not opened. */
static enum cs_status open_source(struct cs_dataset *set, const struct cs_dataset_more *from,
                                  uint64_t max_items, struct cs_err *err)
{
    struct source *source = &set->sources[set->n_sources];
    struct files files = {.arena = set->arena};

    if (max_items > 0 && set->n >= max_items) {
        set->is_whole = false;
        return CS_OK;
    }
    source->name = from->name != NULL ? cs_arena_strdup(set->arena, from->name) : "";
    source->weight = from->weight;
    source->first = set->n;
    CS_TRY(list_files(&files, from->path, err));
    CS_TRY(open_shards(set, &files, max_items, err));
    CS_TRY(set_root(set, source, files.names[0], from->root != NULL ? from->root : "", err));
    source->n = set->n - source->first;
    set->n_sources++;
    return CS_OK;
}

/* Weights are said of all sources, or of none. */
static enum cs_status mix(struct cs_dataset *set, struct cs_err *err)
{
    uint64_t samples[CS_MIXTURE_MAX];
    double weights[CS_MIXTURE_MAX];
    int32_t n_weights = 0;

    for (int32_t i = 0; i < set->n_sources; i++) {
        samples[i] = set->sources[i].n;
        weights[i] = set->sources[i].weight;
        n_weights += weights[i] > 0;
    }
    if (n_weights > 0 && n_weights < set->n_sources && set->is_whole)
        return cs_fail(
            err, CS_INVALID,
            "%d of the %d sources of the data have a weight: give one to all, or to none",
            n_weights, set->n_sources);
    cs_mixture_init(&set->mixture, set->n_sources, samples,
                    n_weights == set->n_sources && set->n_sources > 1 ? weights : NULL);
    return CS_OK;
}

enum cs_status cs_dataset_open(const char *path, const struct cs_dataset_options *options,
                               const struct cs_record_keys *keys, struct cs_dataset **out,
                               struct cs_err *err)
{
    const struct cs_dataset_more first = {path, options->root, options->name, options->weight};
    struct cs_dataset *set = calloc(1, sizeof *set);
    enum cs_status status = CS_OK;

    *out = NULL;
    if (set == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", path);
    set->arena = cs_arena_new(0);
    set->path = cs_arena_strdup(set->arena, path);
    set->keys = keys;
    set->follows_links = options->follows_links;
    set->max_pixels = options->max_pixels;
    set->is_whole = true;
    if (options->n_more >= CS_MIXTURE_MAX)
        status = cs_fail(err, CS_LIMIT, "more than %d sources of data", CS_MIXTURE_MAX);
    if (status == CS_OK) {
        set->sources = CS_NEW_ARRAY(set->arena, struct source, (size_t)options->n_more + 1);
        status = open_source(set, &first, options->max_items, err);
    }
    for (int32_t i = 0; i < options->n_more && status == CS_OK; i++)
        status = open_source(set, &options->more[i], options->max_items, err);
    if (status == CS_OK)
        status = mix(set, err);
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
    for (size_t i = 0; i < set->n_shards; i++)
        cs_shard_close(set->shards[i].shard);
    cs_arena_free(set->arena);
    free(set);
}

uint64_t cs_dataset_count(const struct cs_dataset *set)
{
    return set->n;
}

const char *cs_dataset_path(const struct cs_dataset *set)
{
    return set->path;
}

int64_t cs_dataset_max_pixels(const struct cs_dataset *set)
{
    return set->max_pixels;
}

/* Of one file its own hash, of several the hash of theirs. */
void cs_dataset_identity(const struct cs_dataset *set, struct cs_dataset_id *out)
{
    struct cs_xxh3 *hash = NULL;
    bool is_known = set->is_whole;

    *out = (struct cs_dataset_id){.samples = set->n};
    if (set->n_shards == 1) {
        memcpy(out->xxh3, cs_shard_hash(set->shards[0].shard), sizeof out->xxh3);
        return;
    }
    hash = cs_xxh3_new();
    for (size_t i = 0; i < set->n_shards; i++) {
        const char *own = cs_shard_hash(set->shards[i].shard);
        is_known &= own[0] != '\0';
        cs_xxh3_add(hash, own, strlen(own));
    }
    if (is_known)
        cs_xxh3_end(hash, out->xxh3);
    cs_xxh3_free(hash);
}

static enum cs_status add_sizes(const char *path, uint64_t *bytes, struct cs_err *err)
{
    struct files files = {.arena = cs_arena_new(0)};
    enum cs_status status = list_files(&files, path, err);
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

enum cs_status cs_dataset_identify(const char *path, struct cs_dataset_id *out, struct cs_err *err)
{
    const struct cs_dataset_options options = {.root = ""};
    struct cs_dataset *set = NULL;

    CS_TRY(cs_dataset_open(path, &options, NULL, &set, err));
    cs_dataset_identity(set, out);
    cs_dataset_close(set);
    return add_sizes(path, &out->bytes, err);
}

/* The shard that holds a sample: the last that begins with no later one. */
static const struct shard *shard_of(const struct cs_dataset *set, uint64_t index)
{
    size_t low = 0;

    for (size_t high = set->n_shards; high - low > 1;) {
        size_t middle = low + (high - low) / 2;
        if (set->shards[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return &set->shards[low];
}

uint64_t cs_dataset_order(const struct cs_dataset *set, uint64_t seed, uint64_t epoch,
                          uint64_t position)
{
    return cs_mixture_at(&set->mixture, seed, epoch, position);
}

/* What a sample gets from its source. */
static void join_source(const struct cs_dataset *set, struct cs_record *record)
{
    int32_t s = set->n_sources - 1;

    while (s > 0 && set->sources[s].first > record->index)
        s--;
    if (record->channel[0] == '\0')
        record->channel = cs_arena_strdup(record->arena, set->sources[s].name);
    for (int e = 0; e < set->keys->n; e++)
        for (int i = 0; i < record->n_files[e]; i++) {
            struct cs_media_file *file = &record->files[e][i];
            file->source = s;
            for (int32_t k = 0; k < file->n_frames; k++) /* of the record as well */
                ((struct cs_media_file *)(uintptr_t)file->frames)[k].source = s;
        }
}

enum cs_status cs_dataset_read(const struct cs_dataset *set, uint64_t index,
                               struct cs_findings *findings, struct cs_record **out,
                               struct cs_err *err)
{
    const struct shard *shard = NULL;

    CS_ASSERT(index < set->n);
    shard = shard_of(set, index);
    CS_TRY(cs_shard_read(shard->shard, index - shard->first, set->keys, findings, out, err));
    (*out)->index = index;
    join_source(set, *out);
    return CS_OK;
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

enum cs_status cs_dataset_resolve(const struct cs_dataset *set, const struct cs_media_file *medium,
                                  char out[CS_PATH_CAP], struct cs_err *err)
{
    const struct source *source = &set->sources[medium->source];
    const char *root = source->root, *file = medium->name;
    char joined[CS_PATH_CAP];

    if (has_parent_step(file))
        return cs_fail(err, CS_REFUSED, "%.300s: \"..\" is not followed", file);
    if (file[0] != '/')
        CS_TRY(cs_path(joined, err, "%s/%s", strcmp(root, "/") == 0 ? "" : root, file));
    else
        CS_TRY(cs_path(joined, err, "%s", file));
    if (file[0] == '/' && set->follows_links && !is_below(file, root) &&
        !is_below(file, source->named_root))
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
