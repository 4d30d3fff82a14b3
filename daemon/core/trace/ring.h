/* Single producer, single consumer event ring in shared memory (a memfd mapped by worker and
 * runner). The writer never blocks: it overwrites the oldest events; the reader counts what it
 * lost. The header also shows where the rank is, so that a death can be explained. C11 atomics. */
#ifndef CS_TRACE_RING_H
#define CS_TRACE_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/trace/event.h"

struct cs_ring_head {
    uint64_t magic;
    uint32_t capacity; /* events, a power of two */
    int32_t rank;
    _Atomic uint64_t written;     /* events ever written */
    _Atomic int64_t step;         /* current step, -1: none */
    _Atomic int32_t action;       /* id of the compute action being run, -1: none */
    _Atomic int32_t comm_action;  /* id of the communication action being run, -1: none */
    _Atomic uint64_t progress_ns; /* when an action last began or ended */
    _Atomic uint64_t
        last_samples[4]; /* numbers of the first samples of the slot in work, plus 1; 0: none */
};

struct cs_ring {
    struct cs_ring_head *head;
    struct cs_event *events;
    uint64_t read; /* reader only */
    uint64_t lost; /* reader only */
};

size_t cs_ring_bytes(uint32_t capacity);
void cs_ring_init(void *memory, uint32_t capacity, int32_t rank); /* creator */
enum cs_status cs_ring_attach(void *memory, size_t bytes, struct cs_ring *out,
                              struct cs_err *err);                              /* both */
void cs_ring_put(struct cs_ring *ring, const struct cs_event *event);           /* writer */
uint32_t cs_ring_get(struct cs_ring *ring, struct cs_event *out, uint32_t max); /* reader */

#endif
