/* Loads samples on several threads, in order. A ring of orders: [popped, claimed) are being loaded or
 * done, [claimed, pushed) wait for a thread, or for room where those that are done take many bytes. */
#include "feeder/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct cs_load load;
    int64_t bytes; /* that it takes once it is done */
    bool is_done;
};

struct cs_loader {
    struct cs_source *source;
    pthread_mutex_t lock;
    pthread_cond_t has_work, has_result;
    struct job *jobs; /* (depth) */
    uint64_t depth, popped, claimed, pushed;
    int64_t bytes, most_bytes; /* of [popped, claimed) that are done */
    bool is_ending;
    pthread_t threads[CS_SPEC_MAX_DATA_THREADS];
    int n_threads;
};

static void load_one(struct cs_source *source, struct cs_load *load)
{
    struct cs_err err = {0};

    load->status = cs_source_load(source, load->index, NULL, &load->loaded, &err);
    if (load->status == CS_OK)
        return;
    load->reason = strdup(err.text);
    if (load->reason == NULL)
        load->status = CS_NO_MEMORY;
}

/* Where nothing is done there is room, so that the oldest one is always begun. */
static bool has_work(const struct cs_loader *l)
{
    return l->claimed < l->pushed && l->bytes < l->most_bytes;
}

static void *work(void *arg)
{
    struct cs_loader *l = arg;

    (void)pthread_mutex_lock(&l->lock);
    while (!l->is_ending) {
        struct job *job = NULL;
        if (!has_work(l)) {
            (void)pthread_cond_wait(&l->has_work, &l->lock);
            continue;
        }
        job = &l->jobs[l->claimed++ % l->depth];
        (void)pthread_mutex_unlock(&l->lock);
        load_one(l->source, &job->load);
        (void)pthread_mutex_lock(&l->lock);
        job->bytes = cs_loaded_bytes(&job->load.loaded);
        l->bytes += job->bytes;
        job->is_done = true;
        (void)pthread_cond_broadcast(&l->has_result);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return NULL;
}

enum cs_status cs_loader_new(struct cs_source *source, int n_threads, int depth, int64_t bytes,
                             struct cs_loader **out, struct cs_err *err)
{
    struct cs_loader *l = calloc(1, sizeof *l);

    CS_ASSERT(n_threads >= 1 && n_threads <= CS_SPEC_MAX_DATA_THREADS && depth >= 1 && bytes >= 1);
    if (l != NULL)
        l->jobs = calloc((size_t)depth, sizeof *l->jobs);
    if (l == NULL || l->jobs == NULL) {
        free(l);
        return cs_fail(err, CS_NO_MEMORY, "no memory to load %d samples ahead", depth);
    }
    l->source = source;
    l->depth = (uint64_t)depth;
    l->most_bytes = bytes;
    CS_ASSERT(pthread_mutex_init(&l->lock, NULL) == 0 &&
              pthread_cond_init(&l->has_work, NULL) == 0 &&
              pthread_cond_init(&l->has_result, NULL) == 0);
    *out = l;
    while (l->n_threads < n_threads) {
        if (pthread_create(&l->threads[l->n_threads], NULL, work, l) != 0) {
            cs_loader_free(l);
            *out = NULL;
            return cs_fail(err, CS_NO_MEMORY, "cannot start preprocessing thread %d of %d",
                           l->n_threads + 1, n_threads);
        }
        l->n_threads++;
    }
    return CS_OK;
}

void cs_load_free(struct cs_load *load)
{
    cs_loaded_free(&load->loaded);
    free(load->reason);
    load->reason = NULL;
}

void cs_loader_free(struct cs_loader *l)
{
    if (l == NULL)
        return;
    (void)pthread_mutex_lock(&l->lock);
    l->is_ending = true;
    (void)pthread_cond_broadcast(&l->has_work);
    (void)pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++)
        (void)pthread_join(l->threads[i], NULL);
    for (uint64_t i = l->popped; i < l->claimed; i++)
        cs_load_free(&l->jobs[i % l->depth].load);
    (void)pthread_cond_destroy(&l->has_work);
    (void)pthread_cond_destroy(&l->has_result);
    (void)pthread_mutex_destroy(&l->lock);
    free(l->jobs);
    free(l);
}

int cs_loader_room(struct cs_loader *l)
{
    return (int)(l->depth - (l->pushed - l->popped)); /* only our own thread moves these */
}

void cs_loader_push(struct cs_loader *l, uint64_t index)
{
    CS_ASSERT(cs_loader_room(l) > 0);
    (void)pthread_mutex_lock(&l->lock);
    l->jobs[l->pushed % l->depth] = (struct job){.load = {.index = index}};
    l->pushed++;
    (void)pthread_cond_signal(&l->has_work);
    (void)pthread_mutex_unlock(&l->lock);
}

void cs_loader_pop(struct cs_loader *l, struct cs_load *out)
{
    struct job *job = &l->jobs[l->popped % l->depth];

    CS_ASSERT(l->popped < l->pushed);
    (void)pthread_mutex_lock(&l->lock);
    while (!job->is_done)
        (void)pthread_cond_wait(&l->has_result, &l->lock);
    *out = job->load;
    l->bytes -= job->bytes;
    *job = (struct job){0};
    l->popped++;
    if (l->claimed < l->pushed) /* threads that wait now waited for room */
        (void)pthread_cond_broadcast(&l->has_work);
    (void)pthread_mutex_unlock(&l->lock);
}
