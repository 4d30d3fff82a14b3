/* Keeps the rings of manifests and slots in shared memory, between one feeder and many readers.
 *
 * Layout: head | manifests | one "read" counter per reader | counts and place of every number of the
 * ring | holder and released[reader] of every place | places (pages). Counters only grow. A slot goes
 * to the first place that every reader has released: so the memory that is touched is that of slots
 * in use, however many a step may have at most. At most n_slots successive slots are in use: slot s
 * waits until s - n_slots is released. Releasing twice changes nothing. Two futex words: `supply` counts what
 * readers wait for, `demand` what the feeder waits for; both move on stop. A waiter reads the word,
 * then tests its condition, then sleeps only while the word is unchanged, so no wake-up is lost. */
#include "core/data/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/status.h"
#include "core/base/system/clock.h"

static const uint64_t pool_magic = 0x334c4f4f50535343u; /* "CSSPOOL3" */

enum { ROUND_MS = 100, PAGE = 4096, LINE = 64, MAX_READERS = 4096, MAX_SLOTS = 65536 };

struct head {
    uint64_t magic;
    struct cs_pool_shape shape;
    uint64_t slot_bytes;
    _Atomic uint64_t taken, published; /* slots; manifests */
    _Atomic uint64_t covered;          /* slots below this number belong to published manifests */
    _Atomic uint32_t stop, supply, demand;
};

struct areas {
    size_t manifests, read, counts, place, holder, released, slots, bytes;
};

struct cs_pool {
    struct head *head;
    struct cs_manifest *manifests;
    _Atomic uint64_t *read;        /* (n_readers) manifests read */
    struct cs_slot_counts *counts; /* (n_slots) of slot s at s % n_slots, as is */
    uint32_t *place;               /* where it lies */
    uint64_t *holder;              /* (n_slots) of every place: its slot + 1, 0: none yet */
    _Atomic uint64_t *released;    /* (n_slots, n_readers) of every place: last released slot + 1 */
    char *slots;                   /* the places */
    struct cs_slot_layout layout;
    struct cs_slot_budget budget;
    int reader;
    struct cs_slot_counts *own; /* (n_slots) of the manifest read last; NULL: no reader */
};

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static struct areas areas_of(const struct cs_pool_shape *shape, size_t slot_bytes)
{
    struct areas a = {.manifests = round_up(sizeof(struct head), LINE)};
    a.read = round_up(a.manifests + shape->n_manifests * sizeof(struct cs_manifest), LINE);
    a.counts = round_up(a.read + shape->n_readers * sizeof(uint64_t), LINE);
    a.place = round_up(a.counts + shape->n_slots * sizeof(struct cs_slot_counts), LINE);
    a.holder = round_up(a.place + shape->n_slots * sizeof(uint32_t), LINE);
    a.released = round_up(a.holder + shape->n_slots * sizeof(uint64_t), LINE);
    size_t cells = (size_t)shape->n_slots * shape->n_readers;
    a.slots = round_up(a.released + cells * sizeof(uint64_t), PAGE);
    a.bytes = a.slots + shape->n_slots * slot_bytes;
    return a;
}

static bool is_valid_shape(const struct cs_pool_shape *s)
{
    return s->n_slots >= 1 && s->n_slots <= MAX_SLOTS && s->n_manifests >= 1 &&
           s->n_manifests <= MAX_SLOTS && (s->n_manifests & (s->n_manifests - 1)) == 0 &&
           s->n_readers >= 1 && s->n_readers <= MAX_READERS;
}

size_t cs_pool_bytes(const struct cs_pool_shape *shape, const struct cs_slot_budget *budget)
{
    struct cs_slot_layout layout;
    cs_slot_layout_make(budget, &layout);
    return areas_of(shape, layout.bytes).bytes;
}

void cs_pool_init(void *memory, const struct cs_pool_shape *shape,
                  const struct cs_slot_budget *budget)
{
    CS_ASSERT(is_valid_shape(shape));
    struct cs_slot_layout layout;
    cs_slot_layout_make(budget, &layout);
    memset(memory, 0, areas_of(shape, layout.bytes).released); /* the rest when it is used */
    struct head *head = memory;
    head->magic = pool_magic;
    head->shape = *shape;
    head->slot_bytes = layout.bytes;
}

