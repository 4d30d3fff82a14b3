/* Reads what children print, line by line: into their log files, to everybody who is connected. */
#include "runner/processes/output.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "runner/state/records.h"

enum { LOG_ROTATE_BYTES = 4 * 1024 * 1024 };

static void on_log_line(void *user, const char *line, size_t n)
{
    const struct cs_child *child = user;
    cs_run_emit_log(child->runner, child->rank, line, n);
}

/* Everything the pipe holds now. */
void cs_output_read(struct cs_child *child)
{
    char bytes[8192];
    ssize_t n;
    if (child->log_event == NULL)
        return;
    while ((n = read(child->log_fd, bytes, sizeof bytes)) > 0)
        cs_logfile_write(child->log, bytes, (size_t)n);
    if (n == 0)
        event_del(child->log_event);
}

static void on_log(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    cs_output_read(user);
}

enum cs_status cs_output_open(struct cs_child *child, int *fd, struct cs_err *err)
{
    const struct cs_runner *r = child->runner;
    char path[CS_PATH_CAP + 32];
    int ends[2];
    if (child->rank < 0)
        snprintf(path, sizeof path, "%s/logs/feeder.log", r->job.dir);
    else
        snprintf(path, sizeof path, "%s/logs/%d.log", r->job.dir, child->rank);
    CS_TRY(cs_logfile_open(path, LOG_ROTATE_BYTES, on_log_line, child, &child->log, err));
    if (pipe2(ends, O_CLOEXEC) == -1)
        return cs_fail_errno(err, "cannot make a pipe for the output of a child");
    child->log_fd = ends[0];
    *fd = ends[1];
    evutil_make_socket_nonblocking(child->log_fd);
    child->log_event = event_new(r->base, child->log_fd, EV_READ | EV_PERSIST, on_log, child);
    event_add(child->log_event, NULL);
    return CS_OK;
}

void cs_output_close(struct cs_child *child)
{
    cs_output_read(child);
    if (child->log_event != NULL) {
        event_free(child->log_event);
        close(child->log_fd);
    }
    child->log_event = NULL;
    cs_logfile_close(child->log);
    child->log = NULL;
}
