/* Entries are files DIR/XX/KEY: a head with the hash of what follows, then the bytes. The time of a file is when it
 * was last read. */
#include "input/media/disk_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/hash.h"
#include "core/base/io.h"

enum { HEAD = 24, FOLDERS = 256 };

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

/* --- the folder ------------------------------------------------------------------------------- */

struct entry {
    char name[CS_DISK_KEY];
    int folder;
    uint64_t bytes;
    struct timespec used;
};

struct list {
    struct entry *items; /* NULL: only counted */
    size_t n, cap;
    uint64_t bytes;
    bool is_kept;
};

static void add_entry(struct list *l, const struct entry *entry)
{
    l->bytes += entry->bytes;
    if (!l->is_kept)
        return;
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 1024 : 2 * l->cap;
        struct entry *more = realloc(l->items, cap * sizeof *more);
        if (more == NULL)
            return; /* what is not listed stays */
        l->items = more;
        l->cap = cap;
    }
    l->items[l->n++] = *entry;
}

static bool folder_path(const struct cs_disk_cache *c, int folder, char out[CS_PATH_CAP])
{
    return cs_path(out, NULL, "%s/%02x", c->dir, folder) == CS_OK;
}

/* Files of a writer that is gone stay for an hour, then they go like entries. */
static void list_folder(const struct cs_disk_cache *c, int folder, struct list *out)
{
    char path[CS_PATH_CAP];
    DIR *dir = folder_path(c, folder, path) ? opendir(path) : NULL;
    const struct dirent *file = NULL;
    struct stat st;

    while (dir != NULL && (file = readdir(dir)) != NULL) {
        struct entry entry = {.folder = folder};
        if (file->d_name[0] == '.' ||
            fstatat(dirfd(dir), file->d_name, &st, AT_SYMLINK_NOFOLLOW) == -1 ||
            !S_ISREG(st.st_mode))
            continue;
        if (strlen(file->d_name) >= sizeof entry.name) {
            if (st.st_mtim.tv_sec + 3600 < time(NULL))
                (void)unlinkat(dirfd(dir), file->d_name, 0);
            continue;
        }
        memcpy(entry.name, file->d_name, strlen(file->d_name) + 1);
        entry.bytes = (uint64_t)st.st_size;
        entry.used = st.st_mtim;
        add_entry(out, &entry);
    }
    if (dir != NULL)
        closedir(dir);
}

static int by_use(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* The oldest go until a tenth is free. */
static void remove_oldest(const struct cs_disk_cache *c, struct list *list)
{
    char path[CS_PATH_CAP];

    qsort(list->items, list->n, sizeof *list->items, by_use);
    for (size_t i = 0; i < list->n && list->bytes > c->max_bytes - c->max_bytes / 10; i++)
        if (cs_path(path, NULL, "%s/%02x/%s", c->dir, list->items[i].folder, list->items[i].name) ==
                CS_OK &&
            (unlink(path) == 0 || errno == ENOENT))
            list->bytes -= list->items[i].bytes;
}

/* By one process at a time; where another does it, it is done. */
static void clear_up(struct cs_disk_cache *c)
{
    char path[CS_PATH_CAP];
    struct list list = {.is_kept = true};
    int fd = cs_path(path, NULL, "%s/lock", c->dir) == CS_OK
                 ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)
                 : -1;

    if (fd != -1 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        for (int i = 0; i < FOLDERS; i++)
            list_folder(c, i, &list);
        if (list.bytes > c->max_bytes)
            remove_oldest(c, &list);
    }
    free(list.items);
    if (fd != -1)
        close(fd);
}

enum cs_status cs_disk_cache_open(const char *dir, uint64_t max_bytes, struct cs_disk_cache **out,
                                  struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_disk_cache *c = NULL;

    *out = NULL;
    for (int i = 0; i < FOLDERS; i++) {
        CS_TRY(cs_path(path, err, "%s/%02x", dir, i));
        CS_TRY(cs_mkdirs(path, err));
    }
    if (access(path, W_OK | X_OK) == -1)
        return cs_fail_errno(err, "cache of pictures %s", dir);
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the cache %s", dir);
    memcpy(c->dir, dir, strlen(dir) + 1); /* it has fitted with more */
    c->max_bytes = max_bytes;
    pthread_mutex_init(&c->lock, NULL);
    clear_up(c);
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

uint64_t cs_disk_cache_bytes(struct cs_disk_cache *c)
{
    struct list list = {0};

    for (int i = 0; i < FOLDERS; i++)
        list_folder(c, i, &list);
    return list.bytes;
}

/* --- entries ---------------------------------------------------------------------------------- */

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
    *out = (struct cs_disk_cache_use){
        .n_found = c->n_found, .n_kept = c->n_kept, .max_bytes = c->max_bytes};
    pthread_mutex_unlock(&c->lock);
    out->bytes = cs_disk_cache_bytes(c);
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
        clear_up(c);
}
