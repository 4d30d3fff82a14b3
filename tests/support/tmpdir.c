/* A test's own directory and its small files. */
#include "tmpdir.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(bool is_good, const char *what)
{
    if (is_good)
        return;
    perror(what);
    exit(70);
}

char *tmpdir_new(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = NULL;
    must(asprintf(&dir, "%s/cs-test-XXXXXX", base && *base ? base : "/tmp") > 0, "tmpdir");
    must(mkdtemp(dir) != NULL, dir);
    return dir;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)where;
    (void)kind;
    if (S_ISDIR(info->st_mode))
        return rmdir(path);
    return unlink(path);
}

void tmpdir_free(char *dir)
{
    if (!dir)
        return;
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}

const char *tmpdir_path(const char *dir, const char *name)
{
    static char paths[8][4096];
    static int turn;
    char *path = paths[turn++ % 8];
    must(snprintf(path, sizeof(paths[0]), "%s/%s", dir, name) < (int)sizeof(paths[0]), name);
    return path;
}

void tmpdir_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    must(file != NULL, path);
    must(fwrite(data, 1, bytes, file) == bytes, path);
    must(fclose(file) == 0, path);
}

char *tmpdir_read(const char *path, size_t *bytes)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    must(fstat(fileno(file), &info) == 0, path);
    char *data = malloc((size_t)info.st_size + 1);
    must(data != NULL, path);
    *bytes = fread(data, 1, (size_t)info.st_size, file);
    data[*bytes] = '\0';
    fclose(file);
    return data;
}

bool tmpdir_has(const char *dir, const char *name)
{
    struct stat info;
    return lstat(tmpdir_path(dir, name), &info) == 0;
}

int tmpdir_count(const char *dir)
{
    DIR *open_dir = opendir(dir);
    int n = 0;
    must(open_dir != NULL, dir);
    for (struct dirent *entry; (entry = readdir(open_dir));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open_dir);
    return n;
}

const char *source_path(const char *name)
{
    const char *root = getenv("CORNSTARCH_SOURCE");
    return tmpdir_path(root && *root ? root : ".", name);
}
