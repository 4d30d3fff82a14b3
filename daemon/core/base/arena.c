/* Hands out memory from chained blocks, 16-byte aligned, and frees it all at once. */
#include "core/base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

struct block {
    struct block *next;
    size_t used, cap;
    _Alignas(ALIGN) unsigned char data[];
};

struct cs_arena {
    struct block *head;
    size_t limit, used, held; /* held: by its blocks */
};

struct cs_arena *cs_arena_new(size_t limit_bytes)
{
    struct cs_arena *arena = calloc(1, sizeof *arena);
    CS_ASSERT(arena != NULL);
    arena->limit = limit_bytes ? limit_bytes : SIZE_MAX;
    return arena;
}

void cs_arena_free(struct cs_arena *arena)
{
    if (!arena)
        return;
    for (struct block *b = arena->head; b;) {
        struct block *next = b->next;
        free(b);
        b = next;
    }
    free(arena);
}

size_t cs_arena_bytes(const struct cs_arena *arena)
{
    return arena ? arena->held : 0;
}

void *cs_arena_try(struct cs_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (need > arena->limit - arena->used)
        return NULL;
    struct block *b = arena->head;
    if (!b || b->cap - b->used < need) {
        size_t cap = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        b = calloc(1, sizeof *b + cap);
        if (!b)
            return NULL;
        b->cap = cap;
        b->next = arena->head;
        arena->head = b;
        arena->held += sizeof *b + cap;
    }
    void *p = b->data + b->used;
    b->used += need;
    arena->used += need;
    return p;
}

void *cs_arena_alloc(struct cs_arena *arena, size_t bytes)
{
    void *p = cs_arena_try(arena, bytes);
    CS_ASSERT(p != NULL);
    return p;
}

void *cs_arena_array(struct cs_arena *arena, size_t item_bytes, size_t n)
{
    size_t bytes;
    CS_ASSERT(!__builtin_mul_overflow(item_bytes, n, &bytes));
    return cs_arena_alloc(arena, bytes);
}

char *cs_arena_strndup(struct cs_arena *arena, const char *text, size_t len)
{
    char *copy = cs_arena_alloc(arena, len + 1);
    memcpy(copy, text, len);
    return copy;
}

char *cs_arena_strdup(struct cs_arena *arena, const char *text)
{
    return cs_arena_strndup(arena, text, strlen(text));
}

char *cs_arena_printf(struct cs_arena *arena, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    CS_ASSERT(n >= 0);
    char *text = cs_arena_alloc(arena, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return text;
}
