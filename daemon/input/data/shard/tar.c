/* Walks through the headers of a tar archive. */
#include "input/data/shard/tar.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/base/system/io.h"

enum { BLOCK = 512, EXTRA_MAX = 1024 * 1024, MEMBERS_MAX = 100 * 1000 * 1000 };

struct walk {
    int fd;
    const char *path;
    uint64_t at, end; /* end: of the file */
    struct cs_arena *arena;
    struct cs_tar *out;
    struct cs_xxh3 *hash;
    /* what an extra header says of the next member */
    const char *name;
    uint64_t n_bytes;
    bool has_bytes;
    struct cs_err *err;
};

static enum cs_status broken(const struct walk *w, const char *what)
{
    return cs_fail(w->err, CS_CORRUPT, "%s: %s at byte %llu", w->path, what,
                   (unsigned long long)w->at);
}

/* Octal, or with the highest bit of the first byte set big-endian binary. */
static bool number_of(const unsigned char *field, size_t n, uint64_t *out)
{
    size_t i = 0;

    *out = 0;
    if (field[0] & 0x80) {
        if (field[0] != 0x80)
            return false;
        for (i = 1; i < n; i++) {
            if (*out >> 55 != 0)
                return false;
            *out = *out << 8 | field[i];
        }
        return true;
    }
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        *out = *out << 3 | (uint64_t)(field[i] - '0');
    return i == n || field[i] == ' ' || field[i] == '\0';
}

