/* One transfer at a time is handed over; both sides sleep while they have nothing to do. */
#include "worker/measure/messenger.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct cs_messenger {
    struct cs_comm *comm; /* its own, of the shared connections */
    int wake_fd;          /* something was asked */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct cs_xfer *xfer; /* under lock: asked and not complete */
    int deadline_ms;
    bool is_over;
    enum cs_status status;
    struct cs_err err; /* ... of the last one */
};

static enum cs_status move(struct cs_messenger *m, struct cs_xfer *xfer, int deadline_ms,
                           struct cs_err *err)
{
    CS_TRY(m->comm->table->post(m->comm, xfer, err));
    while (!xfer->is_done)
        CS_TRY(m->comm->table->progress(m->comm, m->wake_fd, deadline_ms, err));
    return CS_OK;
}

/* what was asked; false: nothing will be any more */
static bool await(struct cs_messenger *m, struct cs_xfer **xfer, int *deadline_ms)
{
    eventfd_t n;
    (void)eventfd_read(m->wake_fd, &n);
    pthread_mutex_lock(&m->lock);
    *xfer = m->xfer;
    *deadline_ms = m->deadline_ms;
    const bool is_over = m->is_over;
    pthread_mutex_unlock(&m->lock);
    return !is_over;
}

static void *run(void *arg)
{
    struct cs_messenger *m = arg;
    struct cs_xfer *xfer;
    int deadline_ms;
    while (await(m, &xfer, &deadline_ms)) {
        struct cs_err err = {0};
        const enum cs_status status = move(m, xfer, deadline_ms, &err);
        pthread_mutex_lock(&m->lock);
        m->xfer = NULL;
        m->status = status;
        m->err = err;
        pthread_cond_signal(&m->changed);
        pthread_mutex_unlock(&m->lock);
    }
    return NULL;
}

static void free_parts(struct cs_messenger *m)
{
    if (m->comm != NULL)
        m->comm->table->free(m->comm);
    if (m->wake_fd >= 0)
        close(m->wake_fd);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->changed);
    free(m);
}

enum cs_status cs_messenger_new(struct cs_comm *comm, struct cs_messenger **out, struct cs_err *err)
{
    struct cs_messenger *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a thread of messages");
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    m->wake_fd = eventfd(0, EFD_CLOEXEC);
    enum cs_status status = m->wake_fd < 0 ? cs_fail_errno(err, "making an event descriptor")
                                           : comm->table->share(comm, &m->comm, err);
    if (status == CS_OK && pthread_create(&m->thread, NULL, run, m) != 0)
        status = cs_fail(err, CS_LIMIT, "no thread to measure messages with");
    if (status != CS_OK) {
        free_parts(m);
        return status;
    }
    *out = m;
    return CS_OK;
}

void cs_messenger_free(struct cs_messenger *messenger)
{
    if (messenger == NULL)
        return;
    pthread_mutex_lock(&messenger->lock);
    messenger->is_over = true;
    pthread_mutex_unlock(&messenger->lock);
    (void)eventfd_write(messenger->wake_fd, 1);
    pthread_join(messenger->thread, NULL);
    free_parts(messenger);
}

enum cs_status cs_messenger_move(struct cs_messenger *messenger, struct cs_xfer *xfer,
                                 int deadline_ms, struct cs_err *err)
{
    struct cs_messenger *m = messenger;
    pthread_mutex_lock(&m->lock);
    m->xfer = xfer;
    m->deadline_ms = deadline_ms;
    pthread_mutex_unlock(&m->lock);
    (void)eventfd_write(m->wake_fd, 1);
    pthread_mutex_lock(&m->lock);
    while (m->xfer != NULL)
        pthread_cond_wait(&m->changed, &m->lock);
    const enum cs_status status = m->status;
    if (status != CS_OK && err != NULL)
        *err = m->err;
    pthread_mutex_unlock(&m->lock);
    return status;
}
