/* Starts workers and feeders. */
#include "runner/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/program/dirs.h"

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

/* What stopped a child before its program ran; it reaches us through a pipe that exec closes. */
struct stopped {
    int error;
    char what[200];
};

/* In the child. out: its log; the reason goes there as well. */
struct child {
    const struct cs_spawn *spawn;
    int *fds; /* (n_fds) sources that move out of the way */
    int report, out;
};

static _Noreturn void child_failed(const struct child *c, const char *what)
{
    struct stopped stopped = {.error = errno};
    snprintf(stopped.what, sizeof stopped.what, "%s", what);
    dprintf(c->out, "cannot start %s: %s: %s\n", c->spawn->name, what, strerror(stopped.error));
    (void)!write(c->report, &stopped, sizeof stopped);
    _exit(127);
}

/* to any free number from `from` on: the child's own numbers are below */
static int lift(const struct child *c, int fd, int from)
{
    const int lifted = fd >= from ? fd : fcntl(fd, F_DUPFD_CLOEXEC, from);
    if (lifted == -1)
        child_failed(c, "descriptors (see ulimit -n)");
    return lifted;
}

static void close_between(const struct child *c, int first, int last)
{
    if (first <= last && syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0u) == -1)
        child_failed(c, "close_range");
}

/* All sources first leave the numbers that the child gets, so that no dup2 hits one that is still
 * needed; the kernel says which numbers are free. */
static void place_descriptors(struct child *c)
{
    const int n = c->spawn->n_fds, end = 3 + n;
    c->report = lift(c, c->report, end);
    c->out = lift(c, c->out, end);
    for (int i = 0; i < n; i++)
        c->fds[i] = lift(c, c->fds[i], end);
    if (dup2(c->out, 1) == -1 || dup2(c->out, 2) == -1)
        child_failed(c, "output");
    c->out = 2;
    for (int i = 0; i < n; i++)
        if (dup2(c->fds[i], 3 + i) == -1)
            child_failed(c, "descriptors");
    close_between(c, end, c->report - 1);
    close_between(c, c->report + 1, INT_MAX);
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null == -1 || dup2(null, 0) == -1)
        child_failed(c, "/dev/null");
}

static _Noreturn void become_child(struct child *c, pid_t parent, const char **env)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(127);
    setpgid(0, 0); /* a Ctrl-C in the terminal is the runner's business */
    reset_signals();
    place_descriptors(c);
    const char *argv[] = {c->spawn->title != NULL ? c->spawn->title : c->spawn->name, NULL};

    /* execve does not write to its arrays; its type is older than const */
    union {
        const char **in;
        char **out;
    } args = {.in = argv}, envs = {.in = env};

    execve(c->spawn->path, args.out, envs.out);
    child_failed(c, c->spawn->path);
}

/* Until the child has become its program, or has said why it cannot. */
static enum cs_status await_start(const struct cs_spawn *spawn, pid_t child, int report,
                                  struct cs_err *err)
{
    struct stopped stopped;
    ssize_t n;
    do
        n = read(report, &stopped, sizeof stopped);
    while (n == -1 && errno == EINTR);
    if (n != (ssize_t)sizeof stopped)
        return CS_OK;
    while (waitpid(child, NULL, 0) == -1 && errno == EINTR)
        ;
    errno = stopped.error;
    return cs_fail_errno(err, "cannot start %s: %s", spawn->name, stopped.what);
}

static enum cs_status fork_child(const struct cs_spawn *spawn, int *fds, pid_t *pid,
                                 struct cs_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == -1)
        return cs_fail_errno(err, "cannot start %s", spawn->name);
    struct child c = {.spawn = spawn, .fds = fds, .report = ends[1], .out = spawn->output_fd};
    const char **env = new_environment();
    const pid_t parent = getpid(), child = fork();
    if (child == 0)
        become_child(&c, parent, env);
    const int error = errno;
    free(env);
    close(ends[1]);
    errno = error;
    enum cs_status status = child == -1 ? cs_fail_errno(err, "cannot start %s", spawn->name)
                                        : await_start(spawn, child, ends[0], err);
    close(ends[0]);
    *pid = child;
    return status;
}

enum cs_status cs_spawn(const struct cs_spawn *spawn, pid_t *pid, int *pidfd, struct cs_err *err)
{
    pid_t child = -1;
    int *fds = calloc((size_t)spawn->n_fds + 1, sizeof *fds);
    CS_ASSERT(fds);
    memcpy(fds, spawn->fds, (size_t)spawn->n_fds * sizeof *fds);
    enum cs_status status = fork_child(spawn, fds, &child, err);
    free(fds);
    if (status != CS_OK)
        return status;
    *pid = child;
    *pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    if (*pidfd == -1) {
        status = cs_fail_errno(err, "cannot watch process %d", (int)child);
        kill(child, SIGKILL);
        return status;
    }
    return CS_OK;
}

enum cs_status cs_spawn_path(const char *name, enum cs_variable variable, char *out, size_t cap,
                             struct cs_err *err)
{
    char dir[CS_PATH_CAP];
    const char *other = cs_variable_text(variable);
    int n;
    if (other) {
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
