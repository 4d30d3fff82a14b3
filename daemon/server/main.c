/* cornstarchd: the daemon of a node. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "server/server.h"

static int fail(const struct cs_err *err)
{
    fprintf(stderr, "cornstarchd: %s\n", err->text);
    return cs_status_exit(err->status);
}

/* The parent leaves once the child listens: whoever started us can connect at once. */
static int detach(struct cs_server *server)
{
    int ready[2];
    char ok = 0;
    if (!server->config.is_background)
        return -1;
    if (pipe2(ready, O_CLOEXEC) == -1)
        return -1;
    pid_t pid = fork();
    if (pid == -1) {
        perror("cornstarchd: fork");
        exit(1);
    }
    if (pid > 0) {
        close(ready[1]);
        _exit(read(ready[0], &ok, 1) == 1 ? 0 : 1);
    }
    close(ready[0]);
    setsid();
    int null = open("/dev/null", O_RDWR);
    if (null != -1) {
        dup2(null, 0);
        dup2(null, 1);
        if (null > 2)
            close(null);
    }
    return ready[1];
}

static void say_ready(int fd)
{
    if (fd == -1)
        return;
    if (write(fd, "1", 1) != 1)
        perror("cornstarchd: the starter is gone");
    close(fd);
    int null = open("/dev/null", O_WRONLY);
    if (null != -1) {
        dup2(null, 2); /* from here on there is only the log file */
        close(null);
    }
}

static enum cs_status open_log(struct cs_server *server, struct cs_err *err)
{
    int fd = 2;
    if (server->config.log_file) {
        fd = open(server->config.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd == -1)
            return cs_fail_errno(err, "opening the log %s", server->config.log_file);
    }
    server->log = cs_log_new("cornstarchd");
    return cs_log_to_fd(server->log, fd, CS_LOG_TEXT, (enum cs_log_level)server->config.log_level);
}

int main(int argc, char **argv)
{
    struct cs_server server = {.listen_fd = -1, .lock_fd = -1};
    struct cs_err err;
    bool wants_exit;
    if (cs_config_read(argc, argv, &server.config, &wants_exit, &err) != CS_OK)
        return fail(&err);
    if (wants_exit || server.config.check_only)
        return 0;
    if (open_log(&server, &err) != CS_OK)
        return fail(&err);
    int ready = detach(&server);
    enum cs_status st = cs_server_open(&server, &err);
    if (st == CS_OK) {
        say_ready(ready);
        st = cs_server_run(&server, &err);
    }
    if (st != CS_OK)
        fail(&err);
    cs_server_close(&server);
    cs_log_free(server.log);
    return st == CS_OK ? 0 : cs_status_exit(st);
}
