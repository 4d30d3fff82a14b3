/* Fail a test with the text of an error. After cmocka.h. */
#ifndef CS_TESTS_SUPPORT_NEED_H
#define CS_TESTS_SUPPORT_NEED_H

#include "core/base/status.h"

static inline void need(enum cs_status status, const struct cs_err *err)
{
    if (status != CS_OK)
        fail_msg("%s: %s", cs_status_slug(status), err->text);
}

#endif
