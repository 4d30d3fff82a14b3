/* The control socket: requests of the daemon. */
#ifndef CS_RUNNER_CONTROL_H
#define CS_RUNNER_CONTROL_H

#include "runner/state/state.h"

enum cs_status cs_control_open(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
void cs_control_close(struct cs_runner *r);

#endif
