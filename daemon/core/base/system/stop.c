/* The flag of a thread whose computations may be told to end. */
#include "core/base/system/stop.h"

#include <stddef.h>

static _Thread_local const atomic_bool *stop;

const atomic_bool *cs_stop_set(const atomic_bool *flag)
{
    const atomic_bool *before = stop;
    stop = flag;
    return before;
}

bool cs_stop_is_asked(void)
{
    return stop != NULL && atomic_load_explicit(stop, memory_order_relaxed);
}

enum cs_status cs_stop_check(struct cs_err *err)
{
    return cs_stop_is_asked() ? cs_fail(err, CS_INTERRUPTED, "stopped") : CS_OK;
}
