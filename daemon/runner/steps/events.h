/* Events of the ranks: out of their rings, kept until their step is complete. */
#ifndef CS_RUNNER_EVENTS_H
#define CS_RUNNER_EVENTS_H

#include "runner/state/state.h"

void cs_events_drain(struct cs_runner *r); /* all rings, now */
/* The events of training step `step`, in the arena; older ones and those of evaluations are
 * dropped, later ones stay. */
struct cs_span_events cs_events_take(struct cs_child *child, int64_t step, struct cs_arena *arena);

#endif
