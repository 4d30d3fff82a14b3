/* Fuzz target: checkpoint.json that is nearly right, with a hash that fits or not, before real files;
 * and real files with some bytes exchanged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/system/io.h"
#include "fuzz/edit.h"
#include "store/ckpt/checkpoint.h"
#include "support/tmpdir.h"

enum { N = 12, STEP = 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct cs_param params[] = {
    {.id = 0, .name = "llm/a", .n_dims = 2, .dim = {3, 4}, .count = N},
    {.id = 1, .name = "llm/b", .n_dims = 1, .dim = {N},    .count = N},
};

struct world {
    char *dir, *manifest, *weights;
    size_t n_manifest, n_weights;
};

static const char *weights_path(const struct world *w)
{
    return tmpdir_path(w->dir, "ckpt-7/params/rank-0.safetensors");
}

static void make(struct world *w)
{
    struct cs_ckpt_file files[2];
    float values[N] = {1, 2, 3};
    struct cs_ckpt_part parts[2];
    struct cs_err err = {0};
    json_t *trainer = json_pack("{s:i}", "cursor", 3);
    const struct cs_ckpt_origin origin = {"spec", "spec", "plan", 2, params, 2};

    w->dir = tmpdir_new();
    for (int i = 0; i < 2; i++)
        parts[i] =
            (struct cs_ckpt_part){&params[i], cs_slice_whole(&params[i]), values, values, values};
    fuzz_must(cs_ckpt_write_rank(w->dir, STEP, 0, parts, 2, files, &err) == CS_OK);
    fuzz_must(cs_ckpt_commit(w->dir, STEP, &origin, trainer, files, 2, &err) == CS_OK);
    json_decref(trainer);
    w->manifest = tmpdir_read(tmpdir_path(w->dir, "ckpt-7/checkpoint.json"), &w->n_manifest);
    w->weights = tmpdir_read(weights_path(w), &w->n_weights);
}

/* the hash that makes the manifest look as if it had been written so */
static void seal(json_t *manifest)
{
    char hex[33];
    char *text = NULL;

    json_object_del(manifest, "xxh3");
    text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    fuzz_must(text != NULL);
    cs_xxh3_128_hex(text, strlen(text), hex);
    json_object_set_new(manifest, "xxh3", json_string(hex));
    free(text);
}

static void open_it(const struct world *w, bool is_deep)
{
    struct cs_ckpt *ckpt = NULL;
    struct cs_err err = {0};
    float values[N];
    char path[4096];
    int64_t step = -1;
    const struct cs_ckpt_search search = {.is_deep = is_deep};

    (void)!cs_ckpt_latest(w->dir, &search, &step, path, &err);
    if (cs_ckpt_open(tmpdir_path(w->dir, "ckpt-7"), &ckpt, &err) != CS_OK) {
        fuzz_must(err.text[0] != '\0');
        return;
    }
    fuzz_must(cs_ckpt_step(ckpt) == STEP);
    for (int i = 0; i < 2; i++)
        (void)!cs_ckpt_read(ckpt, &params[i], "exp_avg", values, &err);
    cs_ckpt_close(ckpt);
}

static void edit_weights(const struct world *w, struct fuzz_bytes *bytes)
{
    char *copy = malloc(w->n_weights);

    memcpy(copy, w->weights, w->n_weights);
    while (bytes->n > 2) {
        size_t at = fuzz_take(bytes, (uint32_t)w->n_weights);
        copy[at] = (char)fuzz_take(bytes, 256);
    }
    tmpdir_write(weights_path(w), copy, w->n_weights);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    struct fuzz_bytes bytes = {data, size};
    json_t *manifest = NULL;
    char *text = NULL;

    if (w.dir == NULL)
        make(&w);
    const uint32_t kind = fuzz_take(&bytes, 4);
    manifest = json_loadb(w.manifest, w.n_manifest, 0, NULL);
    fuzz_must(manifest != NULL);
    if (kind == 0)
        edit_weights(&w, &bytes);
    else
        fuzz_edit(manifest, &bytes);
    if (kind > 1)
        seal(manifest);
    text = json_dumps(manifest, 0);
    tmpdir_write(tmpdir_path(w.dir, "ckpt-7/checkpoint.json"), text, strlen(text));
    open_it(&w, kind % 2 == 0);
    if (kind == 0)
        tmpdir_write(weights_path(&w), w.weights, w.n_weights);
    free(text);
    json_decref(manifest);
    return 0;
}
