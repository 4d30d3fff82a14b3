/* How much each process of a job has to do with the end of the others. */
#ifndef CS_RUNNER_GUILT_H
#define CS_RUNNER_GUILT_H

#include "runner/state/state.h"

enum cs_guilt {
    CS_GUILT_NONE,
    CS_GUILT_TOLD_TO_END,
    CS_GUILT_VICTIM, /* it has lost another one */
    CS_GUILT_SILENT, /* it ended without a word, or it is stopped: who waited for it gave up */
    CS_GUILT_FAILED, /* by itself */
    CS_GUILT_DIED    /* by a signal */
};

enum cs_guilt cs_guilt_of(const struct cs_child *child);
bool cs_guilt_is_stopped(const struct cs_child *child);
/* It runs, and has told of no error. */
bool cs_guilt_is_quiet(const struct cs_child *child);
/* The one that most likely caused the end, of several the first; NULL: nobody did. */
const struct cs_child *cs_guilt_worst(const struct cs_runner *r);
/* Trouble that is waited_ns old: whether who caused it may still be to come. Some of who is lost may be known long
 * before it has ended: its sockets close first, what it has on a device after them. */
bool cs_guilt_is_open(const struct cs_runner *r, int64_t waited_ns);

#endif
