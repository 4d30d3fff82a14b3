/* cornstarchd: the daemon of a node. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/say.h"
#include "core/base/system/environment.h"
#include "core/base/system/log.h"
#include "core/base/units.h"
#include "core/program/dirs.h"
#include "core/program/process.h"
#include "server/requests.h"
#include "server/server.h"

static int fail(const struct cs_err *err)
{
    cs_say(stderr, "cornstarchd: %s\n", err->text);
    return cs_status_exit(err->status);
}

/* The parent leaves once the child listens (whoever started us can connect at once), or with the
 * exit code of a child that could not. Returns where the child tells, -1: in the foreground. */
static int detach(struct cs_server *server)
{
    int ready[2];
    char code = 1;
    if (!server->config.is_background)
        return -1;
    if (pipe2(ready, O_CLOEXEC) == -1) {
        perror("cornstarchd: pipe");
        exit(1);
    }
    pid_t pid = fork();
    if (pid == -1) {
        perror("cornstarchd: fork");
        exit(1);
    }
    if (pid > 0) {
        close(ready[1]);
        _exit(read(ready[0], &code, 1) == 1 ? code : 1);
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

static void tell_starter(int fd, int code)
{
    char byte = (char)code;
    if (fd == -1)
        return;
    if (write(fd, &byte, 1) != 1)
        perror("cornstarchd: the starter is gone");
    close(fd);
    int null = open("/dev/null", O_WRONLY);
    if (null != -1) {
        dup2(null, 2); /* from here on there is only the log file */
        close(null);
    }
}

/* In the background without a log file: daemon.log in the state directory. */
static enum cs_status open_log(struct cs_server *server, char path[CS_PATH_CAP], struct cs_err *err)
{
    struct cs_config *config = &server->config;
    char dir[CS_PATH_CAP];
    server->log_fd = 2;
    if (config->is_background && !config->log_file) {
        CS_TRY(config->state_dir ? cs_path(dir, err, "%s", config->state_dir)
                                 : cs_dir_state(dir, err));
        CS_TRY(cs_mkdirs(dir, err));
        CS_TRY(cs_path(path, err, "%s/daemon.log", dir));
        config->log_file = path;
    }
    if (config->log_file) {
        server->log_fd = open(config->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (server->log_fd == -1)
            return cs_fail_errno(err, "opening the log %s", config->log_file);
    }
    server->log = cs_log_new("cornstarchd");
    return cs_log_to_fd(server->log, server->log_fd, CS_LOG_TEXT,
                        (enum cs_log_level)config->log_level);
}

static int print_table(const char *what)
{
    struct cs_buf text = {0};
    struct cs_err err;
    int code = 0;
    if (cs_docs_print(what, &text, &err) == CS_OK)
        cs_say_text(stdout, &text);
    else
        code = fail(&err);
    cs_buf_free(&text);
    return code;
}

static enum cs_status serve(struct cs_server *server)
{
    struct cs_err err;
    char log_path[CS_PATH_CAP];
    int ready = -1;
    enum cs_status status = open_log(server, log_path, &err);
    if (status == CS_OK)
        ready = detach(server);
    if (status == CS_OK)
        status = cs_server_open(server, &err);
    if (status == CS_OK) {
        tell_starter(ready, 0);
        status = cs_server_run(server, &err);
        if (status != CS_OK)
            fail(&err);
    } else {
        tell_starter(ready, fail(&err));
    }
    cs_server_close(server);
    cs_log_free(server->log);
    return status;
}

/* The same start, with an empty history, and no more: the next daemon finds what was made. */
static enum cs_status rebuild(struct cs_server *server)
{
    struct cs_err err;
    char log_path[CS_PATH_CAP];
    server->config.is_background = false;
    enum cs_status status = open_log(server, log_path, &err);
    if (status == CS_OK)
        status = cs_server_open(server, &err);
    if (status == CS_OK)
        cs_say(stdout, "%zu job%s in %s/history.db\n", server->n_jobs, CS_PLURAL(server->n_jobs),
               server->state_dir);
    else
        fail(&err);
    cs_server_close(server);
    cs_log_free(server->log);
    return status;
}

int main(int argc, char **argv)
{
    struct cs_server server = {.handle_request = cs_requests_handle,
                               .state_claim.fd = -1,
                               .runtime_claim.fd = -1,
                               .log_fd = -1};
    struct cs_err err;
    bool wants_exit;
    cs_process_begin("cornstarchd");
    cs_process_files();
    umask(077);
    if (argc == 2 && strncmp(argv[1], "--list-", 7) == 0)
        return print_table(argv[1]);
    if (cs_config_read(argc, argv, &server.config, &wants_exit, &err) != CS_OK)
        return fail(&err);
    if (!wants_exit && cs_environment_check(&err) != CS_OK)
        return fail(&err);
    server.argc = argc;
    server.argv = argv;
    enum cs_status status = CS_OK;
    if (!wants_exit && !server.config.check_only)
        status = server.config.is_rebuild ? rebuild(&server) : serve(&server);
    cs_config_free(&server.config);
    return cs_status_exit(status);
}
