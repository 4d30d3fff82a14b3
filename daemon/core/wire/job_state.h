/* The states of a job, one row each: runner, daemon, console and manual all read this table.
 *
 * phase: what happens without an order. WAITING: for devices; LIVE: a runner is at work and holds
 * devices; RESTING: nothing, a resume goes on; ENDED: nothing, the job is over.
 * orders: what the state allows, a bit each. exit: the code of a command that waited for the state.
 * mood: how it is shown, and how serious its note is. */
#ifndef CS_WIRE_JOB_STATE_H
#define CS_WIRE_JOB_STATE_H

#include <stdbool.h>

enum cs_job_phase { CS_PHASE_WAITING, CS_PHASE_LIVE, CS_PHASE_RESTING, CS_PHASE_ENDED };

enum cs_job_command {
    CS_ORDER_PAUSE = 1,
    CS_ORDER_RESUME = 2,
    CS_ORDER_STOP = 4,
    CS_ORDER_CHECKPOINT = 8,
    CS_ORDER_REMOVE = 16
};

enum cs_job_mood { CS_MOOD_PLAIN, CS_MOOD_GOOD, CS_MOOD_QUIET, CS_MOOD_ATTENTION, CS_MOOD_BAD };

/* name, phase, orders, exit code, mood, help */
#define CS_JOB_STATES(X)                                                                           \
    X(QUEUED, WAITING, CS_ORDER_STOP, 0, PLAIN, "it waits for devices")                            \
    X(STARTING, LIVE, CS_ORDER_STOP, 0, PLAIN, "its processes are being started")                  \
    X(RUN, LIVE, CS_ORDER_PAUSE | CS_ORDER_STOP | CS_ORDER_CHECKPOINT, 0, GOOD, "it trains")       \
    X(PAUSING, LIVE, CS_ORDER_STOP, 0, PLAIN, "it finishes its step and writes a checkpoint")      \
    X(PAUSED, RESTING, CS_ORDER_RESUME | CS_ORDER_STOP, 0, ATTENTION,                              \
      "its checkpoint is written and its devices are free")                                        \
    X(STOPPING, LIVE, CS_ORDER_STOP, 0, PLAIN, "it ends, with a checkpoint unless told otherwise") \
    X(DONE, ENDED, CS_ORDER_REMOVE, 0, QUIET, "all steps are trained")                             \
    X(FAILED, ENDED, CS_ORDER_RESUME | CS_ORDER_REMOVE, 6, BAD,                                    \
      "it ended with an error; the reason says which")                                             \
    X(CANCELLED, ENDED, CS_ORDER_RESUME | CS_ORDER_REMOVE, 0, QUIET, "it was stopped")             \
    X(LOST, ENDED, CS_ORDER_RESUME | CS_ORDER_REMOVE, 6, BAD,                                      \
      "its runner is gone and left no last state")

enum cs_job_state {

#define X(name, phase, orders, exit, mood, help) CS_STATE_##name,
    CS_JOB_STATES(X)
#undef X
        CS_JOB_STATE_COUNT
};

struct cs_job_state_row {
    enum cs_job_state state;
    const char *name; /* on the wire, in files, on the screen */
    enum cs_job_phase phase;
    unsigned orders; /* enum cs_job_command */
    int exit_code;
    enum cs_job_mood mood;
    const char *help;
};

const struct cs_job_state_row *cs_job_state_row(enum cs_job_state state);
const struct cs_job_state_row *cs_job_state_find(const char *name); /* NULL: unknown */
/* false for a state that is not known: a newer daemon's job may still do something */
bool cs_job_state_is(const char *name, enum cs_job_phase phase);
enum cs_job_mood cs_job_state_mood(const char *name); /* PLAIN when it is not known */

/* " QUEUED STARTING RUN ...": for the help of a field */
#define CS_JOB_STATE_WORD(name, phase, orders, exit, mood, help) " " #name
#define CS_JOB_STATE_WORDS                                       CS_JOB_STATES(CS_JOB_STATE_WORD)

#endif
