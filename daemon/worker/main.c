/* cornstarch-worker: one rank of a job. Started by cornstarch-runner with its control line on
 * descriptor 3; prints nothing but what a library may say. Exit codes: 0 done, 1 wrong use or
 * stopped, 6 failed (worker.error says why). */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/say.h"
#include "core/base/system/environment.h"
#include "core/program/process.h"
#include "core/wire/wire.h"
#include "worker/boot.h"
#include "worker/device/blas.h"
#include "worker/measure/profile.h"
#include "worker/selftest/selftest.h"
#include "worker/selftest/verify/verify.h"

enum { CONTROL_FD = 3, EXIT_FAILED = 6, EXIT_RUNNER_GONE = 5, CLOSE_S = 90 };

static void report_error(struct cs_control *control, const struct cs_boot *boot, int64_t step,
                         const struct cs_err *err)
{
    char action[128] = "";
    json_t *msg = cs_msg_new("worker.error");
    if (boot->generation.trainer != NULL)
        cs_exec_where(boot->generation.trainer->exec, action, sizeof action);
    cs_msg_set_int(msg, "rank", boot->generation.rank < 0 ? 0 : boot->generation.rank);
    cs_msg_set_int(msg, "step", step);
    cs_msg_set_str(msg, "action", action);
    cs_msg_set_str(msg, "status", cs_status_slug(err->status));
    cs_msg_set_str(msg, "text", err->text);
    cs_control_send(control, msg);
    cs_say(stderr, "cornstarch-worker: rank %d: %s\n", boot->generation.rank, err->text);
}

/* After worker.go the runner says nothing more: what arrives is the end of the line. A worker
 * without its runner has nobody to report to. */
static void *watch_runner(void *control)
{
    json_t *msg;
    while (cs_control_read(control, &msg, NULL) != CS_PEER_GONE)
        json_decref(msg);
    _exit(EXIT_RUNNER_GONE);
}

static void leave_done(int signal)
{
    static const char text[] =
        "cornstarch-worker: done, but others did not close their connections in time\n";
    const ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)signal;
    (void)ignored;
    _exit(0);
}

/* What ranks share is closed by all of them together. This one has told the runner all that it had to say, so that a
 * peer that is gone or stands still may cost the job some time and nothing else. */
static void close_in_time(struct cs_boot *boot)
{
    signal(SIGALRM, leave_done);
    alarm(CLOSE_S);
    cs_boot_close(boot);
    alarm(0);
}

static enum cs_status expect(struct cs_control *control, const char *type, json_t **msg,
                             struct cs_err *err)
{
    CS_TRY(cs_control_read(control, msg, err));
    if (strcmp(cs_msg_type(*msg), type) == 0)
        return CS_OK;
    const enum cs_status status =
        cs_fail(err, CS_STATE, "the runner sent %s, %s was expected", cs_msg_type(*msg), type);
    json_decref(*msg);
    *msg = NULL;
    return status;
}

static enum cs_status run(struct cs_control *control, struct cs_boot *boot,
                          struct cs_session *session, struct cs_err *err)
{
    json_t *msg;
    pthread_t watcher;
    CS_TRY(cs_environment_check(err));
    CS_TRY(cs_ops_cpu_selfcheck(err));
    CS_TRY(expect(control, "worker.boot", &msg, err));
    CS_TRY(cs_boot_open(msg, boot, err));
    CS_TRY(cs_boot_ready(boot, &msg, err));
    cs_control_send(control, msg);
    CS_TRY(expect(control, "worker.go", &msg, err));
    json_decref(msg);
    if (pthread_create(&watcher, NULL, watch_runner, control) != 0)
        return cs_fail(err, CS_NO_MEMORY, "the thread that watches the runner cannot be started");
    pthread_detach(watcher);
    *session = (struct cs_session){
        .trainer = boot->generation.trainer,
        .pool = boot->pool,
        .ring = cs_boot_ring(boot),
        .control = control,
        .ckpt_dir = boot->generation.ckpt_dir,
        .rank = boot->generation.rank,
        .is_over = cs_msg_bool(boot->generation.msg, "is_over", false),
    };
    return cs_session_run(session, err);
}

/* What a worker does without a job: a request on standard input, the answer on standard output. */
static const struct task {
    const char *option;
    int (*run)(void);
} tasks[] = {
    {"--profile",  cs_profile_program },
    {"--selftest", cs_selftest_program},
    {"--verify",   cs_verify_program  },
};

static const struct task *task_named(const char *option)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(tasks); i++)
        if (strcmp(tasks[i].option, option) == 0)
            return &tasks[i];
    return NULL;
}

int main(int argc, char **argv)
{
    struct cs_control *control = NULL;
    struct cs_boot boot = {.generation = {.rank = -1}};
    struct cs_session session = {.step = -1};
    struct cs_err err = {0};
    struct stat st;
    cs_process_begin("cornstarch-worker");
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        cs_say(stdout, "cornstarch-worker %s\n", CORNSTARCH_VERSION);
        return 0;
    }
    const struct task *task = argc == 2 ? task_named(argv[1]) : NULL;
    if (task == NULL && (argc != 1 || fstat(CONTROL_FD, &st) == -1 || !S_ISSOCK(st.st_mode))) {
        cs_say(stderr, "cornstarch-worker: one rank of a job; cornstarch-runner starts it, with "
                       "its control line on descriptor 3\n");
        return 1;
    }
    if (task != NULL && cs_environment_check(&err) != CS_OK) {
        cs_say(stderr, "cornstarch-worker: %s\n", err.text);
        return 1;
    }
    if (cs_blas_set_environment())
        execv("/proc/self/exe", argv); /* where that fails the slow kernels do */
    signal(SIGPIPE, SIG_IGN);
    if (task != NULL)
        return task->run();
    if (cs_control_new(CONTROL_FD, &control, &err) != CS_OK) {
        cs_say(stderr, "cornstarch-worker: %s\n", err.text);
        return EXIT_FAILED;
    }
    /* what libraries say is in the log when they say it, however this process ends */
    setvbuf(stdout, NULL, _IOLBF, 0);
    const enum cs_status status = run(control, &boot, &session, &err);
    if (status != CS_OK && status != CS_INTERRUPTED) {
        report_error(control, &boot, session.step, &err);
        /* Nothing is closed: others may never come to it, what they share holds up what frees memory of the device, and a
         * thread may be left in a library (kernels/cuda/comm/nccl.cu). All of it ends with the process. */
        _exit(EXIT_FAILED);
    }
    const bool is_gpu = boot.device.mem != NULL;
    const int code = status == CS_OK ? 0 : 1;
    if (status == CS_OK)
        close_in_time(&boot);
    else
        cs_boot_close(&boot); /* the runner stopped this one, and ends who does not end */
    if (is_gpu)
        _exit(code); /* as above: a thread may be left there */
    return code;     /* control stays: the watcher reads from it until the process ends */
}
