#include "core/base/process.h"

#include <sys/prctl.h>

void cs_process_name(const char *program)
{
    prctl(PR_SET_NAME, program); /* cuts a longer one; fails only for a bad address */
}
