/* Atomic file writes, whole-file reads and copies; see fsio.h. */
#include "store/fsio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/doc/json_text.h"
#include "core/program/temp.h"

struct cs_fs_out {
    char path[CS_PATH_CAP], temp[CS_PATH_CAP];
    int fd;
    bool is_committed;
    uint64_t needed_bytes, written_bytes;
    struct cs_xxh3 *hash;
};

/* What is hashed while it is in the cache, and handed to the disk at once: the fsync at the end then waits for the
 * last of it alone. */
enum { BLOCK_BYTES = 16 << 20 };

static enum cs_status fail_write(const struct cs_fs_out *out, struct cs_err *err)
{
    return cs_fail_errno(err, "cannot write %s (%llu bytes needed)", out->path,
                         (unsigned long long)out->needed_bytes);
}

enum cs_status cs_fs_out_open(const char *path, uint64_t needed_bytes, struct cs_fs_out **out,
                              struct cs_err *err)
{
    struct cs_fs_out *made = calloc(1, sizeof *made);
    enum cs_status status;
    *out = NULL;
    if (!made)
        return cs_fail(err, CS_NO_MEMORY, "no memory to write %s", path);
    made->fd = -1;
    made->needed_bytes = needed_bytes;
    made->hash = cs_xxh3_new();
    status = cs_path(made->path, err, "%s", path);
    if (status == CS_OK)
        status = cs_temp_name(path, made->temp, err);
    if (status != CS_OK)
        goto out;
    cs_temp_sweep_files(path);
    made->fd = open(made->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (made->fd == -1) {
        status = fail_write(made, err);
        goto out;
    }
    *out = made;
    return CS_OK;
out:
    made->is_committed = made->fd == -1; /* nothing to remove */
    cs_fs_out_close(made);
    return status;
}

static enum cs_status write_block(struct cs_fs_out *out, const char *at, size_t bytes,
                                  struct cs_err *err)
{
    cs_xxh3_add(out->hash, at, bytes);
    while (bytes > 0) {
        ssize_t n = write(out->fd, at, bytes);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return fail_write(out, err);
        at += n;
        bytes -= (size_t)n;
        out->written_bytes += (uint64_t)n;
    }
    return CS_OK;
}

enum cs_status cs_fs_out_write(struct cs_fs_out *out, const void *data, size_t bytes,
                               struct cs_err *err)
{
    const char *at = data;
    for (size_t n; bytes > 0; at += n, bytes -= n) {
        n = bytes < BLOCK_BYTES ? bytes : BLOCK_BYTES;
        const uint64_t begun = out->written_bytes / BLOCK_BYTES;
        CS_TRY(write_block(out, at, n, err));
        const uint64_t full = out->written_bytes / BLOCK_BYTES;
        if (full > begun) /* not all file systems can: fsync does it then */
            (void)sync_file_range(out->fd, (off_t)(begun * BLOCK_BYTES),
                                  (off_t)((full - begun) * BLOCK_BYTES), SYNC_FILE_RANGE_WRITE);
    }
    return CS_OK;
}

enum cs_status cs_fs_out_commit(struct cs_fs_out *out, char xxh3[33], struct cs_err *err)
{
    char parent[CS_PATH_CAP];
    CS_TRY(cs_fs_parent(out->path, parent, err));
    if (fsync(out->fd) == -1)
        return fail_write(out, err);
    int fd = out->fd;
    out->fd = -1;
    if (close(fd) == -1)
        return fail_write(out, err);
    if (rename(out->temp, out->path) == -1)
        return cs_fail_errno(err, "cannot rename %s to %s", out->temp, out->path);
    out->is_committed = true;
    if (xxh3)
        cs_xxh3_end(out->hash, xxh3);
    return cs_fsync_dir(parent, err);
}

void cs_fs_out_close(struct cs_fs_out *out)
{
    if (!out)
        return;
    if (out->fd != -1)
        close(out->fd);
    if (!out->is_committed)
        unlink(out->temp);
    cs_xxh3_free(out->hash);
    free(out);
}

enum cs_status cs_fs_write(const char *path, const void *data, size_t bytes, char xxh3[33],
                           struct cs_err *err)
{
    struct cs_fs_out *out = NULL;
    CS_TRY(cs_fs_out_open(path, bytes, &out, err));
    enum cs_status status = cs_fs_out_write(out, data, bytes, err);
    if (status == CS_OK)
        status = cs_fs_out_commit(out, xxh3, err);
    cs_fs_out_close(out);
    return status;
}

enum cs_status cs_fs_write_json(const char *path, const json_t *json, char xxh3[33],
                                uint64_t *bytes, struct cs_err *err)
{
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
    if (!text)
        return cs_fail(err, CS_NO_MEMORY, "cannot encode %s", path);
    size_t len = strlen(text);
    text[len] = '\n'; /* replaces the NUL: the length is carried apart */
    enum cs_status status = cs_fs_write(path, text, len + 1, xxh3, err);
    if (bytes)
        *bytes = len + 1;
    free(text);
    return status;
}

/* whole reads only; *got is short at the end of the file */
static enum cs_status read_some(int fd, const char *path, char *to, size_t bytes, size_t *got,
                                struct cs_err *err)
{
    *got = 0;
    while (*got < bytes) {
        ssize_t n = read(fd, to + *got, bytes - *got);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return cs_fail_errno(err, "cannot read %s", path);
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return CS_OK;
}

enum cs_status cs_fs_read(const char *path, size_t max_bytes, char **data, size_t *bytes,
                          struct cs_err *err)
{
    int fd = -1;
    uint64_t size = 0;
    enum cs_status status;
    *data = NULL;
    CS_TRY(cs_open_regular(path, &fd, &size, err));
    if (size > max_bytes) {
        status = cs_fail(err, CS_LIMIT, "%s has %llu bytes, at most %zu are read", path,
                         (unsigned long long)size, max_bytes);
        goto out;
    }
    *data = malloc((size_t)size + 1);
    if (!*data) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the %llu bytes of %s",
                         (unsigned long long)size, path);
        goto out;
    }
    status = read_some(fd, path, *data, (size_t)size, bytes, err);
    if (status == CS_OK)
        (*data)[*bytes] = '\0';
out:
    close(fd);
    if (status != CS_OK) {
        free(*data);
        *data = NULL;
    }
    return status;
}

