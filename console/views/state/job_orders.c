/* The rows of the table of orders. */
#include "console/views/state/job_orders.h"

#define X(name, key, message, command, role, confirm, help)                                        \
    const struct cs_job_order cs_job_order_##name = {#name, key,     message, command,             \
                                                     role,  confirm, help};
CS_JOB_ORDER_TABLE(X)
#undef X
