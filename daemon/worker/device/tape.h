/* A tape: what a stage would have run on its device, written down instead. It is a back end like
 * any other (operators, copies, fills; the handle of cs_ctx is the tape), so layers do not know it;
 * what was written down is played on the device later, once or any number of times.
 *
 * A call is written with every argument: numbers, addresses and, by value, the structs that
 * arguments point at (shape and mask of attention, lists of tiles too). Operators are functions of
 * their arguments (kernels/ops.h), so two stretches of tape with the same bytes are the same work
 * on the device, launch for launch: their hash is a key that can miss nothing
 * (worker/exec/state/graphs.h).
 *
 * Operators that no stage runs (optimizer, casts, mask_build) have no place on a tape: those entries of its table are NULL. Queries (*_workspace) are answered by the
 * device's operators. Memory is out: the process ends. One thread. */
#ifndef CS_WORKER_DEVICE_TAPE_H
#define CS_WORKER_DEVICE_TAPE_H

#include "worker/device/device.h"

struct cs_tape {
    struct cs_device *device;  /* where it is played; borrowed */
    struct cs_device recorder; /* what runs on this is written down; nothing is allocated from it */
    struct cs_ops ops;
    struct cs_device_ops mem;
    union cs_tape_word *word;
    size_t used, room; /* words */
    uint32_t n_calls;
};

/* A place on the tape, between two calls. */
struct cs_tape_mark {
    size_t word;
    uint32_t n_calls;
};

void cs_tape_open(struct cs_tape *tape, struct cs_device *device);
void cs_tape_close(struct cs_tape *tape); /* zero-initialised is fine */

/* Surroundings of operators that are to be written down: stream as on the device. */
struct cs_ctx cs_tape_ctx(struct cs_tape *tape);
struct cs_tape_mark cs_tape_mark(const struct cs_tape *tape);
void cs_tape_clear(struct cs_tape *tape);
/* what lies between two marks, also at the end of another tape of the same device */
void cs_tape_append(struct cs_tape *tape, const struct cs_tape *other, struct cs_tape_mark from,
                    struct cs_tape_mark to);
/* xxh3-128 of what lies between two marks, as hex */
void cs_tape_hash(const struct cs_tape *tape, struct cs_tape_mark from, struct cs_tape_mark to,
                  char out[33]);
/* Enqueue it on the device. Trouble is kept there (worker/device/device.h). */
void cs_tape_play(const struct cs_tape *tape, struct cs_tape_mark from, struct cs_tape_mark to);

#endif
