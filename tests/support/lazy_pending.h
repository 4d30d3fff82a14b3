/* What streams of a lazy device have been given and nobody has waited for (lazy_device.h): collectives and messages.
 * Until a stream has waited for it, or the host, an array that is read must not change and one that is written
 * must not be read (it holds NaN) nor written by others: on a GPU all of it happens at any time in between. What
 * does is told as a race, once, with what was under way. Of the thread that calls, which is one rank. */
#ifndef CS_TESTS_SUPPORT_LAZY_PENDING_H
#define CS_TESTS_SUPPORT_LAZY_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_lazy_work {
    const char *what; /* "reduce_scatter" */
    int rank;         /* of its communicator */
    const void *stream;
    const void *from; /* read, NULL: nothing is */
    size_t from_bytes;
    void *to; /* written, NULL: nothing is; may be a part of `from` */
    size_t to_bytes;
};

/* What is read has its values of now. Returns where the caller puts what is written (to_bytes), before anybody
 * waits; work of the same stream follows in order. */
void *cs_lazy_pending_add(const struct cs_lazy_work *work);
/* out = a + b (n), behind what this stream was given; false: nothing is under way there, the caller does it */
bool cs_lazy_pending_sum(const void *stream, int64_t n, const float *a, const float *b, float *out);

/* An event lies behind what a stream was given so far; who waits for it, waits for all that. NULL: for all of all
 * streams. */
void cs_lazy_pending_record(const void *event, const void *stream);
void cs_lazy_pending_wait(const void *event);
void cs_lazy_pending_forget(const void *event);  /* it is destroyed */
void cs_lazy_pending_finish(const void *stream); /* other work of the stream follows */

/* The first race of all threads since it was last asked for; NULL: none. Valid until the next one is told. */
const char *cs_lazy_race(void);

#endif
