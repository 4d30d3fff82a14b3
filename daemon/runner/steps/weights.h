/* The hashes of all parameters at the end of a job, as workers report them. */
#ifndef CS_RUNNER_WEIGHTS_H
#define CS_RUNNER_WEIGHTS_H

#include "runner/state/state.h"

void cs_weights_report(struct cs_runner *r, const json_t *msg); /* worker.done */
/* writes weights.json; an alarm where tied copies differ */
void cs_weights_write(struct cs_runner *r);

#endif
