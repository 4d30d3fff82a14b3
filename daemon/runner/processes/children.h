/* The processes of a job: start, signals, end. */
#ifndef CS_RUNNER_CHILDREN_H
#define CS_RUNNER_CHILDREN_H

#include "runner/state/state.h"

/* r->calls must be set: they are called from the event loop */
enum cs_status cs_children_start(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
void cs_children_free(struct cs_runner *r);
void cs_child_send(struct cs_child *child, json_t *msg); /* takes the reference */
void cs_child_drain(struct cs_child *child);             /* takes what it has said by now */
void cs_children_signal(struct cs_runner *r, int signal);
bool cs_children_all_exited(const struct cs_runner *r);

#endif
