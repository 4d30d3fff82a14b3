/* Making checkpoint.json, and verifying a directory against it. */
#include "store/ckpt/ckpt_manifest.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"

/* hash of the manifest without its own "xxh3" */
static void self_hash(const json_t *manifest, char hex[33])
{
    json_t *bare = json_copy((json_t *)(uintptr_t)manifest); /* shallow; jansson takes no const */
    if (bare)
        json_object_del(bare, "xxh3");
    char *text = bare ? json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    CS_ASSERT(text != NULL);
    cs_xxh3_128_hex(text, strlen(text), hex);
    free(text);
    json_decref(bare);
}

json_t *cs_ckpt_manifest_new(int64_t step, const struct cs_ckpt_origin *origin,
                             const struct cs_ckpt_file *files, int n)
{
    char hex[33];
    int64_t n_nonfinite = 0;
    json_t *list = json_array();
    for (int i = 0; i < n; n_nonfinite += files[i++].n_nonfinite)
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "name", files[i].name, "bytes",
                                              (json_int_t)files[i].bytes, "xxh3", files[i].xxh3));
    json_t *manifest =
        json_pack("{s:s, s:I, s:s, s:s, s:s, s:I, s:s, s:o}", "schema", CS_CKPT_SCHEMA, "step",
                  (json_int_t)step, "spec_hash", origin->spec_hash, "trained_hash",
                  origin->trained_hash, "plan_hash", origin->plan_hash, "generation",
                  (json_int_t)origin->generation, "version", CORNSTARCH_VERSION, "files", list);
    if (!manifest)
        return NULL;
    json_object_set_new(manifest, "nonfinite", json_integer(n_nonfinite));
    self_hash(manifest, hex);
    json_object_set_new(manifest, "xxh3", json_string(hex));
    return manifest;
}

bool cs_ckpt_is_file_name(const char *name)
{
    static const char *const folders[] = {"params/rank-", "opt/rank-"};
    if (strcmp(name, "trainer.json") == 0)
        return true;
    for (size_t i = 0; i < CS_ARRAY_LEN(folders); i++) {
        size_t len = strlen(folders[i]), digits = 0;
        if (strncmp(name, folders[i], len) != 0)
            continue;
        digits = strspn(name + len, "0123456789");
        return digits > 0 && digits < 10 && strcmp(name + len + digits, ".safetensors") == 0;
    }
    return false;
}

