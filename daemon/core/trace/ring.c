/* Passes events from a worker to its runner through shared memory.
 *
 * An event is stored as four 64-bit atomic words. The writer stores event number w into slot
 * w % capacity and then publishes written = w + 1; while it does so, slot w % capacity still counts
 * as event w - capacity for a reader. Every word is stored with release and loaded with acquire
 * order, so a reader that saw one word of event w also sees written >= w, and knows that its copy
 * may be torn. */
#include "core/trace/ring.h"

#include <string.h>

static const uint64_t ring_magic = 0x31474e4952535343u; /* "CSSRING1" */

enum { WORDS = sizeof(struct cs_event) / sizeof(uint64_t), HEAD_BYTES = 256 };

_Static_assert(sizeof(struct cs_ring_head) <= HEAD_BYTES, "the head fits before the events");

enum { MAX_CAPACITY = 1 << 24 };

static bool is_valid_capacity(uint32_t capacity)
{
    return capacity >= 2 && capacity <= MAX_CAPACITY && (capacity & (capacity - 1)) == 0;
}

size_t cs_ring_bytes(uint32_t capacity)
{
    return HEAD_BYTES + (size_t)capacity * sizeof(struct cs_event);
}

void cs_ring_init(void *memory, uint32_t capacity, int32_t rank)
{
    CS_ASSERT(is_valid_capacity(capacity));
    struct cs_ring_head *head = memory;
    memset(memory, 0, cs_ring_bytes(capacity));
    head->magic = ring_magic;
    head->capacity = capacity;
    head->rank = rank;
    atomic_init(&head->step, -1);
    atomic_init(&head->action, -1);
    atomic_init(&head->comm_action, -1);
}

enum cs_status cs_ring_attach(void *memory, size_t bytes, struct cs_ring *out, struct cs_err *err)
{
    struct cs_ring_head *head = memory;
    if (bytes < HEAD_BYTES || head->magic != ring_magic)
        return cs_fail(err, CS_CORRUPT, "not an event ring (%zu bytes)", bytes);
    if (!is_valid_capacity(head->capacity) || bytes < cs_ring_bytes(head->capacity))
        return cs_fail(err, CS_CORRUPT, "event ring of %zu bytes says it holds %u events", bytes,
                       head->capacity);
    *out = (struct cs_ring){.head = head,
                            .events = (struct cs_event *)(void *)((char *)memory + HEAD_BYTES)};
    return CS_OK;
}

/* The words of event number n. Nothing accesses the events of a ring in any other way. */
static _Atomic uint64_t *words_of(const struct cs_ring *ring, uint64_t n)
{
    return (_Atomic uint64_t *)(void *)&ring->events[n & (ring->head->capacity - 1)];
}

void cs_ring_put(struct cs_ring *ring, const struct cs_event *event)
{
    uint64_t w = atomic_load_explicit(&ring->head->written, memory_order_relaxed);
    _Atomic uint64_t *to = words_of(ring, w);
    uint64_t word[WORDS];
    memcpy(word, event, sizeof word);
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&to[i], word[i], memory_order_release);
    atomic_store_explicit(&ring->head->written, w + 1, memory_order_release);
}

/* Jump over what has been, or may be being, overwritten. */
static void skip_lost(struct cs_ring *ring, uint64_t written)
{
    uint64_t capacity = ring->head->capacity;
    if (written - ring->read < capacity)
        return;
    uint64_t first = written - capacity + 1;
    ring->lost += first - ring->read;
    ring->read = first;
}

uint32_t cs_ring_get(struct cs_ring *ring, struct cs_event *out, uint32_t max)
{
    uint64_t written = atomic_load_explicit(&ring->head->written, memory_order_acquire);
    uint32_t n = 0;
    skip_lost(ring, written);
    while (n < max && ring->read < written) {
        const _Atomic uint64_t *from = words_of(ring, ring->read);
        uint64_t word[WORDS];
        for (int i = 0; i < WORDS; i++)
            word[i] = atomic_load_explicit(&from[i], memory_order_acquire);
        written = atomic_load_explicit(&ring->head->written, memory_order_acquire);
        if (written - ring->read >= ring->head->capacity) {
            skip_lost(ring, written);
            continue;
        }
        memcpy(&out[n++], word, sizeof word);
        ring->read++;
    }
    return n;
}
