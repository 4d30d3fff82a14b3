/* Rows on their way between two stages: one buffer per (edge, slot, direction), taken by whoever
 * fills it (a stage or a receive) and given back by whoever is done with it (a stage or a send).
 *
 * Buffers lie in the device's memory, have the size of the edge's budget and are reused. Zero rows
 * have no buffer (NULL) and no message. take and give lock; a buffer itself is handed over through
 * the program's dependencies. On a device with streams, give notes where the last use stands on the
 * giver's stream; a buffer is taken again by that stream, or when that use is over. */
#ifndef CS_WORKER_BOUNDARY_H
#define CS_WORKER_BOUNDARY_H

#include "core/plan/plan.h"
#include "worker/device.h"

struct cs_boundary;

enum cs_status cs_boundary_new(const struct cs_plan *plan, struct cs_device *device,
                               struct cs_boundary **out, struct cs_err *err) CS_NODISCARD;
void cs_boundary_free(struct cs_boundary *boundary); /* accepts NULL */
/* room for n_slots; everything that a failed step left is taken back */
enum cs_status cs_boundary_begin(struct cs_boundary *boundary, int32_t n_slots,
                                 struct cs_err *err) CS_NODISCARD;
/* What that many buffers of every edge (n_edges) take; all are made from `memory` (256-byte
 * aligned, borrowed) in place of those there were. None is in use. A buffer more is allocated when
 * it is needed. */
size_t cs_boundary_bytes(const struct cs_boundary *boundary, const int32_t *n_buffers);
enum cs_status cs_boundary_reserve(struct cs_boundary *boundary, const int32_t *n_buffers,
                                   void *memory, struct cs_err *err) CS_NODISCARD;
/* a buffer for rows of the edge, NULL for 0 rows; stream: of the action that fills it */
enum cs_status cs_boundary_take(struct cs_boundary *boundary, int32_t edge, int32_t slot,
                                int is_grad, int64_t rows, void *stream, void **out,
                                struct cs_err *err) CS_NODISCARD;
void *cs_boundary_at(const struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad);
/* stream: of the action that used it last */
void cs_boundary_give(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad,
                      void *stream);

#endif