enum cs_status cs_fs_read_json(const char *path, json_t **out, struct cs_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    json_error_t why;
    *out = NULL;
    CS_TRY(cs_fs_read(path, CS_FS_JSON_MAX_BYTES, &text, &bytes, err));
    json_t *root = cs_json_parse(text, bytes, JSON_REJECT_DUPLICATES, &why);
    free(text);
    if (!root)
        return cs_fail(err, CS_CORRUPT, "%s (%zu bytes), line %d: %s", path, bytes, why.line,
                       why.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return cs_fail(err, CS_CORRUPT, "%s: expected a JSON object", path);
    }
    *out = root;
    return CS_OK;
}

/* to: NULL only hashes */
static enum cs_status pump(const char *from, const char *to, char xxh3[33], uint64_t *bytes,
                           struct cs_err *err)
{
    enum { CHUNK = 1 << 18 };
    struct cs_fs_out *out = NULL;
    struct cs_xxh3 *hash = cs_xxh3_new();
    char *chunk = malloc(CHUNK);
    int fd = -1;
    uint64_t size = 0;
    size_t got = CHUNK;
    enum cs_status status = CS_OK;
    *bytes = 0;
    if (!chunk)
        status = cs_fail(err, CS_NO_MEMORY, "no memory to read %s", from);
    if (status == CS_OK)
        status = cs_open_regular(from, &fd, &size, err);
    if (status == CS_OK && to)
        status = cs_fs_out_open(to, size, &out, err);
    while (status == CS_OK && got == CHUNK) {
        status = read_some(fd, from, chunk, CHUNK, &got, err);
        if (status != CS_OK)
            break;
        cs_xxh3_add(hash, chunk, got);
        *bytes += got;
        if (out)
            status = cs_fs_out_write(out, chunk, got, err);
    }
    if (status == CS_OK && out)
        status = cs_fs_out_commit(out, NULL, err);
    if (status == CS_OK && xxh3)
        cs_xxh3_end(hash, xxh3);
    cs_fs_out_close(out);
    if (fd != -1)
        close(fd);
    cs_xxh3_free(hash);
    free(chunk);
    return status;
}

enum cs_status cs_fs_copy(const char *from, const char *to, struct cs_err *err)
{
    uint64_t bytes = 0;
    return pump(from, to, NULL, &bytes, err);
}

enum cs_status cs_fs_hash(const char *path, char xxh3[33], uint64_t *bytes, struct cs_err *err)
{
    return pump(path, NULL, xxh3, bytes, err);
}
