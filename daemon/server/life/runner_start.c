/* Starts cornstarch-runner for a job. */
#include "server/life/runner_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/environment.h"
#include "core/base/system/io.h"
#include "core/program/dirs.h"

struct runner_command {
    char program[CS_PATH_CAP], output[CS_PATH_CAP], number[32];
    const char *dir, *socket, *lease, *here, **env;
    int lock_fd;
    bool is_check;
};

enum { LOCK_FD = 3 }; /* in the runner */

static const char lock_fd_text[] = "3";

/* Ours, with the GPUs it shall see ("NAME=value"; "" CPU ranks: as it is). Made before the fork:
 * the thread that reads the GPUs may hold a lock that a child would wait for. */
static const char **make_environment(const char *visible)
{
    static const char order[] = "CUDA_DEVICE_ORDER=PCI_BUS_ID"; /* as NVML counts */
    size_t n = 0, used = 0;
    while (environ[n])
        n++;
    const char **env = calloc(n + 3, sizeof *env);
    CS_ASSERT(env != NULL);
    for (size_t i = 0; i < n; i++)
        if (!visible[0] || (!cs_str_starts(environ[i], "CUDA_DEVICE_ORDER=") &&
                            !cs_str_starts(environ[i], "CUDA_VISIBLE_DEVICES=")))
            env[used++] = environ[i];
    if (visible[0]) {
        env[used++] = order;
        env[used] = visible;
    }
    return env;
}

/* In the child: a session of its own, no descriptors of the daemon, output beside the job's logs
 * (the runner's log is its own; here end its last words). */
static _Noreturn void become_runner(const struct runner_command *c)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    setsid();
    const bool has_lock = c->lock_fd == LOCK_FD
                              ? fcntl(LOCK_FD, F_SETFD, 0) != -1
                              : c->lock_fd != -1 && dup2(c->lock_fd, LOCK_FD) != -1;
    close_range(has_lock ? LOCK_FD + 1 : LOCK_FD, ~0U, 0); /* first: now there are free ones */
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(c->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (null != -1)
        dup2(null, 0);
    if (out != -1) {
        dup2(out, 1);
        dup2(out, 2);
    }
    const char *argv[16] = {c->program, "--foreground", "--job", c->number};
    const char *const values[][2] = {
        {"--socket",  c->socket},
        {"--lease",   c->lease },
        {"--devices", c->here  }
    };
    int n = 4;
    if (has_lock) {
        argv[n++] = "--lock";
        argv[n++] = lock_fd_text;
    }
    for (size_t i = 0; !c->is_check && i < CS_ARRAY_LEN(values); i++) {
        argv[n++] = values[i][0];
        argv[n++] = values[i][1];
    }
    if (c->is_check)
        argv[n++] = "--check";
    argv[n] = c->dir;
    execve(c->program, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)c->env);
    dprintf(2, "cornstarch-runner: cannot run %s: %s\n", c->program, strerror(errno));
    _exit(127);
}

/* Beside us, or where $CORNSTARCH_RUNNER says (tests put a runner of their own there). */
static enum cs_status find_program(char out[CS_PATH_CAP], struct cs_err *err)
{
    char self[CS_PATH_CAP];
    const char *other = cs_variable_text(CS_VAR_RUNNER);
    if (other)
        return cs_path(out, err, "%s", other);
    CS_TRY(cs_dir_self(self, err));
    return cs_path(out, err, "%s/cornstarch-runner", self);
}

enum cs_status cs_runner_start(const struct cs_runner_start *start, pid_t *pid, struct cs_err *err)
{
    struct runner_command c = {
        .dir = start->dir, .lock_fd = start->lock_fd, .is_check = start->is_check};
    CS_TRY(find_program(c.program, err));
    if (access(c.program, X_OK) == -1)
        return cs_fail_errno(err, "cannot run %s", c.program);
    CS_TRY(cs_path(c.output, err, "%s/logs", start->dir));
    CS_TRY(cs_mkdirs(c.output, err));
    CS_TRY(
        cs_path(c.output, err, "%s/logs/%s.err", start->dir, start->is_check ? "check" : "runner"));
    snprintf(c.number, sizeof(c.number), "%lld", (long long)start->job);
    c.socket = start->socket;
    c.here = start->here;
    c.lease = start->lease;
    char visible[4096] = "";
    if (!start->is_check && start->visible[0])
        snprintf(visible, sizeof visible, "CUDA_VISIBLE_DEVICES=%s", start->visible);
    c.env = make_environment(visible);
    pid_t child = fork();
    if (child == 0)
        become_runner(&c);
    free(c.env);
    if (child == -1)
        return cs_fail_errno(err, "fork");
    *pid = child;
    return CS_OK;
}
