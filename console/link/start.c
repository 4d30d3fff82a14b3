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
#include "core/base/system/clock.h"
#include "core/base/system/environment.h"
#include "core/program/dirs.h"
#include "net/owner.h"
#include "net/unix.h"

enum { OWNER_MS = 20000, PAUSE_MS = 20 };

enum cs_status cs_client_dial(const char *path, int *fd, struct cs_err *err)
{
    enum cs_status status = cs_unix_connect(path, true, "daemon", fd, err);
    if (status != CS_OK && status != CS_LIMIT && err != NULL)
        err->status = CS_UNREACHABLE;
    return status == CS_OK || status == CS_LIMIT ? status : CS_UNREACHABLE;
}

/* --- who owns our directories ----------------------------------------------------------------- */

static enum cs_status runtime_of(const char *path, char *runtime, struct cs_err *err)
{
    CS_TRY(cs_path(runtime, err, "%s", path));
    char *const slash = strrchr(runtime, '/');
    if (slash == NULL)
        return cs_fail(err, CS_INVALID, "the socket path %s has no directory", path);
    *slash = '\0';
    return CS_OK;
}

/* The owner of the user's state directory; of the runtime directory of path there may be another. */
static bool find_owner(const char *path, char dir[CS_PATH_CAP], struct cs_owner *out)
{
    if (cs_client_state_dir(dir, NULL) == CS_OK && cs_owner_find(dir, out))
        return true;
    return runtime_of(path, dir, NULL) == CS_OK && cs_owner_find(dir, out);
}

/* Ctrl-Z, a debugger, kill -STOP */
static bool is_stopped(int64_t pid)
{
    char path[64];
    struct cs_buf text = {0};
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    const bool is_read = cs_read_file(path, 4096, &text, NULL) == CS_OK;
    const char *end = is_read ? strrchr(cs_buf_str(&text), ')') : NULL; /* of its name */
    const bool is = end != NULL && strlen(end) > 2 && (end[2] == 'T' || end[2] == 't');
    cs_buf_free(&text);
    return is;
}

static void tell_deaf(const char *dir, const struct cs_owner *owner, enum cs_status status,
                      struct cs_err *err)
{
    char name[300], remedy[200] = "";
    const long long pid = (long long)owner->pid;
    cs_owner_name(owner, name, sizeof name);
    if (pid > 0 && is_stopped(pid))
        snprintf(remedy, sizeof remedy, ": it is stopped, 'kill -CONT %lld' lets it go on", pid);
    else if (pid > 0)
        snprintf(remedy, sizeof remedy,
                 ": 'kill -USR1 %lld' makes it listen anew, 'kill %lld' ends it, its jobs go on",
                 pid, pid);
    (void)cs_fail(err, status, "the daemon of %s (%s) does not answer at %s%s", dir, name,
                  owner->socket[0] ? owner->socket : "its socket", remedy);
}

enum cs_status cs_client_tell_deaf(const char *path, struct cs_err *err)
{
    struct cs_owner owner;
    char dir[CS_PATH_CAP];
    if (find_owner(path, dir, &owner))
        tell_deaf(dir, &owner, CS_TIMEOUT, err);
    return CS_TIMEOUT;
}

/* whoever could put a socket there could read what we send */
static enum cs_status check_peer(const char *path, int *fd, struct cs_err *err)
{
    uid_t uid;
    if (cs_unix_peer(*fd, &uid) && (uid == geteuid() || uid == 0))
        return CS_OK;
    close(*fd);
    *fd = -1;
    return cs_fail(err, CS_REFUSED, "the socket %s belongs to another user", path);
}

static enum cs_status dial_checked(const char *path, int *fd, struct cs_err *err)
{
    CS_TRY(cs_client_dial(path, fd, err));
    return check_peer(path, fd, err);
}

enum cs_status cs_client_dial_own(char path[CS_PATH_CAP], int *fd, bool *is_deaf,
                                  struct cs_err *err)
{
    struct cs_owner owner;
    char dir[CS_PATH_CAP];
    *fd = -1;
    *is_deaf = false;
    enum cs_status status = cs_client_socket(path, err);
    if (status == CS_INVALID)
        return status; /* what was asked for is wrong: no other daemon will do */
    if (status != CS_OK)
        path[0] = '\0';
    else if ((status = dial_checked(path, fd, err)) == CS_OK)
        return CS_OK;
    if (!find_owner(path, dir, &owner))
        return status;
    if (owner.socket[0] && strcmp(owner.socket, path) != 0 &&
        dial_checked(owner.socket, fd, NULL) == CS_OK)
        return cs_path(path, err, "%s", owner.socket);
    *is_deaf = true;
    tell_deaf(dir, &owner, CS_UNREACHABLE, err);
    return CS_UNREACHABLE;
}

