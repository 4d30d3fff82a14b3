/* Pages that were read, for those who want them again: up to so many bytes, of which the least recently used go first and
 * none that somebody holds. Thread-safe. Private to parquet/. */
#ifndef CS_INPUT_DATA_PARQUET_KEPT_H
#define CS_INPUT_DATA_PARQUET_KEPT_H

#include <pthread.h>

#include "input/data/parquet/page.h"

struct cs_pq_held {
    struct cs_pq_page page;
    int64_t chunk, slot; /* which page it is */
    int refs;
    uint64_t used; /* when last */
    struct cs_pq_held *next;
};

struct cs_pq_kept {
    struct cs_pq_held *first;
    size_t bytes, max_bytes;
    uint64_t clock;
    pthread_mutex_t lock;
};

void cs_pq_kept_init(struct cs_pq_kept *kept, size_t max_bytes);
void cs_pq_kept_free(struct cs_pq_kept *kept);
/* Held until it is released; NULL: it is not kept. */
struct cs_pq_held *cs_pq_kept_find(struct cs_pq_kept *kept, int64_t chunk, int64_t slot);
/* Takes a page over, held as found ones are. */
void cs_pq_kept_add(struct cs_pq_kept *kept, struct cs_pq_held *held, int64_t chunk, int64_t slot);
void cs_pq_kept_release(struct cs_pq_kept *kept, struct cs_pq_held *held);
/* One that was not added; accepts NULL. */
void cs_pq_held_free(struct cs_pq_held *held);

#endif
