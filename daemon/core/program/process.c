#include "core/program/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/status.h"

enum { STACK_BYTES = 64 << 10 };

#ifdef __SANITIZE_ADDRESS__
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

static const char *name_of_program;

static void put(const char *text)
{
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* Writes nothing but what is safe here: names are symbols that the program exports, else offsets in its file. What it
 * was comes last: the last line is what others tell of a process that died. The handler was reset, so that the signal
 * ends the process after this. */
static void tell_calls(int number)
{
    const char digits[] = {(char)('0' + number / 10), (char)('0' + number % 10), '\0'};
    cs_calls_print(STDERR_FILENO);
    put(name_of_program);
    put(": signal ");
    put(number < 10 ? digits + 1 : digits);
    put(" in the calls above\n");
    raise(number);
}

/* Who aborts has said why, and would have its last line taken. */
static void tell_of_faults(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    static char memory[STACK_BYTES]; /* a stack that has run over has no room for it */
    const stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction action = {.sa_handler = tell_calls,
                               .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK)};
    if (is_sanitized)
        return;
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    cs_calls_print(nowhere); /* loads what it needs while memory may be taken */
    if (nowhere >= 0)
        close(nowhere);
    sigemptyset(&action.sa_mask);
    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < CS_ARRAY_LEN(faults); i++)
        sigaction(faults[i], &action, NULL);
}

void cs_process_begin(const char *program)
{
    name_of_program = program;
    prctl(PR_SET_NAME, program); /* cuts a longer one; fails only for a bad address */
    tell_of_faults();
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
