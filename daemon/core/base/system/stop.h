/* Long computations that may be told to end early. Whoever runs them (a prompt, a screen) gives its thread a flag;
 * loops that may take seconds ask now and then and fail with CS_INTERRUPTED. Results never depend on it: what is
 * told to stop has none. */
#ifndef CS_BASE_STOP_H
#define CS_BASE_STOP_H

#include <stdatomic.h>

#include "core/base/status.h"

/* Of this thread; NULL: never. Returns the one before. */
const atomic_bool *cs_stop_set(const atomic_bool *flag);
bool cs_stop_is_asked(void);
enum cs_status cs_stop_check(struct cs_err *err) CS_NODISCARD; /* CS_INTERRUPTED: "stopped" */

#endif
