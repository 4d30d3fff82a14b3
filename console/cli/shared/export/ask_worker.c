/* A worker without a job does what a command asks for: the console computes nothing itself. */
#include "console/cli/shared/export/ask_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/system/io.h"
#include "core/program/dirs.h"

extern char **environ;

static enum cs_status spawn_worker(const char *task, int in, int out, pid_t *pid,
                                   struct cs_err *err)
{
    char dir[CS_PATH_CAP], path[CS_PATH_CAP + 32];
    CS_TRY(cs_dir_self(dir, err));
    snprintf(path, sizeof path, "%s/cornstarch-worker", dir);
    char flag[32], *argv[] = {path, flag, NULL};
    snprintf(flag, sizeof flag, "%s", task);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    const int code = posix_spawn(pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (code == 0)
        return CS_OK;
    errno = code;
    return cs_fail_errno(err, "starting %s", path);
}

/* The worker reads all of its input before it writes. */
static enum cs_status talk(const char *request, int to, int from, struct cs_buf *answer,
                           struct cs_err *err)
{
    char piece[4096];
    ssize_t n;
    for (size_t at = 0, len = strlen(request); at < len; at += (size_t)n)
        if ((n = write(to, request + at, len - at)) <= 0)
            return cs_fail_errno(err, "writing to the worker");
    close(to);
    while ((n = read(from, piece, sizeof piece)) > 0)
        cs_buf_add(answer, piece, (size_t)n);
    return n == 0 ? CS_OK : cs_fail_errno(err, "reading from the worker");
}

enum cs_status cs_ask_worker(const char *task, const json_t *request, json_t **out,
                             struct cs_err *err)
{
    int to[2] = {-1, -1}, from[2] = {-1, -1}, code = 0;
    pid_t pid;
    struct cs_buf answer = {0};
    char *text = json_dumps(request, JSON_COMPACT);
    if (text == NULL || pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
        free(text);
        return cs_fail_errno(err, "a pipe to the worker");
    }
    signal(SIGPIPE, SIG_IGN);
    enum cs_status status = spawn_worker(task, to[0], from[1], &pid, err);
    close(to[0]);
    close(from[1]);
    if (status == CS_OK) {
        status = talk(text, to[1], from[0], &answer, err);
        waitpid(pid, &code, 0);
    } else {
        close(to[1]);
    }
    close(from[0]);
    free(text);
    if (status == CS_OK && code != 0)
        status = cs_fail(err, CS_INTERNAL, "the worker could not do it (its message is above)");
    if (status == CS_OK && (*out = json_loadb(cs_buf_str(&answer), answer.len, 0, NULL)) == NULL)
        status = cs_fail(err, CS_CORRUPT, "the worker answered something that is no JSON");
    cs_buf_free(&answer);
    return status;
}
