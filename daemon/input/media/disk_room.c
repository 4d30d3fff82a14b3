/* Lists the files of a cache on disk with their sizes and times, and removes the oldest. */
#include "input/media/disk_room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/system/io.h"

enum { FOLDERS = 256, NAME = 33, ABANDONED_S = 3600 };

struct entry {
    char name[NAME];
    int folder;
    uint64_t bytes;
    struct timespec used;
};

struct list {
    struct entry *items;
    size_t n, cap;
    uint64_t bytes;
    bool is_kept; /* false: only counted */
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

/* A longer name is of a file that is being written, or of a writer that is gone. */
static void list_file(int folder_fd, int folder, const char *name, struct list *out)
{
    struct entry entry = {.folder = folder};
    struct stat st;

    if (name[0] == '.' || fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == -1 ||
        !S_ISREG(st.st_mode))
        return;
    if (strlen(name) >= sizeof entry.name) {
        if (st.st_mtim.tv_sec + ABANDONED_S < time(NULL))
            (void)unlinkat(folder_fd, name, 0);
        return;
    }
    memcpy(entry.name, name, strlen(name) + 1);
    entry.bytes = (uint64_t)st.st_size;
    entry.used = st.st_mtim;
    add_entry(out, &entry);
}

static void list_all(const char *dir, struct list *out)
{
    char path[CS_PATH_CAP];
    const struct dirent *file = NULL;

    for (int i = 0; i < FOLDERS; i++) {
        DIR *folder = cs_path(path, NULL, "%s/%02x", dir, i) == CS_OK ? opendir(path) : NULL;
        while (folder != NULL && (file = readdir(folder)) != NULL)
            list_file(dirfd(folder), i, file->d_name, out);
        if (folder != NULL)
            closedir(folder);
    }
}

static int by_use(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

static void remove_oldest(const char *dir, uint64_t max_bytes, struct list *list)
{
    char path[CS_PATH_CAP];

    if (list->n > 0)
        qsort(list->items, list->n, sizeof *list->items, by_use);
    for (size_t i = 0; i < list->n && list->bytes > max_bytes - max_bytes / 10; i++) {
        const struct entry *e = &list->items[i];
        if (cs_path(path, NULL, "%s/%02x/%s", dir, e->folder, e->name) == CS_OK &&
            (unlink(path) == 0 || errno == ENOENT))
            list->bytes -= e->bytes;
    }
}

enum cs_status cs_disk_room_make(const char *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];

    for (int i = 0; i < FOLDERS; i++) {
        CS_TRY(cs_path(path, err, "%s/%02x", dir, i));
        CS_TRY(cs_mkdirs(path, err));
    }
    return access(path, W_OK | X_OK) == 0 ? CS_OK : cs_fail_errno(err, "writing to %s", path);
}

uint64_t cs_disk_room_bytes(const char *dir)
{
    struct list list = {0};

    list_all(dir, &list);
    return list.bytes;
}

void cs_disk_room_clear(const char *dir, uint64_t max_bytes)
{
    char path[CS_PATH_CAP];
    struct list list = {.is_kept = true};
    int fd = cs_path(path, NULL, "%s/lock", dir) == CS_OK
                 ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)
                 : -1;

    if (fd != -1 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        list_all(dir, &list);
        if (list.bytes > max_bytes)
            remove_oldest(dir, max_bytes, &list);
    }
    free(list.items);
    if (fd != -1)
        close(fd);
}
