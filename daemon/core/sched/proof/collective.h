/* Collectives in the precedence graph: who belongs to which group, and where they meet. Private to
 * core/sched. */
#ifndef CS_SCHED_PROOF_COLLECTIVE_H
#define CS_SCHED_PROOF_COLLECTIVE_H

#include "core/sched/proof/precedence.h"

/* the group of an action of the plan, -1: it is no collective */
int32_t cs_collective_group(const struct cs_plan *plan, const struct cs_action *action);
/* Adds a meeting for the n-th collective of every group; its members are those of the group. A
 * group of a repeated program is one of each copy, but for the world. Collectives of ranks that are
 * no members meet nobody and are done when they are posted. */
void cs_precedence_match_collectives(struct cs_precedence *graph, struct cs_arena *arena);

#endif
