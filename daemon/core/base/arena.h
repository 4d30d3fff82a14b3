/* Bump allocator: compile-like passes (spec, graph, plan, program) allocate here and are freed
 * whole.
 *
 * Memory is zeroed. Allocation beyond the limit, or when the system has none, aborts the process
 * through CS_ASSERT unless the caller uses cs_arena_try: sizes that came from a peer or a file must
 * be checked against a limit before they reach the arena. */
#ifndef CS_BASE_ARENA_H
#define CS_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "core/base/status.h"

struct cs_arena;

struct cs_arena *cs_arena_new(size_t limit_bytes);   /* 0: no limit */
void cs_arena_free(struct cs_arena *arena);          /* accepts NULL */
size_t cs_arena_bytes(const struct cs_arena *arena); /* that it holds; NULL: 0 */
void *cs_arena_alloc(struct cs_arena *arena, size_t bytes);
void *cs_arena_try(struct cs_arena *arena, size_t bytes); /* NULL when over the limit */
char *cs_arena_strdup(struct cs_arena *arena, const char *text);
char *cs_arena_strndup(struct cs_arena *arena, const char *text, size_t len);
char *cs_arena_printf(struct cs_arena *arena, const char *fmt, ...) CS_PRINTF(2, 3);

#define CS_NEW(arena, type)          ((type *)cs_arena_alloc((arena), sizeof(type)))
#define CS_NEW_ARRAY(arena, type, n) ((type *)cs_arena_array((arena), sizeof(type), (size_t)(n)))
void *cs_arena_array(struct cs_arena *arena, size_t item_bytes, size_t n); /* checked product */

#endif
