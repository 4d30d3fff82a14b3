/* The items of an encoder in all slots that lie side by side, as one list: slot after slot. Items and rows that
 * are filled count through them. */
#ifndef CS_WORKER_SLOT_POOL_H
#define CS_WORKER_SLOT_POOL_H

#include "worker/slot/slot.h"

struct cs_item_pool {
    struct cs_input *in; /* whose memory is taken */
    int32_t encoder;
    const struct cs_arch *arch;
    const struct cs_input *const *lane; /* (n_lanes) */
    const struct cs_item *const *items; /* (n_lanes) of each, as the slot has them */
    int32_t n_lanes, n_items, n_fills;  /* of all */
    const int32_t *first_item, *first_fill, *first_row; /* (n_lanes + 1) */
};

/* Before anything is taken of `in`. */
struct cs_item_pool cs_item_pool_of(struct cs_input *in, int32_t encoder,
                                    const struct cs_input *const *lane);
const struct cs_item *cs_item_pool_item(const struct cs_item_pool *pool, int32_t i);
/* the item that fills a row: of several the first */
int32_t cs_item_pool_item_of(const struct cs_item_pool *pool, int32_t fill);
/* (n_items + 1) where the list may be cut: nothing that items before fill comes behind what others fill, or
 * needs them too: pieces of one picture stay together. */
const bool *cs_item_pool_cuts(const struct cs_item_pool *pool);
/* The items first .. end - 1 with their data, or what stands for these, become those of pool->in. */
void cs_item_pool_take(const struct cs_item_pool *pool, int32_t first, int32_t end);
/* Rows first .. end - 1 that are filled become those of pool->in, whose first row is row first_row of all. */
void cs_item_pool_take_fills(const struct cs_item_pool *pool, int32_t first, int32_t end,
                             int32_t first_row);

#endif
