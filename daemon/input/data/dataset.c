/* Indexes the items of a JSON array or of JSON lines, and reads item i. */
#include "input/data/dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input/data/json_tolerant.h"

enum { BLOCK = 256 * 1024 };

struct item {
    uint64_t offset, len;
};

struct cs_dataset {
    int fd;
    struct cs_arena *arena;
    const char *path, *root; /* root: real path */
    const char **tokens;
    int n_tokens;
    struct item *items;
    uint64_t n, cap;
};

/* The tolerant scanner: it only knows strings, brackets and commas. */
struct scan {
    enum { START, LINES, ITEMS, DONE } state;

    int64_t depth;
    bool in_string, is_escaped, has_item;
    uint64_t begin, last; /* of the open item: first byte, one past the last that is not space */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void add_item(struct cs_dataset *set, struct scan *s)
{
    if (!s->has_item)
        return;
    if (set->n == set->cap) {
        set->cap = set->cap == 0 ? 1024 : set->cap * 2;
        set->items = realloc(set->items, set->cap * sizeof *set->items);
        CS_ASSERT(set->items != NULL);
    }
    set->items[set->n++] = (struct item){s->begin, s->last - s->begin};
    s->has_item = false;
}

static void touch(struct scan *s, uint64_t at)
{
    if (!s->has_item)
        s->begin = at;
    s->has_item = true;
    s->last = at + 1;
}

static void scan_string(struct scan *s, char c, uint64_t at)
{
    touch(s, at);
    if (s->is_escaped)
        s->is_escaped = false;
    else if (c == '\\')
        s->is_escaped = true;
    else if (c == '"')
        s->in_string = false;
}

static void scan_array(struct cs_dataset *set, struct scan *s, char c, uint64_t at)
{
    if (s->in_string) {
        scan_string(s, c, at);
        return;
    }
    if (s->depth == 0 && (c == ',' || c == ']')) {
        add_item(set, s);
        if (c == ']')
            s->state = DONE;
        return;
    }
    if (is_space(c))
        return;
    touch(s, at);
    if (c == '"')
        s->in_string = true;
    else if (c == '{' || c == '[')
        s->depth++;
    else if ((c == '}' || c == ']') && s->depth > 0)
        s->depth--;
}

static enum cs_status scan_byte(struct cs_dataset *set, struct scan *s, char c, uint64_t at,
                                struct cs_err *err)
{
    switch (s->state) {
    case START:
        if (is_space(c) || (at < 3 && (c == '\xef' || c == '\xbb' || c == '\xbf')))
            return CS_OK;
        if (c != '[' && c != '{')
            return cs_fail(err, CS_INVALID,
                           "%s: starts with byte 0x%02x: neither a JSON array nor JSON lines",
                           set->path, (unsigned char)c);
        s->state = c == '[' ? ITEMS : LINES;
        if (c == '{')
            touch(s, at);
        return CS_OK;
    case LINES:
        if (c == '\n')
            add_item(set, s);
        else if (!is_space(c))
            touch(s, at);
        return CS_OK;
    case ITEMS:
        scan_array(set, s, c, at);
        return CS_OK;
    case DONE:
        if (is_space(c))
            return CS_OK;
        return cs_fail(err, CS_CORRUPT, "%s: text after the end of the array at byte %llu",
                       set->path, (unsigned long long)at);
    }
    return CS_OK;
}

static enum cs_status read_block(int fd, const char *path, char *out, size_t n, uint64_t at,
                                 size_t *got, struct cs_err *err)
{
    *got = 0;
    while (*got < n) {
        ssize_t r = pread(fd, out + *got, n - *got, (off_t)(at + *got));
        if (r == -1 && errno == EINTR)
            continue;
        if (r == -1)
            return cs_fail_errno(err, "%s: read failed", path);
        if (r == 0)
            break;
        *got += (size_t)r;
    }
    return CS_OK;
}

static enum cs_status make_index(struct cs_dataset *set, struct cs_err *err)
{
    struct scan s = {0};
    char *block = malloc(BLOCK);
    enum cs_status status = CS_OK;
    uint64_t at = 0;
    size_t got = BLOCK;

