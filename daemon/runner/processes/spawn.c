/* Starts workers and feeders. */
#include "runner/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/io.h"

extern char **environ;

/* libgomp and OpenBLAS read these in their constructors: too late to set in the child's main */
static const struct {
    const char *name, *text;
} fixed_env[] = {
    {"OMP_NUM_THREADS",      "OMP_NUM_THREADS=1"      },
    {"OPENBLAS_NUM_THREADS", "OPENBLAS_NUM_THREADS=1" },
    {"OMP_WAIT_POLICY",      "OMP_WAIT_POLICY=passive"},
    {"LC_ALL",               "LC_ALL=C.UTF-8"         },
};

static bool is_fixed(const char *entry)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(fixed_env); i++) {
        size_t n = strlen(fixed_env[i].name);
        if (strncmp(entry, fixed_env[i].name, n) == 0 && entry[n] == '=')
            return true;
    }
    return false;
}

/* a pointer array only; the texts stay where they are */
static const char **new_environment(void)
{
    size_t n = 0, used = 0;
    while (environ[n])
        n++;
    const char **env = calloc(n + CS_ARRAY_LEN(fixed_env) + 1, sizeof *env);
    CS_ASSERT(env);
    for (size_t i = 0; i < n; i++)
        if (!is_fixed(environ[i]))
            env[used++] = environ[i];
    for (size_t i = 0; i < CS_ARRAY_LEN(fixed_env); i++)
        env[used++] = fixed_env[i].text;
    return env;
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            signal(s, s == SIGXFSZ ? SIG_IGN : SIG_DFL); /* a full file is an error value */
}

static _Noreturn void child_failed(const char *what)
{
    dprintf(2, "cannot start: %s: %s\n", what, strerror(errno));
    _exit(127);
}

/* Descriptors go through numbers above all targets, so that no dup2 hits a source still needed. */
static void place_descriptors(const struct cs_spawn *spawn)
{
    int out = fcntl(spawn->output_fd, F_DUPFD, 1000);
    int null = open("/dev/null", O_RDONLY);
    if (out == -1 || null == -1 || dup2(out, 1) == -1 || dup2(out, 2) == -1)
        child_failed("output");
    for (int i = 0; i < spawn->n_fds; i++) {
        int high = fcntl(spawn->fds[i], F_DUPFD, 1001 + i);
        if (high != 1001 + i)
            child_failed("descriptors (limit of open files?)");
    }
    if (dup2(null, 0) == -1)
        child_failed("input");
    for (int i = 0; i < spawn->n_fds; i++)
        if (dup2(1001 + i, 3 + i) == -1)
            child_failed("descriptors");
    if (syscall(SYS_close_range, 3u + (unsigned)spawn->n_fds, ~0u, 0u) == -1)
        child_failed("close_range");
}

static _Noreturn void become_child(const struct cs_spawn *spawn, pid_t parent, const char **env)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(127);
    setpgid(0, 0); /* a Ctrl-C in the terminal is the runner's business */
    reset_signals();
    place_descriptors(spawn);
    const char *argv[] = {spawn->name, NULL};

    /* execve does not write to its arrays; its type is older than const */
    union {
        const char **in;
        char **out;
    } args = {.in = argv}, envs = {.in = env};

    execve(spawn->path, args.out, envs.out);
    child_failed(spawn->path);
}

enum cs_status cs_spawn(const struct cs_spawn *spawn, pid_t *pid, int *pidfd, struct cs_err *err)
{
    const char **env = new_environment();
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0)
        become_child(spawn, parent, env);
    free(env);
    if (child == -1)
        return cs_fail_errno(err, "cannot start %s", spawn->name);
    *pid = child;
    *pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    if (*pidfd == -1) {
        enum cs_status status = cs_fail_errno(err, "cannot watch process %d", (int)child);
        kill(child, SIGKILL);
        return status;
    }
    return CS_OK;
}

enum cs_status cs_spawn_path(const char *name, const char *variable, char *out, size_t cap,
                             struct cs_err *err)
{
    char dir[CS_PATH_CAP];
    const char *other = getenv(variable);
    int n;
    if (other && other[0]) {
        n = snprintf(out, cap, "%s", other);
    } else {
        CS_TRY(cs_dir_self(dir, err));
        n = snprintf(out, cap, "%s/%s", dir, name);
    }
    if (n < 0 || (size_t)n >= cap)
        return cs_fail(err, CS_LIMIT, "the path of %s is too long", name);
    if (access(out, X_OK) == -1)
        return cs_fail_errno(err, "cannot run %s", out);
    return CS_OK;
}
