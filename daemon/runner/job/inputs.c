/* Reads and compares the fingerprints of the files that a job reads. */
#include "runner/job/inputs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/str.h"
#include "core/base/system/io.h"
#include "core/base/units.h"
#include "core/doc/tokenizer_files.h"
#include "core/wire/wire.h"
#include "input/data/dataset.h"
#include "input/data/mix.h"

enum { WHOLE_BYTES = 256 << 20, PIECE_BYTES = 1 << 18, PIECES = 64, MAX_FILES = 4096 };

/* Bytes [at, at + n) of the file, in pieces. */
static enum cs_status add_range(int fd, uint64_t at, uint64_t n, char *piece, struct cs_xxh3 *hash,
                                struct cs_err *err)
{
    while (n > 0) {
        const size_t want = n < PIECE_BYTES ? (size_t)n : PIECE_BYTES;
        const ssize_t got = pread(fd, piece, want, (off_t)at);
        if (got == -1)
            return cs_fail_errno(err, "cannot read it");
        if (got == 0)
            return cs_fail(err, CS_IO, "it became shorter while it was read");
        cs_xxh3_add(hash, piece, (size_t)got);
        at += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return CS_OK;
}

static enum cs_status hash_file(int fd, uint64_t bytes, char xxh3[33], struct cs_err *err)
{
    char *piece = malloc(PIECE_BYTES);
    struct cs_xxh3 *hash = cs_xxh3_new();
    enum cs_status status =
        piece ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory for %d bytes", PIECE_BYTES);
    if (status == CS_OK && bytes <= WHOLE_BYTES)
        status = add_range(fd, 0, bytes, piece, hash, err);
    for (uint64_t i = 0; bytes > WHOLE_BYTES && i < PIECES && status == CS_OK; i++)
        status =
            add_range(fd, (bytes - PIECE_BYTES) / (PIECES - 1) * i, PIECE_BYTES, piece, hash, err);
    cs_xxh3_end(hash, xxh3);
    cs_xxh3_free(hash);
    free(piece);
    return status;
}

static void add_entry(json_t *list, const char *what, const char *path, uint64_t bytes,
                      const char *xxh3, int64_t samples)
{
    json_t *file = json_object();
    cs_msg_set_str(file, "what", what);
    cs_msg_set_str(file, "path", path);
    cs_msg_set_int(file, "bytes", (int64_t)bytes);
    cs_msg_set_str(file, "xxh3", xxh3);
    if (samples >= 0)
        cs_msg_set_int(file, "samples", samples);
    json_array_append_new(list, file);
}

static enum cs_status add_file(json_t *list, const char *what, const char *path, struct cs_err *err)
{
    char xxh3[33];
    int fd;
    uint64_t bytes;
    CS_TRY(cs_open_regular(path, &fd, &bytes, err));
    const enum cs_status status = hash_file(fd, bytes, xxh3, err);
    close(fd);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s", path);
    add_entry(list, what, path, bytes, xxh3, -1);
    return CS_OK;
}

static enum cs_status add_data(json_t *list, const char *what, const struct cs_spec_data *data,
                               struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_dataset_options options;
    struct cs_dataset_id id;
    enum cs_status status = cs_mix_options(data, arena, &options, err);
    for (int32_t i = -1; status == CS_OK && i < options.n_more; i++) {
        const char *path = i < 0 ? data->json : options.more[i].path;
        status = cs_dataset_identify(path, &id, err);
        if (status == CS_OK)
            add_entry(list, i < 0 ? what : cs_arena_printf(arena, "%s of mix[%d]", what, (int)i),
                      path, id.bytes, id.xxh3, (int64_t)id.samples);
    }
    cs_arena_free(arena);
    return status;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef bool name_filter(const char *name);

static bool is_weights(const char *name)
{
    const size_t len = strlen(name), ending = sizeof ".safetensors" - 1;
    return len > ending && strcmp(name + len - ending, ".safetensors") == 0;
}

/* The files of dir that the filter takes, in order of name. */
static enum cs_status add_files(json_t *list, const char *what, const char *dir, name_filter *takes,
                                struct cs_err *err)
{
    char *names[MAX_FILES], path[CS_PATH_CAP], title[600];
    size_t n = 0;
    DIR *open_dir = opendir(dir);
    if (!open_dir)
        return cs_fail_errno(err, "cannot list %s", dir);
    for (struct dirent *entry; n < MAX_FILES && (entry = readdir(open_dir));)
        if (takes(entry->d_name) && (names[n] = strdup(entry->d_name)) != NULL)
            n++;
    closedir(open_dir);
    qsort(names, n, sizeof *names, by_text);
    enum cs_status status = CS_OK;
    for (size_t i = 0; i < n; i++) {
        snprintf(title, sizeof title, "%s: %s", what, names[i]);
        if (status == CS_OK)
            status = cs_path(path, err, "%s/%s", dir, names[i]);
        if (status == CS_OK)
            status = add_file(list, title, path, err);
        free(names[i]);
    }
    return status;
}

/* Trained parameters come from the checkpoint, all others from the directory. */
static bool has_frozen(const struct cs_graph *graph, int32_t spec_module,
                       const struct cs_spec *spec)
{
    for (int32_t i = 0; i < graph->n_params; i++) {
        const struct cs_module *module = &graph->modules[graph->params[i].module];
        if (!graph->params[i].is_trainable && module->spec == &spec->module[spec_module])
            return true;
    }
    return false;
}

static enum cs_status add_module(json_t *list, const struct cs_spec *spec,
                                 const struct cs_graph *graph, int32_t m, struct cs_err *err)
{
    char what[300];
    const struct cs_spec_module *module = &spec->module[m];
    if (module->dir && module->dir[0] && strcmp(module->init, "weights") == 0 &&
        has_frozen(graph, m, spec)) {
        snprintf(what, sizeof what, "frozen weights of %.200s", module->name);
        CS_TRY(add_files(list, what, module->dir, is_weights, err));
    }
    if (module->kind != CS_MODULE_LLM || !module->tokenizer || !module->tokenizer[0])
        return CS_OK;
    return add_files(list, "tokenizer", module->tokenizer, cs_tokenizer_has_file, err);
}

enum cs_status cs_run_inputs_read(const struct cs_spec *spec, const struct cs_graph *graph,
                                  json_t **out, struct cs_err *err)
{
    json_t *list = json_array();
    enum cs_status status = add_data(list, "data.json", &spec->data, err);
    if (status == CS_OK && spec->has_eval)
        status = add_data(list, "eval.data.json", &spec->eval_data, err);
    for (int32_t m = 0; m < spec->n_modules && status == CS_OK; m++)
        status = add_module(list, spec, graph, m, err);
    if (status != CS_OK) {
        json_decref(list);
        list = NULL;
    }
    *out = list;
    return status;
}

static const json_t *find(const json_t *list, const char *what)
{
    size_t i;
    json_t *file;
    json_array_foreach(list, i, file)
    {
        if (strcmp(cs_msg_str(file, "what", ""), what) == 0)
            return file;
    }
    return NULL;
}

/* "64 samples, 9120 bytes, xxh3 ..." */
static void describe(const json_t *file, char out[160])
{
    const int64_t samples = cs_msg_int(file, "samples", -1);
    int n = 0;
    if (file == NULL) {
        snprintf(out, 160, "not there");
        return;
    }
    if (samples >= 0)
        n = snprintf(out, 160, "%lld sample%s, ", (long long)samples, CS_PLURAL(samples));
    snprintf(out + n, 160 - (size_t)n, "%lld bytes, xxh3 %.33s",
             (long long)cs_msg_int(file, "bytes", 0), cs_msg_str(file, "xxh3", ""));
}

static enum cs_status refuse(const json_t *was, const json_t *is, struct cs_err *err)
{
    char before[160], now[160];
    const json_t *named = is ? is : was;
    describe(was, before);
    describe(is, now);
    return cs_fail(err, CS_REFUSED,
                   "%.300s (%.300s) was changed since the checkpoint: it was %s and is %s",
                   cs_msg_str(named, "path", ""), cs_msg_str(named, "what", ""), before, now);
}

enum cs_status cs_run_inputs_compare(const json_t *then, const json_t *now, struct cs_err *err)
{
    size_t i;
    json_t *file;
    json_array_foreach(then, i, file)
    {
        const json_t *other = find(now, cs_msg_str(file, "what", ""));
        if (other == NULL ||
            strcmp(cs_msg_str(other, "xxh3", ""), cs_msg_str(file, "xxh3", "")) != 0)
            return refuse(file, other, err);
    }
    json_array_foreach(now, i, file)
    {
        if (json_array_size(then) > 0 && find(then, cs_msg_str(file, "what", "")) == NULL)
            return refuse(NULL, file, err);
    }
    return CS_OK;
}
