/* Who may ask for what. */
#ifndef CS_SERVER_ROLES_H
#define CS_SERVER_ROLES_H

#include "core/base/status.h"
#include "core/wire/schema.h"

/* CS_REFUSED: the message needs a higher role (its row of the schema says which) than the connection
 * has. Every request passes here once, before its handler. */
enum cs_status cs_role_check(const struct cs_message *message, enum cs_role role,
                             struct cs_err *err) CS_NODISCARD;

#endif
