/* The rows of the table of orders. */
#include "console/views/state/job_orders.h"

#define X(name, key, message, command, role, confirm, help)                                        \
    const struct cs_job_order cs_job_order_##name = {#name, key,     message, command,             \
                                                     role,  confirm, help};
CS_JOB_ORDER_TABLE(X)
#undef X

bool cs_job_order_is_allowed(const char *state, const struct cs_job_order *what)
{
    const struct cs_job_state_row *row = cs_job_state_find(state);
    return row == NULL || (row->orders & what->command) != 0;
}
