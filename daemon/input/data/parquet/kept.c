/* Keeps pages that were read. */
#include "input/data/parquet/kept.h"

#include <stdlib.h>

void cs_pq_held_free(struct cs_pq_held *held)
{
    if (held == NULL)
        return;
    cs_pq_page_free(&held->page);
    free(held);
}

void cs_pq_kept_init(struct cs_pq_kept *k, size_t max_bytes)
{
    *k = (struct cs_pq_kept){.max_bytes = max_bytes};
    pthread_mutex_init(&k->lock, NULL);
}

void cs_pq_kept_free(struct cs_pq_kept *k)
{
    while (k->first != NULL) {
        struct cs_pq_held *next = k->first->next;
        cs_pq_held_free(k->first);
        k->first = next;
    }
    pthread_mutex_destroy(&k->lock);
}

/* Under the lock: the least recently used that nobody holds, until it fits. */
static void make_room(struct cs_pq_kept *k)
{
    while (k->bytes > k->max_bytes) {
        struct cs_pq_held **oldest = NULL;
        for (struct cs_pq_held **at = &k->first; *at != NULL; at = &(*at)->next)
            if ((*at)->refs == 0 && (oldest == NULL || (*at)->used < (*oldest)->used))
                oldest = at;
        if (oldest == NULL)
            return;
        struct cs_pq_held *gone = *oldest;
        *oldest = gone->next;
        k->bytes -= gone->page.held;
        cs_pq_held_free(gone);
    }
}

void cs_pq_kept_release(struct cs_pq_kept *k, struct cs_pq_held *held)
{
    pthread_mutex_lock(&k->lock);
    held->refs--;
    make_room(k);
    pthread_mutex_unlock(&k->lock);
}

struct cs_pq_held *cs_pq_kept_find(struct cs_pq_kept *k, int64_t chunk, int64_t slot)
{
    struct cs_pq_held *held = NULL;

    pthread_mutex_lock(&k->lock);
    for (held = k->first; held != NULL && (held->chunk != chunk || held->slot != slot);)
        held = held->next;
    if (held != NULL) {
        held->refs++;
        held->used = ++k->clock;
    }
    pthread_mutex_unlock(&k->lock);
    return held;
}

void cs_pq_kept_add(struct cs_pq_kept *k, struct cs_pq_held *held, int64_t chunk, int64_t slot)
{
    pthread_mutex_lock(&k->lock);
    held->chunk = chunk;
    held->slot = slot;
    held->refs = 1;
    held->used = ++k->clock;
    held->next = k->first;
    k->first = held;
    k->bytes += held->page.held;
    make_room(k);
    pthread_mutex_unlock(&k->lock);
}
