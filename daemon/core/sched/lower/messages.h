/* Messages: compute orders become rank programs. Private to core/sched. */
#ifndef CS_SCHED_LOWER_MESSAGES_H
#define CS_SCHED_LOWER_MESSAGES_H

#include "core/sched/orders/order.h"

/* order: one per rank, of pipeline->options->n_slots slots. has_tied: exchange the tied embedding's
 * gradients. Fills program->rank. */
void cs_messages_add(const struct cs_pipeline *pipeline, const struct cs_order *order,
                     bool has_tied, struct cs_arena *arena, struct cs_program *program);

#endif
