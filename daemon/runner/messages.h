/* What workers and the feeder say. */
#ifndef CS_RUNNER_MESSAGES_H
#define CS_RUNNER_MESSAGES_H

#include "runner/state/state.h"

void cs_child_message(struct cs_child *child, const json_t *msg);

#endif
