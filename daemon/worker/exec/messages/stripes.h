/* Messages of which every rank of those that share a stage's matrices is sent a part (core/plan/primitive.h). */
#ifndef CS_WORKER_EXEC_STRIPES_H
#define CS_WORKER_EXEC_STRIPES_H

#include "worker/exec/state/state.h"
#include "worker/layer/layers.h"

/* Before a pass of a stage on a slot, rows or gradients (flow) that came in stripes are put together: all
 * sharers come. */
void cs_exec_join_stripes(struct cs_exec *exec, struct cs_run *run, const struct cs_action *action,
                          enum cs_edge_flow flow);
/* Who takes what the pass leaves for the next stage, or for the one before, asks every rank for its own rows
 * alone. */
bool cs_exec_leaves_parts(const struct cs_exec *exec, const struct cs_action *action,
                          enum cs_edge_flow flow);

#endif
