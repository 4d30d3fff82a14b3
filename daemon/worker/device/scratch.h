/* Bump memory for activations: taken in pieces, rewound or reset whole, reused for ever.
 *
 * Either it is given a region of an arena whose size is known (bind), or it grows while the first
 * slots show how much they need; after a reset everything lies in one piece then, so that a running
 * job allocates nothing. Pieces are 256-byte aligned and not cleared. Not thread-safe: one thread
 * owns it. Memory is out: the process says so and ends. */
#ifndef CS_WORKER_DEVICE_SCRATCH_H
#define CS_WORKER_DEVICE_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_device;

enum { CS_SCRATCH_MAX_CHUNKS = 192 };

struct cs_scratch {
    struct cs_device *device; /* whose memory; NULL: the host's */

    struct {
        char *data;
        size_t bytes;
    } chunk[CS_SCRATCH_MAX_CHUNKS];

    int n_chunks;
    int at;        /* chunk in use */
    size_t offset; /* in that chunk */
    size_t used;   /* bytes taken since the reset, without alignment */
    size_t peak;   /* most bytes in use at once since peak was set to 0, with alignment */
    bool is_bound; /* chunk[0] is a region of somebody else's memory */
};

struct cs_scratch_mark {
    int at;
    size_t offset, used;
};

void cs_scratch_free(struct cs_scratch *scratch); /* zero-initialised before use; keeps device */
/* Use this region (256-byte aligned) from now on; everything is free again. What does not fit into
 * it is allocated all the same, which is said once for each scratch. NULL, 0: no region. */
void cs_scratch_bind(struct cs_scratch *scratch, void *data, size_t bytes);
/* A region that is not there, as large as can be: peak tells what would have been needed. */
void cs_scratch_bind_counting(struct cs_scratch *scratch);
/* everything is free again; reset also puts the pieces together, which waits for the device */
void cs_scratch_clear(struct cs_scratch *scratch);
void cs_scratch_reset(struct cs_scratch *scratch);
void *cs_scratch_take(struct cs_scratch *scratch, size_t bytes);
float *cs_scratch_floats(struct cs_scratch *scratch, int64_t n);
struct cs_scratch_mark cs_scratch_mark(const struct cs_scratch *scratch);
void cs_scratch_rewind(struct cs_scratch *scratch, struct cs_scratch_mark mark);
size_t cs_scratch_capacity(const struct cs_scratch *scratch);

#endif
