/* Collectives in the precedence graph: who belongs to which group, and where they meet. Private to
 * core/sched. */
#ifndef CS_SCHED_PROOF_COLLECTIVE_H
#define CS_SCHED_PROOF_COLLECTIVE_H

#include "core/sched/proof/precedence.h"

/* The group of an action in the plan's table (core/plan/groups.h); rank: its rank in the first
 * replica. -1: it is no collective, or the rank has no such group. */
int32_t cs_collective_group(const struct cs_plan *plan, const struct cs_action *action,
                            int32_t rank);
/* Adds a meeting for the n-th collective of every group; its members are those of the group. A
 * group of a repeated program is one of each copy, but for the world. Collectives of ranks that are
 * no members meet nobody and are done when they are posted. */
void cs_precedence_match_collectives(struct cs_precedence *graph, struct cs_arena *arena);

#endif
