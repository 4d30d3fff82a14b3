/* Work in a process that memory is short for. */
#ifndef CS_TESTS_SUPPORT_LIMITED_H
#define CS_TESTS_SUPPORT_LIMITED_H

#include <stdbool.h>

#include "core/base/status.h"

/* false: a sanitizer runs, which needs more address space than a limit leaves; skip the test. */
bool cs_test_can_limit(void);
/* What the work ends with in a child that may map so many MiB more than it has. One that is ended by
 * a signal fails the test. */
enum cs_status cs_test_within_mib(long mib, enum cs_status (*work)(void *user), void *user);

#endif
