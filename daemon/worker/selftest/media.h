/* Pictures, videos and sounds of a golden, as items of the slot. Internal to the room. */
#ifndef CS_WORKER_SELFTEST_MEDIA_H
#define CS_WORKER_SELFTEST_MEDIA_H

#include "worker/selftest/parts.h"

/* How many items in.x holds, and what is before each: by whatever says their sizes. */
struct cs_golden_media {
    const struct cs_st_tensor *x;
    const float *values;
    int64_t n, *sizes; /* (n, 2 or 3) of grids or pictures; NULL: all are of the whole tensor */
    int n_sizes;
    bool is_grid;
    int64_t *frames; /* (n) of sounds, NULL: all */
    int32_t channels;
    int64_t next, at; /* the next item; values before it, where they lie one behind the other */
};

/* m: pictures or sounds, videos; and the room for their patches */
enum cs_status cs_golden_open_media(struct cs_golden *g, const struct cs_arch *a,
                                    struct cs_golden_media m[2], struct cs_err *err) CS_NODISCARD;
/* The next item goes into the slot; *rows: of it, 0 where there is none. */
enum cs_status cs_golden_next_medium(struct cs_golden *g, const struct cs_arch *a,
                                     struct cs_golden_media *m, int32_t time_step, int32_t *rows,
                                     struct cs_err *err) CS_NODISCARD;

#endif