enum cs_status cs_pool_attach(void *memory, size_t bytes, const struct cs_slot_budget *budget,
                              int reader, struct cs_pool **out, struct cs_err *err)
{
    struct head *head = memory;
    struct cs_slot_layout layout;
    cs_slot_layout_make(budget, &layout);
    if (bytes < sizeof *head || head->magic != pool_magic || !is_valid_shape(&head->shape))
        return cs_fail(err, CS_CORRUPT, "not a slot pool (%zu bytes)", bytes);
    if (head->slot_bytes != layout.bytes)
        return cs_fail(err, CS_CORRUPT,
                       "the pool has slots of %zu bytes, the plan's budget needs %zu",
                       (size_t)head->slot_bytes, layout.bytes);
    struct areas a = areas_of(&head->shape, layout.bytes);
    if (bytes < a.bytes)
        return cs_fail(err, CS_CORRUPT, "the pool needs %zu bytes, its memory has %zu", a.bytes,
                       bytes);
    if (reader < -1 || reader >= (int)head->shape.n_readers)
        return cs_fail(err, CS_INVALID, "reader %d of a pool with %u readers", reader,
                       head->shape.n_readers);
    struct cs_pool *pool = calloc(1, sizeof *pool);
    CS_ASSERT(pool);
    if (reader >= 0) {
        pool->own = calloc(head->shape.n_slots, sizeof *pool->own);
        CS_ASSERT(pool->own);
    }
    char *base = memory;
    pool->head = head;
    pool->manifests = (struct cs_manifest *)(void *)(base + a.manifests);
    pool->read = (_Atomic uint64_t *)(void *)(base + a.read);
    pool->counts = (struct cs_slot_counts *)(void *)(base + a.counts);
    pool->place = (uint32_t *)(void *)(base + a.place);
    pool->holder = (uint64_t *)(void *)(base + a.holder);
    pool->released = (_Atomic uint64_t *)(void *)(base + a.released);
    pool->slots = base + a.slots;
    pool->layout = layout;
    pool->budget = *budget;
    pool->reader = reader;
    *out = pool;
    return CS_OK;
}

void cs_pool_detach(struct cs_pool *pool)
{
    if (pool != NULL)
        free(pool->own);
    free(pool);
}

static void bump(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleep until is_ready(pool, arg), at most ROUND_MS at a time; CS_INTERRUPTED once the pool
 * stops. */
static enum cs_status wait_until(struct cs_pool *pool, _Atomic uint32_t *word,
                                 bool (*is_ready)(const struct cs_pool *, uint64_t), uint64_t arg,
                                 struct cs_err *err)
{
    for (;;) {
        uint32_t seen = atomic_load(word);
        if (atomic_load(&pool->head->stop))
            return cs_fail(err, CS_INTERRUPTED, "the job is being stopped");
        if (is_ready(pool, arg))
            return CS_OK;
        struct timespec round = {.tv_nsec = ROUND_MS * 1000000L};
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &round, NULL, 0);
    }
}

/* every reader has released the slot that lies there */
static bool is_place_free(const struct cs_pool *pool, uint32_t place)
{
    const uint32_t n = pool->head->shape.n_readers;
    const _Atomic uint64_t *row = pool->released + (size_t)place * n;
    for (uint32_t r = 0; pool->holder[place] > 0 && r < n; r++)
        if (atomic_load_explicit(&row[r], memory_order_acquire) != pool->holder[place])
            return false;
    return true;
}

/* The slot before it with the same number in the ring: released, and its place may have another one. */
static bool is_slot_free(const struct cs_pool *pool, uint64_t seq)
{
    const uint32_t n_slots = pool->head->shape.n_slots;
    if (seq < n_slots)
        return true;
    const uint32_t place = pool->place[seq % n_slots];
    return pool->holder[place] != seq - n_slots + 1 || is_place_free(pool, place);
}

/* There is one: fewer than n_slots slots are in use once is_slot_free holds. */
static uint32_t first_place(const struct cs_pool *pool)
{
    uint32_t place = 0;
    while (!is_place_free(pool, place))
        place++;
    CS_ASSERT(place < pool->head->shape.n_slots);
    return place;
}

static void *memory_of(const struct cs_pool *pool, uint64_t seq)
{
    return pool->slots + (size_t)pool->place[seq % pool->head->shape.n_slots] * pool->layout.bytes;
}

static bool has_manifest_room(const struct cs_pool *pool, uint64_t published)
{
    const struct cs_pool_shape *shape = &pool->head->shape;
    for (uint32_t r = 0; r < shape->n_readers; r++)
        if (published - atomic_load_explicit(&pool->read[r], memory_order_acquire) >=
            shape->n_manifests)
            return false;
    return true;
}

static bool has_manifest(const struct cs_pool *pool, uint64_t next)
{
    return atomic_load_explicit(&pool->head->published, memory_order_acquire) > next;
}

