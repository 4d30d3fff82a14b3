/* Shared memory of a generation: one event ring per rank and one slot pool, in memfds that only the
 * processes of the job hold, so that nothing is left behind. */
#include "runner/processes/memory.h"

#include <sys/mman.h>
#include <unistd.h>

enum { RING_EVENTS = 65536, POOL_MANIFESTS = 4 };

static enum cs_status make_area(const char *name, size_t bytes, int *fd, void **memory,
                                struct cs_err *err)
{
    *fd = memfd_create(name, MFD_CLOEXEC);
    if (*fd == -1 || ftruncate(*fd, (off_t)bytes) == -1)
        return cs_fail_errno(err, "cannot make %zu bytes of shared memory for the %s", bytes, name);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (at == MAP_FAILED)
        return cs_fail_errno(err, "cannot map %zu bytes of the %s", bytes, name);
    *memory = at;
    return CS_OK;
}

/* A step of small samples may open as many slots as it has samples; the pool must hold a whole
 * step, and better two of the expected size, so that the feeder works ahead. */
static struct cs_pool_shape pool_shape(const struct cs_spec *spec, const struct cs_plan *plan)
{
    int64_t expected = plan->slots > 0 ? plan->slots : 1;
    int64_t worst =
        spec->batch_samples < CS_STEP_PACK_SLOTS ? spec->batch_samples : CS_STEP_PACK_SLOTS;
    worst += cs_plan_llm_replicas(plan); /* empty slots, so that every replica has as many */
    int64_t n = worst + expected > 2 * expected ? worst + expected : 2 * expected;
    return (struct cs_pool_shape){.n_slots = (uint32_t)n,
                                  .n_manifests = POOL_MANIFESTS,
                                  .n_readers = (uint32_t)cs_plan_world(plan)};
}

enum cs_status cs_memory_make(struct cs_runner *r, int *ring_fds, struct cs_err *err)
{
    struct cs_pool_shape shape = pool_shape(r->job.spec, r->generation.plan);
    const struct cs_slot_budget *budget = &r->generation.plan->budget;
    for (int i = 0; i < r->generation.n_ranks; i++) {
        struct cs_child *child = &r->child[i];
        CS_TRY(make_area("event ring", cs_ring_bytes(RING_EVENTS), &ring_fds[i],
                         &child->ring_memory, err));
        cs_ring_init(child->ring_memory, RING_EVENTS, i);
        CS_TRY(cs_ring_attach(child->ring_memory, cs_ring_bytes(RING_EVENTS), &child->ring, err));
    }
    r->pool_bytes = cs_pool_bytes(&shape, budget);
    CS_TRY(make_area("slot pool", r->pool_bytes, &r->pool_fd, &r->pool_memory, err));
    cs_pool_init(r->pool_memory, &shape, budget);
    return cs_pool_attach(r->pool_memory, r->pool_bytes, budget, -1, &r->pool, err);
}

void cs_memory_free(struct cs_runner *r)
{
    for (int i = 0; r->child && i < r->generation.n_ranks; i++) {
        if (r->child[i].ring_memory)
            munmap(r->child[i].ring_memory, cs_ring_bytes(RING_EVENTS));
        r->child[i].ring_memory = NULL;
    }
    cs_pool_detach(r->pool);
    r->pool = NULL;
    if (r->pool_memory)
        munmap(r->pool_memory, r->pool_bytes);
    r->pool_memory = NULL;
    if (r->pool_fd != -1)
        close(r->pool_fd);
    r->pool_fd = -1;
}
