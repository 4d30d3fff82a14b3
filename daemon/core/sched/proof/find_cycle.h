/* What waits for itself in a precedence graph. Private to core/sched. */
#ifndef CS_SCHED_PROOF_FIND_CYCLE_H
#define CS_SCHED_PROOF_FIND_CYCLE_H

#include "core/sched/proof/precedence.h"

/* Takes away, one after the other, all nodes without predecessors; true: nothing is left. Otherwise
 * open (n_nodes, NULL: not wanted) holds how many predecessors each node has left. */
bool cs_precedence_is_acyclic(const struct cs_precedence *graph, struct cs_arena *arena,
                              uint32_t **open);
/* "rank 0: send rows of ..., slot 1 waits for rank 1: recv ... waits for ...": the actions of a
 * cycle among the nodes that are left, at most eight of them. */
void cs_precedence_cycle_text(const struct cs_precedence *graph, const uint32_t *open,
                              struct cs_arena *arena, struct cs_buf *out);

#endif
