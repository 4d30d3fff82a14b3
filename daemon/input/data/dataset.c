/* Opens a data set and reads item i of it. */
#include "input/data/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/data/mixture.h"
#include "input/data/place.h"
#include "input/data/shard/shard.h"
#include "input/data/shard/shard_files.h"

struct shard {
    struct cs_shard *shard;
    uint64_t first; /* number of its first sample in the set */
};

/* Files that belong together. */
struct source {
    struct cs_place place; /* of pictures */
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
    bool follows_links; /* out of the places of its sources */
    int64_t max_pixels;
    const struct cs_record_keys *keys;
    struct shard *shards; /* (n_shards) */
    size_t n_shards;
    uint64_t n;    /* samples */
    bool is_whole; /* all files are open */
};

static enum cs_status open_shards(struct cs_dataset *set, const struct cs_shard_files *files,
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
    struct cs_shard_files files = {.arena = set->arena};

    if (max_items > 0 && set->n >= max_items) {
        set->is_whole = false;
        return CS_OK;
    }
    source->name = from->name != NULL ? cs_arena_strdup(set->arena, from->name) : "";
    source->weight = from->weight;
    source->first = set->n;
    CS_TRY(cs_shard_files_list(&files, from->path, err));
    CS_TRY(open_shards(set, &files, max_items, err));
    CS_TRY(cs_place_init(&source->place, set->arena, from->root != NULL ? from->root : "",
                         files.names[0], set->follows_links, err));
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

enum cs_status cs_dataset_identify(const char *path, struct cs_dataset_id *out, struct cs_err *err)
{
    const struct cs_dataset_options options = {.root = ""};
    struct cs_dataset *set = NULL;

    CS_TRY(cs_dataset_open(path, &options, NULL, &set, err));
    cs_dataset_identity(set, out);
    cs_dataset_close(set);
    return cs_shard_files_bytes(path, &out->bytes, err);
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

enum cs_status cs_dataset_resolve(const struct cs_dataset *set, const struct cs_media_file *file,
                                  char out[CS_PATH_CAP], struct cs_err *err)
{
    return cs_place_resolve(&set->sources[file->source].place, file->name, out, err);
}
