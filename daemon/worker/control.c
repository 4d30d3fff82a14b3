/* Whole messages to and from the runner on the control line, from any thread. */
#include "worker/control.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

struct cs_control {
    int fd;
    struct cs_line_reader *reader;
    pthread_mutex_t send_lock;
};

enum cs_status cs_control_new(int fd, struct cs_control **out, struct cs_err *err)
{
    struct cs_control *c = calloc(1, sizeof *c);
    *out = NULL;
    if (c == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the line to the runner");
    c->fd = fd;
    c->reader = cs_line_reader_new();
    cs_line_reader_limit(c->reader, 0); /* a boot message holds spec and plan */
    pthread_mutex_init(&c->send_lock, NULL);
    *out = c;
    return CS_OK;
}

void cs_control_free(struct cs_control *control)
{
    if (control == NULL)
        return;
    close(control->fd);
    cs_line_reader_free(control->reader);
    pthread_mutex_destroy(&control->send_lock);
    free(control);
}

void cs_control_send(struct cs_control *control, json_t *msg)
{
    struct cs_buf line = {0};
    if (cs_msg_encode(msg, &line, NULL) == CS_OK) {
        pthread_mutex_lock(&control->send_lock);
        const enum cs_status status = cs_write_all(control->fd, line.data, line.len, NULL);
        pthread_mutex_unlock(&control->send_lock);
        (void)status;
    }
    cs_buf_free(&line);
    json_decref(msg);
}

enum cs_status cs_control_read(struct cs_control *control, json_t **msg, struct cs_err *err)
{
    static const size_t room = 16384;
    char *bytes = malloc(room);
    enum cs_status status = CS_OK;
    *msg = NULL;
    if (bytes == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a message");
    for (;;) {
        status = cs_line_next(control->reader, msg, err);
        if (status != CS_OK || *msg != NULL)
            break;
        const ssize_t n = read(control->fd, bytes, room);
        if (n == -1 && errno == EINTR)
            continue;
        if (n <= 0) {
            status = cs_fail(err, CS_PEER_GONE, "the runner is gone");
            break;
        }
        status = cs_line_feed(control->reader, bytes, (size_t)n, err);
        if (status != CS_OK)
            break;
    }
    free(bytes);
    if (status == CS_OK && (status = cs_msg_check(*msg, err)) != CS_OK) {
        json_decref(*msg);
        *msg = NULL;
    }
    return status;
}
