/* Threads take the next range of a loop until none is left. */
#include "core/base/system/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { MOST_THREADS = 256 };

struct loop {
    atomic_llong next; /* first index that nobody has */
    int64_t n, grain;
    cs_range_fn *fn;
    void *user;
};

static void *work(void *arg)
{
    struct loop *loop = arg;
    for (;;) {
        const int64_t first = atomic_fetch_add(&loop->next, loop->grain), left = loop->n - first;
        if (left <= 0)
            return NULL;
        loop->fn(loop->user, first, left < loop->grain ? left : loop->grain);
    }
}

void cs_parallel_for(int threads, int64_t n, int64_t grain, cs_range_fn *fn, void *user)
{
    const int64_t ranges = n / grain + (n % grain > 0);
    const int most = threads < MOST_THREADS ? threads : MOST_THREADS;
    struct loop loop = {.n = n, .grain = grain, .fn = fn, .user = user};
    pthread_t thread[MOST_THREADS];
    int started = 0;
    while (started + 1 < most && started + 1 < ranges &&
           pthread_create(&thread[started], NULL, work, &loop) == 0)
        started++;
    work(&loop);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}
