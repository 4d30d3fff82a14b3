/* The endless stream of samples of a job in keyed order, and the finite one of an evaluation.
 *
 * Cursor: {"epoch", "position", "carried": [indices], "data": {"samples", "xxh3"}}: the next sample
 * is cs_order_at(seed, epoch, n, position); carried ones come before it; data is what the file was,
 * with which the cursor has a meaning. Good samples only come out; bad ones are replaced by
 * the next in order and reported through `bad`. */
#ifndef CS_FEEDER_STREAM_H
#define CS_FEEDER_STREAM_H

#include "feeder/loader.h"

struct cs_stream;

/* Called for every bad sample, each time it is met. Not CS_OK ends the stream with that error. */
typedef enum cs_status (*cs_stream_bad)(void *user, const struct cs_load *load, struct cs_err *err);

struct cs_stream_config {
    struct cs_source *source;
    uint64_t seed;
    bool is_ordered;      /* evaluation: 0, 1, .. limit - 1 once; otherwise keyed order for ever */
    uint64_t limit;       /* of an ordered stream */
    int n_threads, depth; /* as those of the loader, and bytes */
    int64_t bytes;
    cs_stream_bad bad;
    void *user;
};

/* cursor NULL: from the start. A cursor of another data set, or of one that was changed since, is
 * CS_INVALID. */
enum cs_status cs_stream_open(const struct cs_stream_config *config, const json_t *cursor,
                              struct cs_stream **out, struct cs_err *err) CS_NODISCARD;
void cs_stream_close(struct cs_stream *stream); /* accepts NULL */
/* *has false at the end of an ordered stream. An epoch without a single good sample is
 * CS_INVALID. */
enum cs_status cs_stream_next(struct cs_stream *stream, struct cs_load *out, bool *has,
                              struct cs_err *err) CS_NODISCARD;
/* New reference: where to go on when the carried ones come first. */
json_t *cs_stream_cursor(const struct cs_stream *stream, const struct cs_load *carried,
                         int n_carried);

#endif
