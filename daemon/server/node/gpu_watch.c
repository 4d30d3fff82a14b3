/* Reads the GPUs in a thread of its own, so that a slow driver holds up nobody. */
#include "server/node/gpu_watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 1 };

struct cs_gpu_watch {
    struct cs_gpus *gpus; /* the thread's */
    pthread_t thread;
    int fd;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake, ended;
    bool is_asked, is_ending, has_ended, has_reading;
    struct cs_gpu newest[CS_GPUS_MAX];
};

static void *run(void *user)
{
    struct cs_gpu_watch *watch = user;
    const size_t n = (size_t)cs_gpus_count(watch->gpus);
    pthread_mutex_lock(&watch->lock);
    while (!watch->is_ending) {
        if (!watch->is_asked) {
            pthread_cond_wait(&watch->wake, &watch->lock);
            continue;
        }
        watch->is_asked = false;
        pthread_mutex_unlock(&watch->lock);
        cs_gpus_sample(watch->gpus);
        pthread_mutex_lock(&watch->lock);
        memcpy(watch->newest, cs_gpus_at(watch->gpus, 0), n * sizeof(watch->newest[0]));
        watch->has_reading = true;
        (void)!eventfd_write(watch->fd, 1);
    }
    watch->has_ended = true;
    pthread_cond_signal(&watch->ended);
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

/* Signals are the event loop's. */
static int start_thread(struct cs_gpu_watch *watch)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(&watch->thread, NULL, run, watch);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}

static void free_watch(struct cs_gpu_watch *watch)
{
    cs_gpus_close(watch->gpus);
    if (watch->fd != -1)
        close(watch->fd);
    pthread_mutex_destroy(&watch->lock);
    pthread_cond_destroy(&watch->wake);
    pthread_cond_destroy(&watch->ended);
    free(watch);
}

enum cs_status cs_gpu_watch_open(struct cs_gpus *gpus, struct cs_gpu_watch **out,
                                 struct cs_err *err)
{
    struct cs_gpu_watch *watch = calloc(1, sizeof *watch);
    CS_ASSERT(watch != NULL);
    watch->gpus = gpus;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->wake, NULL);
    pthread_cond_init(&watch->ended, NULL);
    watch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->fd != -1)
        errno = start_thread(watch);
    if (watch->fd == -1 || errno != 0) {
        enum cs_status status = cs_fail_errno(err, "a thread that reads the GPUs");
        free_watch(watch);
        return status;
    }
    *out = watch;
    return CS_OK;
}

void cs_gpu_watch_close(struct cs_gpu_watch *watch)
{
    struct timespec limit;
    int code = 0;
    if (!watch)
        return;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&watch->lock);
    watch->is_ending = true;
    pthread_cond_signal(&watch->wake);
    while (!watch->has_ended && code == 0)
        code = pthread_cond_timedwait(&watch->ended, &watch->lock, &limit);
    const bool has_ended = watch->has_ended;
    pthread_mutex_unlock(&watch->lock);
    if (!has_ended) { /* in the driver: what it works on must stay */
        pthread_detach(watch->thread);
        return;
    }
    pthread_join(watch->thread, NULL);
    free_watch(watch);
}

void cs_gpu_watch_ask(struct cs_gpu_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_asked = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
}

int cs_gpu_watch_fd(const struct cs_gpu_watch *watch)
{
    return watch->fd;
}

bool cs_gpu_watch_take(struct cs_gpu_watch *watch, struct cs_gpu out[CS_GPUS_MAX])
{
    eventfd_t ignored;
    pthread_mutex_lock(&watch->lock);
    const bool is_new = watch->has_reading;
    watch->has_reading = false;
    (void)!eventfd_read(watch->fd, &ignored);
    if (is_new)
        memcpy(out, watch->newest, sizeof(watch->newest));
    pthread_mutex_unlock(&watch->lock);
    return is_new;
}
