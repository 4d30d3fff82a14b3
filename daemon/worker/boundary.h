/* Rows on their way between two stages: one buffer per (edge, slot, direction), taken by whoever
 * fills it (a stage or a receive) and given back by whoever is done with it (a stage or a send).
 *
 * Buffers of an edge have the size of its budget and are reused. Zero rows have no buffer (NULL)
 * and no message. take and give lock; a buffer itself is handed over through the program's
 * dependencies. */
#ifndef CS_WORKER_BOUNDARY_H
#define CS_WORKER_BOUNDARY_H

#include "core/plan/plan.h"

struct cs_boundary;

enum cs_status cs_boundary_new(const struct cs_plan *plan, struct cs_boundary **out,
                               struct cs_err *err) CS_NODISCARD;
void cs_boundary_free(struct cs_boundary *boundary); /* accepts NULL */
/* room for n_slots; everything that a failed step left is taken back */
enum cs_status cs_boundary_begin(struct cs_boundary *boundary, int32_t n_slots,
                                 struct cs_err *err) CS_NODISCARD;
/* a buffer for rows of the edge, NULL for 0 rows */
float *cs_boundary_take(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad,
                        int64_t rows);
float *cs_boundary_at(const struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad);
void cs_boundary_give(struct cs_boundary *boundary, int32_t edge, int32_t slot, int is_grad);

#endif
