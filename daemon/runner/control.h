/* The control socket: requests of the daemon. */
#ifndef CS_RUNNER_CONTROL_H
#define CS_RUNNER_CONTROL_H

#include "runner/state/state.h"

enum cs_status cs_control_open(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
/* Every second: listens anew when the socket's file is gone, as at the end of a session. */
void cs_control_look(struct cs_runner *r);
void cs_control_close(struct cs_runner *r);

#endif
