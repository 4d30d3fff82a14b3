/* A child with a limit on its address space. */
#include "support/limited.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

extern void __asan_init(void) __attribute__((weak));

bool cs_test_can_limit(void)
{
    return __asan_init == NULL;
}

enum cs_status cs_test_within_mib(long mib, enum cs_status (*work)(void *user), void *user)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (file == NULL || fscanf(file, "%ld", &pages) != 1)
            _exit(CS_INTERNAL);
        const rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)mib << 20);
        const struct rlimit limit = {most, most};
        _exit(setrlimit(RLIMIT_AS, &limit) == 0 ? (int)work(user) : CS_INTERNAL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("within %ld MiB: ended by signal %d", mib, WTERMSIG(status));
    return (enum cs_status)WEXITSTATUS(status);
}