/* --- starting it ------------------------------------------------------------------------------ */

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

static enum cs_status run_to_start(char *const argv[], const char *log, struct cs_err *err)
{
    char why[500];
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd == -1)
        return cs_fail_errno(err, "opening the daemon's log %s", log);
    pid_t pid = fork();
    if (pid == 0)
        run_daemon(argv, fd);
    close(fd);
    if (pid == -1)
        return cs_fail_errno(err, "starting %s", argv[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) == -1)
        if (errno != EINTR)
            return cs_fail_errno(err, "waiting for %s", argv[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return CS_OK;
    last_line(log, why, sizeof(why));
    return cs_fail(err, CS_UNREACHABLE, "cornstarchd did not start: %s (log: %s)", why, log);
}

/* The runtime directory only when it was asked for: else the daemon finds the same one, and another
 * when that goes. */
static enum cs_status start_daemon(const char *state, struct cs_err *err)
{
    char self[CS_PATH_CAP], program[CS_PATH_CAP], log[CS_PATH_CAP], socket[CS_PATH_CAP],
        runtime[CS_PATH_CAP];
    CS_TRY(cs_client_socket(socket, err));
    CS_TRY(runtime_of(socket, runtime, err));
    CS_TRY(cs_dir_self(self, err));
    CS_TRY(cs_path(program, err, "%s/cornstarchd", self));
    CS_TRY(cs_path(log, err, "%s/daemon.log", state));
    const char *given = cs_variable_text(CS_VAR_RUNTIME_DIR);
    const char *const argv[] = {program,
                                "--background",
                                "--log-file",
                                log,
                                "--state-dir",
                                state,
                                given ? "--runtime-dir" : NULL,
                                runtime,
                                NULL};
    char *args[CS_ARRAY_LEN(argv)];
    memcpy(args, argv, sizeof(args)); /* execv wants char * and changes nothing */
    return run_to_start(args, log, err);
}

static void pause_a_moment(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
}

/* Until one answers (CS_OK, *fd), or nobody owns our directories (CS_OK, *fd -1): it was leaving. One
 * whose socket was removed makes it again. */
static enum cs_status await_owner(char path[CS_PATH_CAP], int *fd, struct cs_err *err)
{
    const int64_t end = cs_now_ns() + (int64_t)OWNER_MS * 1000000;
    bool is_deaf;
    for (;;) {
        enum cs_status status = cs_client_dial_own(path, fd, &is_deaf, err);
        if (status == CS_OK || (is_deaf && cs_now_ns() > end))
            return status;
        if (!is_deaf)
            return status == CS_UNREACHABLE ? CS_OK : status;
        pause_a_moment();
    }
}

/* With the lock: one console at a time. */
static enum cs_status start_once(const char *state, char path[CS_PATH_CAP], int *fd,
                                 bool *is_started, struct cs_err *err)
{
    bool is_deaf;
    CS_TRY(await_owner(path, fd, err));
    if (*fd != -1)
        return CS_OK;
    CS_TRY(start_daemon(state, err));
    *is_started = true;
    return cs_client_dial_own(path, fd, &is_deaf, err);
}

enum cs_status cs_client_dial_or_start(char path[CS_PATH_CAP], int *fd, bool *is_started,
                                       struct cs_err *err)
{
    char state[CS_PATH_CAP], lock_path[CS_PATH_CAP];
    bool is_deaf;
    *is_started = false;
    if (cs_client_dial_own(path, fd, &is_deaf, err) == CS_OK)
        return CS_OK;
    CS_TRY(cs_client_state_dir(state, err));
    enum cs_status status = cs_dir_check_writable(state, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "the state directory (CORNSTARCH_STATE_DIR names another)");
    CS_TRY(cs_path(lock_path, err, "%s/start.lock", state));
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock == -1)
        return cs_fail_errno(err, "opening %s", lock_path);
    while (flock(lock, LOCK_EX) == -1 && status == CS_OK)
        if (errno != EINTR)
            status = cs_fail_errno(err, "locking %s", lock_path);
    if (status == CS_OK)
        status = start_once(state, path, fd, is_started, err);
    close(lock);
    return status;
}

enum cs_status cs_client_await_gone(const char *path, struct cs_err *err)
{
    const int64_t end = cs_now_ns() + INT64_C(30000000000);
    char runtime[CS_PATH_CAP];
    struct cs_owner owner;
    int fd;
    CS_TRY(runtime_of(path, runtime, err));
    for (;;) {
        const bool is_there = cs_client_dial(path, &fd, NULL) == CS_OK;
        if (is_there)
            close(fd);
        else if (!cs_owner_find(runtime, &owner))
            return CS_OK;
        if (cs_now_ns() > end)
            return cs_fail(err, CS_TIMEOUT, "the daemon of %s does not end", runtime);
        pause_a_moment();
    }
}