    CS_ASSERT(block != NULL);
    while (status == CS_OK && got == BLOCK) {
        status = read_block(set->fd, set->path, block, BLOCK, at, &got, err);
        for (size_t i = 0; i < got && status == CS_OK; i++)
            status = scan_byte(set, &s, block[i], at + i, err);
        at += got;
    }
    free(block);
    if (status != CS_OK)
        return status;
    if (s.state == LINES)
        add_item(set, &s);
    if (s.state == ITEMS)
        return cs_fail(err, CS_CORRUPT,
                       "%s: ends after %llu bytes inside item %llu: the array is not closed",
                       set->path, (unsigned long long)at, (unsigned long long)set->n);
    if (set->n == 0)
        return cs_fail(err, CS_INVALID, "%s: holds no samples", set->path);
    return CS_OK;
}

static enum cs_status set_root(struct cs_dataset *set, const char *root, struct cs_err *err)
{
    char real[CS_PATH_CAP], folder[CS_PATH_CAP];
    const char *slash = strrchr(set->path, '/');

    if (root[0] == '\0') {
        if (slash == NULL)
            root = ".";
        else if (slash == set->path)
            root = "/";
        else {
            CS_TRY(cs_path(folder, err, "%.*s", (int)(slash - set->path), set->path));
            root = folder;
        }
    }
    if (realpath(root, real) == NULL)
        return cs_fail_errno(err, "folder of the pictures %s", root);
    set->root = cs_arena_strdup(set->arena, real);
    return CS_OK;
}

enum cs_status cs_dataset_open(const char *path, const char *root, const char *const *tokens,
                               int n_tokens, struct cs_dataset **out, struct cs_err *err)
{
    struct cs_dataset *set = calloc(1, sizeof *set);
    enum cs_status status = CS_OK;

    *out = NULL;
    CS_ASSERT(set != NULL && n_tokens <= CS_MAX_ENCODERS);
    set->arena = cs_arena_new(0);
    set->path = cs_arena_strdup(set->arena, path);
    set->tokens = CS_NEW_ARRAY(set->arena, const char *, n_tokens + 1);
    set->n_tokens = n_tokens;
    for (int i = 0; i < n_tokens; i++)
        set->tokens[i] = cs_arena_strdup(set->arena, tokens[i]);
    status = cs_open_regular(path, &set->fd, NULL, err);
    if (status != CS_OK)
        cs_wrap(err, status, "data set");
    if (status == CS_OK)
        status = set_root(set, root, err);
    if (status == CS_OK)
        status = make_index(set, err);
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
    if (set->fd != -1)
        close(set->fd);
    free(set->items);
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

enum cs_status cs_dataset_read(const struct cs_dataset *set, uint64_t index, struct cs_record **out,
                               struct cs_err *err)
{
    const struct item *item = &set->items[index];
    enum cs_status status = CS_OK;
    json_t *json = NULL;
    char *bytes = NULL;
    size_t got = 0;

    *out = NULL;
    CS_ASSERT(index < set->n);
    if (item->len > CS_RECORD_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "sample of %llu bytes, at most %d",
                       (unsigned long long)item->len, CS_RECORD_MAX_BYTES);
    bytes = malloc(item->len + 1);
    if (bytes == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample");
    status = read_block(set->fd, set->path, bytes, item->len, item->offset, &got, err);
    if (status == CS_OK && got < item->len)
        status = cs_fail(err, CS_CORRUPT, "%s became shorter", set->path);
    if (status == CS_OK)
        status = cs_json_tolerant(bytes, got, &json, err);
    if (status == CS_OK)
        status = cs_record_read(json, set->tokens, set->n_tokens, out, err);
    if (status == CS_OK)
        (*out)->index = index;
    json_decref(json);
    free(bytes);
    return status;
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

enum cs_status cs_dataset_resolve(const struct cs_dataset *set, const char *file,
                                  char out[CS_PATH_CAP], struct cs_err *err)
{
    char joined[CS_PATH_CAP];
    size_t n = strlen(set->root);

    if (file[0] == '/' || has_parent_step(file))
        return cs_fail(err, CS_REFUSED, "%.300s: must be relative to %.300s and without \"..\"",
                       file, set->root);
    CS_TRY(cs_path(joined, err, "%s/%s", set->root, file));
    if (realpath(joined, out) == NULL)
        return cs_fail_errno(err, "missing file %.300s", joined);
    if (strncmp(out, set->root, n) != 0 || (out[n] != '/' && n > 1))
        return cs_fail(err, CS_REFUSED, "%.300s: a link out of %.300s", file, set->root);
    return CS_OK;
}