/* The sum of a header's bytes, its own field counted as spaces. */
static bool has_right_sum(const unsigned char *h)
{
    uint64_t said = 0, sum = 0;

    for (int i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? (unsigned char)' ' : h[i];
    return number_of(h + 148, 8, &said) && said == sum;
}

bool cs_tar_is(const char *bytes, size_t n)
{
    return n == BLOCK && bytes[0] != '\0' && has_right_sum((const unsigned char *)bytes);
}

static const char *name_of(const struct walk *w, const unsigned char *h)
{
    const char *name = (const char *)h, *prefix = (const char *)h + 345;
    const char *own = cs_arena_strndup(w->arena, name, strnlen(name, 100));
    size_t n = strnlen(prefix, 155);
    bool is_ustar = memcmp(h + 257, "ustar\0", 6) == 0; /* GNU has other things there */

    return is_ustar && n > 0 ? cs_arena_printf(w->arena, "%.*s/%s", (int)n, prefix, own) : own;
}

/* The bytes of an extra header, with a zero behind them; NULL: they cannot be read. */
static char *extra_bytes(struct walk *w, uint64_t n)
{
    char *text = n <= EXTRA_MAX ? malloc(n + 1) : NULL;
    size_t got = 0;

    if (text == NULL || cs_read_at(w->fd, w->path, text, n, w->at, &got, NULL) != CS_OK ||
        got < n) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    return text;
}

/* "LENGTH key=value\n" one behind the other. */
static bool take_pax(struct walk *w, const char *text, size_t n)
{
    while (n > 0) {
        char *end = NULL;
        unsigned long long len = strtoull(text, &end, 10);
        if (*end != ' ' || len > n || len <= (size_t)(end - text) + 1 || text[len - 1] != '\n')
            return false;
        const char *key = end + 1, *line_end = text + len - 1;
        size_t left = (size_t)(line_end - key);
        if (left > 5 && memcmp(key, "path=", 5) == 0)
            w->name = cs_arena_strndup(w->arena, key + 5, left - 5);
        if (left > 5 && memcmp(key, "size=", 5) == 0) {
            w->n_bytes = strtoull(key + 5, &end, 10);
            w->has_bytes = true;
            if (end != line_end)
                return false;
        }
        if (left > 11 && memcmp(key, "GNU.sparse.", 11) == 0)
            return false;
        text += len;
        n -= (size_t)len;
    }
    return true;
}

static enum cs_status take_extra(struct walk *w, char type, uint64_t n)
{
    char *text = extra_bytes(w, n);
    bool is_right = text != NULL;

    if (is_right && type == 'x')
        is_right = take_pax(w, text, (size_t)n);
    if (is_right && type == 'L')
        w->name = cs_arena_strdup(w->arena, text);
    free(text);
    return is_right ? CS_OK : broken(w, "a header that is not understood");
}

static enum cs_status add(struct walk *w, const char *name, uint64_t n)
{
    struct cs_tar *t = w->out;

    if (t->n == t->cap) {
        size_t cap = t->cap == 0 ? 256 : 2 * t->cap;
        struct cs_tar_member *more =
            cap <= MEMBERS_MAX ? realloc(t->members, cap * sizeof *more) : NULL;
        if (more == NULL)
            return cs_fail(w->err, CS_NO_MEMORY, "no memory for %zu members of %s", cap, w->path);
        t->members = more;
        t->cap = cap;
    }
    t->members[t->n++] = (struct cs_tar_member){name, w->at, n};
    return CS_OK;
}

/* The header is behind us; *bytes: what its contents take. */
static enum cs_status take_member(struct walk *w, const unsigned char *h, uint64_t *bytes)
{
    const char type = (char)h[156];
    const bool is_extra = type == 'x' || type == 'L' || type == 'K' || type == 'g';
    enum cs_status status = CS_OK;

    if (!number_of(h + 124, 12, bytes))
        return broken(w, "a header without a size");
    if (!is_extra && w->has_bytes)
        *bytes = w->n_bytes;
    if (*bytes > w->end - w->at)
        return broken(w, "the archive is cut off: a member ends behind it");
    if (is_extra)
        return take_extra(w, type, *bytes);
    if (type == 'S')
        return cs_fail(w->err, CS_UNSUPPORTED, "%s: sparse members are not read", w->path);
    if (type == '0' || type == '\0' || type == '7')
        status = add(w, w->name != NULL ? w->name : name_of(w, h), *bytes);
    w->name = NULL;
    w->has_bytes = false;
    return status;
}

static enum cs_status walk(struct walk *w, bool (*is_enough)(void *, const struct cs_tar *),
                           void *user)
{
    unsigned char h[BLOCK];
    size_t got = 0;
    uint64_t bytes = 0;

    for (;;) {
        CS_TRY(cs_read_at(w->fd, w->path, h, BLOCK, w->at, &got, w->err));
        if (got == 0 || (got == BLOCK && h[0] == '\0')) /* two empty blocks end it, or nothing */
            break;
        if (got < BLOCK || !has_right_sum(h))
            return broken(w, got < BLOCK ? "the archive is cut off" : "no header of a tar archive");
        cs_xxh3_add(w->hash, h, BLOCK);
        w->at += BLOCK;
        CS_TRY(take_member(w, h, &bytes));
        w->at += (bytes + BLOCK - 1) / BLOCK * BLOCK;
        if (is_enough != NULL && is_enough(user, w->out))
            return CS_OK;
    }
    cs_xxh3_end(w->hash, w->out->xxh3);
    return CS_OK;
}

enum cs_status cs_tar_list(int fd, const char *path, struct cs_arena *arena,
                           bool (*is_enough)(void *user, const struct cs_tar *so_far), void *user,
                           struct cs_tar *out, struct cs_err *err)
{
    struct walk w = {.fd = fd, .path = path, .arena = arena, .out = out, .err = err};
    struct stat st;
    enum cs_status status = CS_OK;

    *out = (struct cs_tar){0};
    if (fstat(fd, &st) == -1)
        return cs_fail_errno(err, "%s", path);
    w.end = (uint64_t)st.st_size;
    w.hash = cs_xxh3_new();
    status = walk(&w, is_enough, user);
    cs_xxh3_free(w.hash);
    if (status != CS_OK)
        cs_tar_free(out);
    return status;
}

void cs_tar_free(struct cs_tar *tar)
{
    free(tar->members);
    *tar = (struct cs_tar){0};
}
