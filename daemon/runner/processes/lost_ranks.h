/* A rank that died is noticed here, and one that stands still. */
#ifndef CS_RUNNER_LOST_RANKS_H
#define CS_RUNNER_LOST_RANKS_H

#include "runner/state/state.h"

/* From now on the end of the child is noticed: what it still said and printed is taken first, then
 * r->calls->on_ended is called. child->pidfd must be open. */
void cs_lost_ranks_add(struct cs_child *child);
void cs_lost_ranks_remove(struct cs_child *child); /* accepts a child without a watch */
/* Every second, from the first process on: ranks without progress are told once. CS_JOB_FAILED and a
 * culprit when one stands still for ten times as long. Time in which the runner itself stood still
 * counts for nobody. */
enum cs_status cs_lost_ranks_look(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;

#endif
