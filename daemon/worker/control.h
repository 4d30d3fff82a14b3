/* The line to the runner: one JSON message per line on an inherited socket. Reading is for one
 * thread; sending is for all (the checkpoint writer reports from its own). */
#ifndef CS_WORKER_CONTROL_H
#define CS_WORKER_CONTROL_H

#include <jansson.h>

#include "core/base/status.h"

struct cs_control;

/* takes ownership of fd */
enum cs_status cs_control_new(int fd, struct cs_control **out, struct cs_err *err) CS_NODISCARD;
void cs_control_free(struct cs_control *control); /* accepts NULL; closes fd */
/* Takes the reference. The runner being gone is not an error here: it shows when reading. */
void cs_control_send(struct cs_control *control, json_t *msg);
/* The next message, checked against the schema; waits. CS_PEER_GONE: the runner closed the line. */
enum cs_status cs_control_read(struct cs_control *control, json_t **msg,
                               struct cs_err *err) CS_NODISCARD;

#endif
