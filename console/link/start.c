/* Connects to the private daemon of a user, and starts it when nobody answers. */
#include "console/link/start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "console/link/paths.h"
#include "core/base/clock.h"
#include "core/base/dirs.h"
#include "net/unix.h"

enum cs_status cs_client_dial(const char *path, int *fd, struct cs_err *err)
{
    enum cs_status status = cs_unix_connect(path, true, "daemon", fd, err);
    if (status != CS_OK && status != CS_LIMIT && err != NULL)
        err->status = CS_UNREACHABLE;
    return status == CS_OK || status == CS_LIMIT ? status : CS_UNREACHABLE;
}

/* In the child: only calls that are safe after fork. */
static void run_daemon(char *const argv[], int log)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null != -1) {
        dup2(null, 0);
        dup2(null, 1);
    }
    dup2(log, 2);
    execv(argv[0], argv);
    static const char text[] = "cornstarch-console: cannot execute cornstarchd beside it\n";
    ssize_t ignored = write(2, text, sizeof(text) - 1);
    (void)ignored;
    _exit(127);
}

/* The last line of the log says why it did not start. */
static void last_line(const char *path, char *out, size_t cap)
{
    struct cs_buf text = {0};
    out[0] = '\0';
    if (cs_read_file(path, (size_t)16 << 20, &text, NULL) == CS_OK && text.len > 1) {
        text.data[text.len - 1] = '\0';
        const char *line = strrchr(text.data, '\n');
        snprintf(out, cap, "%s", line ? line + 1 : text.data);
    }
    cs_buf_free(&text);
}

static enum cs_status start_daemon(const char *runtime, struct cs_err *err)
{
    char self[CS_PATH_CAP], program[CS_PATH_CAP], state[CS_PATH_CAP], log[CS_PATH_CAP], why[300];
    CS_TRY(cs_dir_self(self, err));
    CS_TRY(cs_path(program, err, "%s/cornstarchd", self));
    CS_TRY(cs_client_state_dir(state, err));
    CS_TRY(cs_mkdirs(state, err));
    CS_TRY(cs_path(log, err, "%s/daemon.log", state));
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd == -1)
        return cs_fail_errno(err, "opening the daemon's log %s", log);
    const char *const argv[] = {program, "--background", "--log-file", log, "--runtime-dir",
                                runtime, "--state-dir",  state,        NULL};
    char *args[CS_ARRAY_LEN(argv)];
    memcpy(args, argv, sizeof(args)); /* execv wants char * and changes nothing */
    pid_t pid = fork();
    if (pid == 0)
        run_daemon(args, fd);
    close(fd);
    if (pid == -1)
        return cs_fail_errno(err, "starting %s", program);
    int status = 0;
    while (waitpid(pid, &status, 0) == -1)
        if (errno != EINTR)
            return cs_fail_errno(err, "waiting for %s", program);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return CS_OK;
    last_line(log, why, sizeof(why));
    return cs_fail(err, CS_UNREACHABLE, "cornstarchd did not start: %s (log: %s)", why, log);
}

/* Does a process hold the lock of the daemon of this runtime directory? */
static bool is_owned(const char *runtime)
{
    char path[CS_PATH_CAP];
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (cs_path(path, NULL, "%s/daemon.lock", runtime) != CS_OK)
        return false;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd == -1)
        return false;
    const bool is_held = fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    close(fd);
    return is_held;
}

static enum cs_status runtime_of(const char *path, char *runtime, struct cs_err *err)
{
    CS_TRY(cs_path(runtime, err, "%s", path));
    char *const slash = strrchr(runtime, '/');
    if (slash == NULL)
        return cs_fail(err, CS_INVALID, "the socket path %s has no directory", path);
    *slash = '\0';
    return CS_OK;
}

enum cs_status cs_client_await_gone(const char *path, bool *answers, struct cs_err *err)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    const int64_t end = cs_now_ns() + INT64_C(30000000000);
    char runtime[CS_PATH_CAP];
    int fd;
    CS_TRY(runtime_of(path, runtime, err));
    for (;;) {
        const bool is_there = cs_client_dial(path, &fd, NULL) == CS_OK;
        if (is_there)
            close(fd);
        if (answers != NULL)
            *answers = is_there;
        if (is_there ? answers != NULL : !is_owned(runtime))
            return CS_OK;
        if (cs_now_ns() > end)
            return cs_fail(err, CS_TIMEOUT, "the daemon of %s does not end", runtime);
        nanosleep(&pause, NULL);
    }
}

enum cs_status cs_client_dial_or_start(const char *path, int *fd, struct cs_err *err)
{
    char runtime[CS_PATH_CAP], lock_path[CS_PATH_CAP];
    if (cs_client_dial(path, fd, err) == CS_OK)
        return CS_OK;
    CS_TRY(runtime_of(path, runtime, err));
    CS_TRY(cs_mkdirs(runtime, err));
    CS_TRY(cs_path(lock_path, err, "%s/start.lock", runtime));
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock == -1)
        return cs_fail_errno(err, "opening %s", lock_path);
    enum cs_status status = CS_OK;
    while (flock(lock, LOCK_EX) == -1 && status == CS_OK)
        if (errno != EINTR)
            status = cs_fail_errno(err, "locking %s", lock_path);
    bool answers = false;
    if (status == CS_OK)
        status = cs_client_await_gone(path, &answers, err);
    if (status == CS_OK && !answers)
        status = start_daemon(runtime, err);
    if (status == CS_OK)
        status = cs_client_dial(path, fd, err);
    close(lock);
    return status;
}
