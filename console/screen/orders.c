/* Orders to a job; see the table in orders.h. */
#include "console/screen/orders.h"

#define X(name, key, message, role, confirm, help)                                                 \
    const struct cs_order cs_order_##name = {#name, key, message, role, confirm, help};
CS_ORDER_TABLE(X)
#undef X
