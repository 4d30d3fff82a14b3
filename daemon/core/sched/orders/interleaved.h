/* The interleaved walk, which other schedules take for their part of it. Private to core/sched. */
#ifndef CS_SCHED_ORDERS_INTERLEAVED_H
#define CS_SCHED_ORDERS_INTERLEAVED_H

#include "core/sched/orders/order.h"

/* Slots of a stage of an encoder that are alive together at most in a step of n_slots, where the head has n_ranks with
 * n_chunks each. hops: stages from this one to the head, itself counted; 1 or more. */
int32_t cs_interleaved_live(int32_t n_ranks, int32_t n_chunks, int32_t n_slots, int32_t hops);
/* the rank's chunks of the head's branch, in turn; a rank of an encoder: far enough ahead of it */
void cs_order_interleaved(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);
/* a grid, as if encoders and head were two chunks of an interleaved pipeline: 1F1B; all forwards,
 * then all backwards */
void cs_order_grid_1f1b(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);
void cs_order_grid_gpipe(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);

#endif