enum cs_status cs_pool_take(struct cs_pool *pool, struct cs_slot *slot, uint64_t *seq,
                            struct cs_err *err)
{
    struct head *head = pool->head;
    uint64_t s = atomic_load(&head->taken);
    if (s - atomic_load(&head->covered) >= head->shape.n_slots)
        return cs_fail(err, CS_LIMIT, "a step needs more than the %u slots of the pool",
                       head->shape.n_slots);
    CS_TRY(wait_until(pool, &head->demand, is_slot_free, s, err));
    const uint32_t place = first_place(pool);
    for (uint32_t r = 0; pool->holder[place] == 0 && r < head->shape.n_readers; r++)
        atomic_init(&pool->released[(size_t)place * head->shape.n_readers + r], 0);
    pool->place[s % head->shape.n_slots] = place;
    pool->holder[place] = s + 1;
    atomic_store(&head->taken, s + 1);
    cs_slot_view(&pool->layout, &pool->budget, memory_of(pool, s), slot);
    *seq = s;
    return CS_OK;
}

enum cs_status cs_pool_publish(struct cs_pool *pool, const struct cs_manifest *manifest,
                               struct cs_err *err)
{
    struct head *head = pool->head;
    uint64_t n = atomic_load(&head->published);
    uint64_t end = manifest->first_slot + (uint64_t)manifest->n_slots;
    if (manifest->n_slots < 0 || manifest->n_slots > CS_STEP_MAX_SLOTS ||
        manifest->first_slot != atomic_load(&head->covered) || end > atomic_load(&head->taken))
        return cs_fail(err, CS_INVALID,
                       "step %lld publishes slots %llu to %llu, but %llu to %llu are taken",
                       (long long)manifest->step, (unsigned long long)manifest->first_slot,
                       (unsigned long long)end, (unsigned long long)atomic_load(&head->covered),
                       (unsigned long long)atomic_load(&head->taken));
    CS_TRY(wait_until(pool, &head->demand, has_manifest_room, n, err));
    struct cs_manifest *kept = &pool->manifests[n & (head->shape.n_manifests - 1)];
    *kept = *manifest;
    kept->slot = NULL;
    for (int32_t i = 0; i < manifest->n_slots; i++)
        pool->counts[(manifest->first_slot + (uint64_t)i) % head->shape.n_slots] =
            manifest->slot != NULL ? manifest->slot[i] : (struct cs_slot_counts){0};
    atomic_store(&head->covered, end);
    atomic_store_explicit(&head->published, n + 1, memory_order_release);
    bump(&head->supply);
    return CS_OK;
}

enum cs_status cs_pool_next(struct cs_pool *pool, struct cs_manifest *out, uint64_t *waited_ns,
                            struct cs_err *err)
{
    struct head *head = pool->head;
    CS_ASSERT(pool->reader >= 0);
    uint64_t n = atomic_load(&pool->read[pool->reader]);
    int64_t start_ns = cs_now_ns();
    enum cs_status status = wait_until(pool, &head->supply, has_manifest, n, err);
    if (waited_ns)
        *waited_ns = (uint64_t)(cs_now_ns() - start_ns);
    if (status != CS_OK)
        return status;
    *out = pool->manifests[n & (head->shape.n_manifests - 1)];
    if (out->n_slots < 0 || out->n_slots > (int32_t)head->shape.n_slots)
        return cs_fail(err, CS_CORRUPT, "the manifest of step %lld has %d slots, the pool %u",
                       (long long)out->step, out->n_slots, head->shape.n_slots);
    for (int32_t i = 0; i < out->n_slots; i++)
        pool->own[i] = pool->counts[(out->first_slot + (uint64_t)i) % head->shape.n_slots];
    out->slot = pool->own;
    atomic_store_explicit(&pool->read[pool->reader], n + 1, memory_order_release);
    bump(&head->demand);
    return CS_OK;
}

void cs_pool_slot(struct cs_pool *pool, const struct cs_manifest *manifest, int slot,
                  struct cs_slot *out)
{
    CS_ASSERT(slot >= 0 && slot < manifest->n_slots);
    uint64_t seq = manifest->first_slot + (uint64_t)slot;
    cs_slot_view(&pool->layout, &pool->budget, memory_of(pool, seq), out);
}

void cs_pool_release(struct cs_pool *pool, const struct cs_manifest *manifest, int slot)
{
    const struct cs_pool_shape *shape = &pool->head->shape;
    CS_ASSERT(pool->reader >= 0 && slot >= 0 && slot < manifest->n_slots);
    uint64_t seq = manifest->first_slot + (uint64_t)slot;
    const size_t place = pool->place[seq % shape->n_slots];
    size_t cell = place * shape->n_readers + (size_t)pool->reader;
    atomic_store_explicit(&pool->released[cell], seq + 1, memory_order_release);
    bump(&pool->head->demand);
}

void cs_pool_stop(struct cs_pool *pool)
{
    atomic_store(&pool->head->stop, 1);
    bump(&pool->head->supply);
    bump(&pool->head->demand);
}
