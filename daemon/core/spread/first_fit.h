/* Packing: samples of one step, in keyed order, into ragged slots under the budgets.
 *
 * A step is exactly batch_samples samples whatever the layout; first-fit in order over the open
 * slots (deterministic), at most max_slots slots; what does not fit is carried, in order, to the
 * next step. A smaller sample behind a carried one may still be placed. A sample over a whole
 * budget is carried. */
#ifndef CS_SPREAD_FIRST_FIT_H
#define CS_SPREAD_FIRST_FIT_H

#include "core/data/slot.h"

struct cs_pack_sample {
    int32_t tokens;                 /* LLM rows after expansion */
    int32_t items[CS_MAX_ENCODERS]; /* of every encoder, and their rows */
    int32_t rows[CS_MAX_ENCODERS];
    int32_t patches[CS_MAX_ENCODERS];
    int64_t bytes[CS_MAX_ENCODERS];
    /* (items) of every encoder; NULL: all are as the budget's largest */
    const struct cs_item_shape *shape[CS_MAX_ENCODERS];
    int32_t n_labels; /* tokens that train: what the head computes for */
    int32_t slot;     /* out: slot index, -1 carried */
};

/* Returns the number of slots used. A sample larger than a whole budget must be refused
 * before, or it is carried for ever. */
int cs_pack(const struct cs_slot_budget *budget, int max_slots, struct cs_pack_sample *sample,
            int n);

/* The most slots, over all replicas, that a step of n_samples samples can have, packed or spread
 * (spread.h), each replica with as many: one for each sample, where every sample fills more than
 * half a slot. At least `replicas`. */
int cs_pack_most(int64_t n_samples, int replicas);

#endif
