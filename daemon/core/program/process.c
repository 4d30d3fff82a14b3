#include "core/program/process.h"

#include <sys/prctl.h>
#include <sys/resource.h>

void cs_process_name(const char *program)
{
    prctl(PR_SET_NAME, program); /* cuts a longer one; fails only for a bad address */
}

int64_t cs_process_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
        return 1024;
    const struct rlimit most = {limit.rlim_max, limit.rlim_max};
    if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &most) == 0)
        limit.rlim_cur = limit.rlim_max;
    return limit.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)limit.rlim_cur;
}
