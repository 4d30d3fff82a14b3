/* Orders to a job: what the keys of the screen and the commands of the same name share, so that
 * they cannot drift apart. */
#ifndef CS_CONSOLE_VIEWS_STATE_JOB_ORDERS_H
#define CS_CONSOLE_VIEWS_STATE_JOB_ORDERS_H

#include <stdbool.h>

#include "core/wire/job_state.h"
#include "core/wire/schema.h"

enum cs_confirm { CS_CONFIRM_NONE, CS_CONFIRM_ASK, CS_CONFIRM_TYPE_ID };

/* name (and command), key, message to the daemon, what a state must allow, least role, question before
 * it, help */
/* clang-format off */
#define CS_JOB_ORDER_TABLE(X) \
    X(pause,      'P', "job.pause", CS_ORDER_PAUSE, CS_ROLE_OWNER, CS_CONFIRM_ASK,     "finish the step, write a checkpoint, release the ranks") \
    X(resume,     'R', "job.resume", CS_ORDER_RESUME, CS_ROLE_OWNER, CS_CONFIRM_ASK,     "go on from the newest checkpoint") \
    X(stop,       'X', "job.stop", CS_ORDER_STOP, CS_ROLE_OWNER, CS_CONFIRM_TYPE_ID, "end a job after a checkpoint") \
    X(checkpoint, 'C', "job.checkpoint", CS_ORDER_CHECKPOINT, CS_ROLE_OWNER, CS_CONFIRM_ASK,     "write a checkpoint after this step")

/* clang-format on */

struct cs_job_order {
    const char *name;
    char key;
    const char *message; /* "job.pause" */
    enum cs_job_command command;
    enum cs_role role;
    enum cs_confirm confirm;
    const char *help;
};

#define X(name, key, message, command, role, confirm, help)                                        \
    extern const struct cs_job_order cs_job_order_##name;
CS_JOB_ORDER_TABLE(X)
#undef X

/* what the daemon would say; a state that is not known may allow everything */
bool cs_job_order_is_allowed(const char *state, const struct cs_job_order *what);

#endif
