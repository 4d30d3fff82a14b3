/* What children print: into their logs and to whoever watches. */
#ifndef CS_RUNNER_OUTPUT_H
#define CS_RUNNER_OUTPUT_H

#include "runner/state/state.h"

/* *fd: the write end for the child, the caller closes it */
enum cs_status cs_output_open(struct cs_child *child, int *fd, struct cs_err *err) CS_NODISCARD;
void cs_output_read(struct cs_child *child);  /* everything that is in the pipe now */
void cs_output_close(struct cs_child *child); /* accepts a child without output */

#endif