int64_t cs_ckpt_step_of(const char *name, const char *suffix)
{
    if (strncmp(name, "ckpt-", 5) != 0)
        return -1;
    const char *digits = name + 5;
    size_t len = strspn(digits, "0123456789");
    if (len == 0 || len > 18 || (len > 1 && digits[0] == '0') || strcmp(digits + len, suffix) != 0)
        return -1;
    return (int64_t)strtoll(digits, NULL, 10);
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

enum cs_status cs_ckpt_list(const char *dir, const char *suffix, int64_t **steps, int *n,
                            struct cs_err *err)
{
    int cap = 0;
    *steps = NULL;
    *n = 0;
    DIR *open_dir = opendir(dir);
    if (!open_dir && errno == ENOENT)
        return CS_OK;
    if (!open_dir)
        return cs_fail_errno(err, "cannot list checkpoints in %s", dir);
    for (struct dirent *entry; (entry = readdir(open_dir));) {
        int64_t step = cs_ckpt_step_of(entry->d_name, suffix);
        if (step < 0)
            continue;
        if (*n == cap) {
            cap = cap ? 2 * cap : 16;
            int64_t *more = realloc(*steps, (size_t)cap * sizeof *more);
            CS_ASSERT(more != NULL);
            *steps = more;
        }
        (*steps)[(*n)++] = step;
    }
    closedir(open_dir);
    if (*n > 0)
        qsort(*steps, (size_t)*n, sizeof(**steps), descending);
    return CS_OK;
}

static enum cs_status verify_file(const char *path, const json_t *entry, bool is_deep,
                                  struct cs_err *err)
{
    char full[CS_PATH_CAP], hex[33];
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *xxh3 = json_string_value(json_object_get(entry, "xxh3"));
    const json_t *bytes = json_object_get(entry, "bytes");
    struct stat info;
    uint64_t size = 0;
    if (!name || !xxh3 || !json_is_integer(bytes) || !cs_ckpt_is_file_name(name))
        return cs_fail(err, CS_CORRUPT, "%s/checkpoint.json: bad entry in its list of files", path);
    CS_TRY(cs_path(full, err, "%s/%s", path, name));
    if (lstat(full, &info) == -1)
        return cs_fail(err, CS_CORRUPT, "%s is listed in checkpoint.json and missing: %s", full,
                       strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size != json_integer_value(bytes))
        return cs_fail(err, CS_CORRUPT, "%s has %lld bytes, checkpoint.json says %lld", full,
                       (long long)info.st_size, (long long)json_integer_value(bytes));
    if (!is_deep)
        return CS_OK;
    CS_TRY(cs_fs_hash(full, hex, &size, err));
    if (strcmp(hex, xxh3) != 0)
        return cs_fail(err, CS_CORRUPT,
                       "%s is damaged: its xxh3-128 is %s, checkpoint.json says %s", full, hex,
                       xxh3);
    return CS_OK;
}

static enum cs_status verify_manifest(const char *path, const json_t *manifest, bool is_deep,
                                      struct cs_err *err)
{
    char hex[33], plain[CS_PATH_CAP];
    const char *schema = json_string_value(json_object_get(manifest, "schema"));
    const char *said = json_string_value(json_object_get(manifest, "xxh3"));
    const json_t *files = json_object_get(manifest, "files");
    const json_t *step = json_object_get(manifest, "step");
    if (!schema || (strcmp(schema, CS_CKPT_SCHEMA) != 0 && strcmp(schema, CS_CKPT_SCHEMA_1) != 0))
        return cs_fail(err, CS_UNSUPPORTED, "%s/checkpoint.json: schema %s, this version reads %s",
                       path, schema ? schema : "(none)", CS_CKPT_SCHEMA);
    self_hash(manifest, hex);
    if (!said || strcmp(said, hex) != 0)
        return cs_fail(err, CS_CORRUPT, "%s/checkpoint.json is damaged: its hash does not fit",
                       path);
    CS_TRY(cs_path(plain, err, "%s", path));
    for (size_t len = strlen(plain); len > 1 && plain[len - 1] == '/';)
        plain[--len] = '\0';
    const char *slash = strrchr(plain, '/');
    int64_t named = cs_ckpt_step_of(slash ? slash + 1 : plain, "");
    if (!json_is_integer(step) || (named >= 0 && named != json_integer_value(step)))
        return cs_fail(err, CS_CORRUPT, "%s/checkpoint.json is of step %lld, not of this directory",
                       path, (long long)json_integer_value(step));
    if (json_array_size(files) == 0)
        return cs_fail(err, CS_CORRUPT, "%s/checkpoint.json lists no files", path);
    for (size_t i = 0; i < json_array_size(files); i++)
        CS_TRY(verify_file(path, json_array_get(files, i), is_deep, err));
    return CS_OK;
}

enum cs_status cs_ckpt_verify(const char *path, bool is_deep, json_t **out, struct cs_err *err)
{
    char file[CS_PATH_CAP];
    json_t *manifest = NULL;
    if (out)
        *out = NULL;
    CS_TRY(cs_path(file, err, "%s/checkpoint.json", path));
    enum cs_status status = cs_fs_read_json(file, &manifest, err);
    if (status == CS_OK)
        status = verify_manifest(path, manifest, is_deep, err);
    if (status == CS_OK && out)
        *out = json_incref(manifest);
    json_decref(manifest);
    return status;
}
