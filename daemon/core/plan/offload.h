/* Activations that wait in the host's memory between a forward and its backward (`offload` of a branch):
 * a stage has a few sets of memory that its slots use in turn, slot s the set s % sets; what another slot
 * needs the set for before the backward goes to page-locked host memory and comes back, beside
 * computing. */
#ifndef CS_PLAN_OFFLOAD_H
#define CS_PLAN_OFFLOAD_H

#include "core/plan/plan.h"

enum { CS_OFFLOAD_SETS = 7 }; /* most */

/* Sets of a stage of which so many slots are alive at once: as few as let one move while others are
 * worked on. In 1F1B the forward of slot s + alive - 1 is followed by the backward of slot s, so those two
 * must not have the same. 0: it has as many sets as slots, nothing goes anywhere. */
int32_t cs_offload_sets(int32_t alive);

#endif
