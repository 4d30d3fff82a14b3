/* Entries are files DIR/XX/KEY: a head with the hash of what follows, then the bytes. The time of a file is when it
 * was last read. */
#include "input/media/disk_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/hash.h"
#include "core/base/system/io.h"
#include "core/base/units.h"
#include "input/media/disk_room.h"

enum { HEAD = 24 };

static const char magic[8] = {'c', 's', 'd', 'e', 'c', '0', '0', '1'};

struct cs_disk_cache {
    char dir[CS_PATH_CAP];
    uint64_t max_bytes;
    pthread_mutex_t lock;
    uint64_t added;  /* since all entries were looked at */
    uint64_t serial; /* of files that are being written */
    uint64_t n_found, n_kept;
    bool is_full; /* nothing more is written */
};

enum cs_status cs_disk_cache_open(const char *dir, uint64_t max_bytes, struct cs_disk_cache **out,
                                  struct cs_err *err)
{
    struct cs_disk_cache *c = NULL;
    enum cs_status status = CS_OK;

    *out = NULL;
    status = cs_disk_room_make(dir, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "cache of decoded media %s", dir);
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the cache %s", dir);
    memcpy(c->dir, dir, strlen(dir) + 1); /* it has fitted with more */
    c->max_bytes = max_bytes;
    pthread_mutex_init(&c->lock, NULL);
    cs_disk_room_clear(c->dir, max_bytes);
    *out = c;
    return CS_OK;
}

void cs_disk_cache_close(struct cs_disk_cache *c)
{
    if (c == NULL)
        return;
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void cs_disk_cache_key(const void *bytes, size_t n, const char *settings, uint64_t how,
                       char out[CS_DISK_KEY])
{
    struct cs_xxh3 *hash = cs_xxh3_new();
    uint64_t length = n;

    cs_xxh3_add(hash, magic, sizeof magic);
    cs_xxh3_add(hash, &length, sizeof length);
    cs_xxh3_add(hash, bytes, n);
    cs_xxh3_add(hash, settings, strlen(settings));
    cs_xxh3_add(hash, &how, sizeof how);
    cs_xxh3_end(hash, out);
    cs_xxh3_free(hash);
}

static void put_head(const void *data, size_t n, unsigned char head[HEAD])
{
    const uint64_t words[] = {n, XXH3_64bits(data, n)};

    memcpy(head, magic, sizeof magic);
    memcpy(head + sizeof magic, words, sizeof words);
}

static bool path_of(const struct cs_disk_cache *c, const char *key, char out[CS_PATH_CAP])
{
    return cs_path(out, NULL, "%s/%.2s/%s", c->dir, key, key) == CS_OK;
}

static bool read_entry(int fd, void *data, size_t n)
{
    unsigned char head[HEAD], want[HEAD];
    struct stat st;
    size_t got = 0;

    if (fstat(fd, &st) == -1 || (uint64_t)st.st_size != (uint64_t)n + HEAD ||
        cs_read_at(fd, "", head, HEAD, 0, &got, NULL) != CS_OK || got != HEAD ||
        cs_read_at(fd, "", data, n, HEAD, &got, NULL) != CS_OK || got != n)
        return false;
    put_head(data, n, want);
    return memcmp(head, want, HEAD) == 0;
}

bool cs_disk_cache_get(struct cs_disk_cache *c, const char *key, void *data, size_t n)
{
    char path[CS_PATH_CAP];
    int fd =
        c != NULL && path_of(c, key, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool is_there = fd != -1 && read_entry(fd, data, n);

    if (fd == -1)
        return false;
    if (is_there)
        (void)futimens(fd, NULL); /* used now; where that is not allowed it only goes sooner */
    else
        (void)unlink(path);
    close(fd);
    pthread_mutex_lock(&c->lock);
    c->n_found += is_there;
    pthread_mutex_unlock(&c->lock);
    return is_there;
}

void cs_disk_cache_use(struct cs_disk_cache *c, struct cs_disk_cache_use *out)
{
    pthread_mutex_lock(&c->lock);
    *out = (struct cs_disk_cache_use){.n_found = c->n_found,
                                      .n_kept = c->n_kept,
                                      .max_bytes = c->max_bytes,
                                      .is_full = c->is_full};
    pthread_mutex_unlock(&c->lock);
    out->bytes = cs_disk_room_bytes(c->dir);
}

void cs_disk_cache_text(const struct cs_disk_cache_use *use, struct cs_buf *out)
{
    char bytes[CS_UNITS_CAP], most[CS_UNITS_CAP];

    cs_bytes_print(bytes, sizeof bytes, use->bytes);
    cs_bytes_print(most, sizeof most, use->max_bytes);
    cs_buf_addf(out, "%llu files found in it, %llu added; it holds %s of %s%s",
                (unsigned long long)use->n_found, (unsigned long long)use->n_kept, bytes, most,
                use->is_full ? "; the disk is full, nothing more is kept" : "");
}

static bool write_entry(const char *path, const void *data, size_t n)
{
    unsigned char head[HEAD];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool is_written = false;

    if (fd == -1)
        return false;
    put_head(data, n, head);
    is_written =
        cs_write_all(fd, head, HEAD, NULL) == CS_OK && cs_write_all(fd, data, n, NULL) == CS_OK;
    return close(fd) == 0 && is_written;
}

static bool may_write(struct cs_disk_cache *c, size_t n, uint64_t *serial, bool *has_to_clear)
{
    bool may = false;

    pthread_mutex_lock(&c->lock);
    may = !c->is_full && n + HEAD <= c->max_bytes;
    *serial = c->serial++;
    c->added += may ? n + HEAD : 0;
    *has_to_clear = c->added > c->max_bytes / 16;
    if (*has_to_clear)
        c->added = 0;
    pthread_mutex_unlock(&c->lock);
    return may;
}

void cs_disk_cache_put(struct cs_disk_cache *c, const char *key, const void *data, size_t n)
{
    char path[CS_PATH_CAP], temp[CS_PATH_CAP];
    bool has_to_clear = false;
    uint64_t serial = 0;

    if (c == NULL || !path_of(c, key, path) || !may_write(c, n, &serial, &has_to_clear) ||
        cs_path(temp, NULL, "%s.tmp-%ld-%llu", path, (long)getpid(), (unsigned long long)serial) !=
            CS_OK)
        return;
    const bool is_kept = write_entry(temp, data, n) && rename(temp, path) == 0;
    const int why = errno;
    pthread_mutex_lock(&c->lock);
    c->n_kept += is_kept;
    c->is_full = c->is_full || (!is_kept && (why == ENOSPC || why == EDQUOT || why == EROFS));
    pthread_mutex_unlock(&c->lock);
    if (!is_kept)
        (void)unlink(temp);
    if (has_to_clear)
        cs_disk_room_clear(c->dir, c->max_bytes);
}
