/* Checks the role of a connection against the role that a message needs. */
#include "server/callers/roles.h"

enum cs_status cs_role_check(const struct cs_message *message, enum cs_role role,
                             struct cs_err *err)
{
    if (role >= message->role)
        return CS_OK;
    return cs_fail(err, CS_REFUSED, "%s is for the role %s; this connection has the role %s",
                   message->type, cs_role_name(message->role), cs_role_name(role));
}
