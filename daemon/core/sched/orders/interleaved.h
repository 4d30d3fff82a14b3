/* The interleaved walk, which other schedules take for their part of it. Private to core/sched. */
#ifndef CS_SCHED_ORDERS_INTERLEAVED_H
#define CS_SCHED_ORDERS_INTERLEAVED_H

#include "core/sched/orders/order.h"

/* the rank's chunks of the head's branch, in turn; a rank of an encoder: far enough ahead of it */
void cs_order_interleaved(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);
/* a grid, as if encoders and head were two chunks of an interleaved pipeline: 1F1B; all forwards,
 * then all backwards */
void cs_order_grid_1f1b(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);
void cs_order_grid_gpipe(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);

#endif
