/* cornstarch-runner: options, the background, the exit code. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/say.h"
#include "core/base/system/environment.h"
#include "core/program/options.h"
#include "core/program/process.h"
#include "runner/runner.h"

struct values {
    bool is_foreground, is_replan, is_check;
    int64_t job, hang_ns, lock_fd;
    const char *socket, *devices, *lease;
};

/* clang-format off */
static const struct cs_option options[] = {
    {.name = "foreground",
     .letter = 'f',
     .type = CS_OPT_FLAG,
     .dflt = "no",
     .help = "stay in the foreground and log to the terminal",
     .offset = offsetof(struct values, is_foreground)},
    {.name = "replan",
     .type = CS_OPT_FLAG,
     .dflt = "no",
     .help = "run although the plan is not the one that was previewed",
     .offset = offsetof(struct values, is_replan)},
    {.name = "check",
     .type = CS_OPT_FLAG,
     .dflt = "no",
     .help = "only say whether the job can go on: its checkpoints, data and disk (exit 3: refused)",
     .offset = offsetof(struct values, is_check)},
    {.name = "job",
     .type = CS_OPT_INT,
     .min = 0,
     .max = INT64_C(9007199254740991),
     .dflt = "0",
     .argname = "NUMBER",
     .help = "number of the job (default: the name of JOBDIR)",
     .offset = offsetof(struct values, job)},
    {.name = "socket",
     .type = CS_OPT_STRING,
     .argname = "PATH",
     .help = "control socket (default: job-NUMBER.sock in the runtime directory)",
     .offset = offsetof(struct values, socket)},
    {.name = "lock",
     .type = CS_OPT_INT,
     .min = 0,
     .max = INT32_MAX,
     .dflt = "0",
     .argname = "FD",
     .help = "descriptor that holds the lock on JOBDIR (default: take it)",
     .offset = offsetof(struct values, lock_fd)},
    {.name = "devices",
     .type = CS_OPT_STRING,
     .argname = "CLASS:N",
     .help = "what cs.cluster \"here\" is, such as h100-80g:4 (default: 8 CPU ranks)",
     .offset = offsetof(struct values, devices)},
    {.name = "lease",
     .type = CS_OPT_STRING,
     .argname = "LIST",
     .help = "devices of the ranks in their order, such as cuda:0,cuda:1 (default: the first ones)",
     .offset = offsetof(struct values, lease)},
    {.name = "hang-limit",
     .type = CS_OPT_DURATION,
     .dflt = "30s",
     .help = "report a rank that made no progress for so long; ten times that ends the job",
     .offset = offsetof(struct values, hang_ns)},
};
/* clang-format on */

static const struct cs_cli program = {
    .name = "cornstarch-runner",
    .version = CORNSTARCH_VERSION,
    .summary = "run one training job from its job directory",
    .usage = "[options] JOBDIR",
    .options = options,
    .n_options = CS_ARRAY_LEN(options),
    .min_args = 1,
    .max_args = 1,
};

/* Two runners on one job would write into each other's files: the lock lives as long as we do. The
 * daemon takes it before it starts us and hands it over (given_fd; 0: we take it). */
static enum cs_status lock_job(const char *dir, int given_fd, int *fd, struct cs_err *err)
{
    struct stat given, here;
    *fd = given_fd ? given_fd : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd == -1)
        return cs_fail_errno(err, "job directory %s", dir);
    if (fcntl(*fd, F_SETFD, FD_CLOEXEC) == -1 || fstat(*fd, &given) == -1 ||
        stat(dir, &here) == -1 || given.st_dev != here.st_dev || given.st_ino != here.st_ino)
        return cs_fail(err, CS_USAGE, "descriptor %d is not the job directory %s; leave --lock out",
                       *fd, dir);
    if (flock(*fd, LOCK_EX | LOCK_NB) == -1)
        return cs_fail(err, CS_STATE, "another runner is at work in %s", dir);
    return CS_OK;
}

static int run(const char *dir, const struct values *values, int started_fd)
{
    struct cs_err err = {0};
    int lock_fd = -1;
    struct cs_runner_options run_options = {.job_dir = dir,
                                            .job = values->job,
                                            .socket = values->socket,
                                            .members.lease = values->lease,
                                            .is_replan = values->is_replan,
                                            .is_foreground = values->is_foreground,
                                            .hang_ns = values->hang_ns,
                                            .started_fd = started_fd};
    enum cs_status status = cs_environment_check(&err);
    if (status == CS_OK)
        status = lock_job(dir, (int)values->lock_fd, &lock_fd, &err);
    if (status == CS_OK && values->is_check) {
        status = cs_runner_check(dir, &err);
        goto out;
    }
    if (status == CS_OK && values->devices)
        status = cs_here_read(values->devices, &run_options.members.here, &err);
    if (status == CS_OK)
        status = cs_runner_run(&run_options, &err);
out:
    if (status != CS_OK)
        cs_say(stderr, "cornstarch-runner: %s\n", err.text);
    if (lock_fd != -1)
        close(lock_fd);
    return cs_status_exit(status);
}

/* The parent leaves once the job is set up, or with the exit code of a job that could not be. */
static int run_in_background(const char *dir, const struct values *values)
{
    int ends[2], code = 0;
    char byte;
    if (pipe2(ends, O_CLOEXEC) == -1) {
        perror("cornstarch-runner: pipe");
        return 1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        setsid();
        return run(dir, values, ends[1]);
    }
    close(ends[1]);
    if (pid == -1) {
        perror("cornstarch-runner: fork");
        return 1;
    }
    if (read(ends[0], &byte, 1) == 1)
        return 0;
    return waitpid(pid, &code, 0) == pid && WIFEXITED(code) ? WEXITSTATUS(code) : 1;
}

int main(int argc, char **argv)
{
    struct values values = {0};
    struct cs_args args = {0};
    struct cs_err err = {0};
    struct cs_buf text = {0};
    cs_process_begin("cornstarch-runner");
    cs_process_files();
    if (cs_options_parse(&program, argc, argv, &values, &args, &err) != CS_OK) {
        cs_say(stderr, "cornstarch-runner: %s\n", err.text);
        return cs_status_exit(CS_USAGE);
    }
    if (args.wants_help || args.wants_version) {
        if (args.wants_help)
            cs_options_help(&program, 80, &text);
        else
            cs_options_version(&program, &text);
        cs_say_text(stdout, &text);
        cs_buf_free(&text);
        return 0;
    }
    return values.is_foreground || values.is_check ? run(args.items[0], &values, -1)
                                                   : run_in_background(args.items[0], &values);
}
