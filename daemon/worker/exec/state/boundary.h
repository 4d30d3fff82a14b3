/* Rows on their way between two stages: one place per (edge, slot, direction), taken by whoever
 * fills it (a stage or a receive) and given back by whoever is done with it (a stage or a send).
 *
 * Where rows lie is planned with the rest of a rank's memory, before the step
 * (worker/memory/plan.h): rows that cannot meet share a buffer, which has the size of the edge's
 * budget. Nobody ever waits for one, so programs stay as free of stalls as they were proved with a
 * buffer for every slot. Zero rows have no buffer (NULL) and no message. What lies in a place is
 * handed over through the program's dependencies, and so is the place itself: two threads may use
 * different ones. */
#ifndef CS_WORKER_EXEC_BOUNDARY_H
#define CS_WORKER_EXEC_BOUNDARY_H

#include "core/plan/plan.h"
#include "worker/device/device.h"

struct cs_boundary;

enum cs_status cs_boundary_new(const struct cs_plan *plan, struct cs_device *device,
                               struct cs_boundary **out, struct cs_err *err) CS_NODISCARD;
void cs_boundary_free(struct cs_boundary *boundary); /* accepts NULL */
/* room for n_slots; everything that a failed step left is taken back */
enum cs_status cs_boundary_begin(struct cs_boundary *boundary, int32_t n_slots,
                                 struct cs_err *err) CS_NODISCARD;
/* bytes of that many buffers of every edge (n_edges) */
size_t cs_boundary_bytes(const struct cs_boundary *boundary, const int32_t *n_buffers);
/* After begin: the buffers are in `memory` (256-byte aligned), and rows lie in buffer (n_edges,
 * n_slots, 2) of their edge; -1: never taken. Both borrowed until the next begin. */
void cs_boundary_follow(struct cs_boundary *boundary, const int32_t *n_buffers,
                        const int32_t *buffer, void *memory);
/* the place of rows of the edge, NULL for 0 rows */
void *cs_boundary_take(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad,
                       int64_t rows);
/* where they lie, NULL: not taken */
void *cs_boundary_at(const struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad);
/* where the loads of experts lie that go with these rows (worker/layer/loads.h), edge->load_bytes; NULL: none
 * do, or not taken */
void *cs_boundary_loads(const struct cs_boundary *boundary, int32_t edge, int32_t slot,
                        int is_grad);
void cs_boundary_give(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad);

#endif
