/* The slot pool: one shared memory area per job and node with a ring of manifests and the memory of
 * slots. One producer (feeder), n_readers consumers (workers). Every reader sees every manifest and
 * releases every slot once; a slot's memory is reused when all have. Waiting is by futex, in rounds
 * of 100 ms, and ends when `stop` is set by the runner (or by anybody who saw a death). */
#ifndef CS_DATA_POOL_H
#define CS_DATA_POOL_H

#include "core/data/slot.h"

struct cs_pool_shape {
    uint32_t
        n_slots; /* that may be in use, >= the most of a step; memory is touched for those that are */
    uint32_t n_manifests; /* a power of two, >= 4 */
    uint32_t n_readers;
};

struct cs_pool; /* a process's handle on the mapped memory */

size_t cs_pool_bytes(const struct cs_pool_shape *shape, const struct cs_slot_budget *budget);
void cs_pool_init(void *memory, const struct cs_pool_shape *shape,
                  const struct cs_slot_budget *budget); /* the runner, once */
/* reader: 0..n_readers-1, or -1 for the feeder and the runner. Does not own memory. */
enum cs_status cs_pool_attach(void *memory, size_t bytes, const struct cs_slot_budget *budget,
                              int reader, struct cs_pool **out, struct cs_err *err) CS_NODISCARD;
void cs_pool_detach(struct cs_pool *pool);

/* feeder: the next free slot (waits), sequence number in *seq; slots are used in sequence */
enum cs_status cs_pool_take(struct cs_pool *pool, struct cs_slot *slot, uint64_t *seq,
                            struct cs_err *err) CS_NODISCARD;
enum cs_status
cs_pool_publish(struct cs_pool *pool, const struct cs_manifest *manifest,
                struct cs_err *err) CS_NODISCARD; /* waits for room; slot NULL: all counts are 0 */

/* reader: manifests in order; *waited_ns (may be NULL) how long it waited. out->slot is the pool's, until the
 * next manifest is read. CS_INTERRUPTED: stop */
enum cs_status cs_pool_next(struct cs_pool *pool, struct cs_manifest *out, uint64_t *waited_ns,
                            struct cs_err *err) CS_NODISCARD;
void cs_pool_slot(struct cs_pool *pool, const struct cs_manifest *manifest, int slot,
                  struct cs_slot *out);
void cs_pool_release(struct cs_pool *pool, const struct cs_manifest *manifest,
                     int slot); /* once per reader */

void cs_pool_stop(struct cs_pool *pool); /* wake everybody: they return CS_INTERRUPTED */

#endif
