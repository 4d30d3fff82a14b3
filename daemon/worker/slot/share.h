/* Items of an encoder over the parts that share it, and where the rows that leave it go. Rows of one item see
 * each other and no others: an item stays whole, so that these ranks need nothing from each other, and each
 * part has neighbours of the slot's order, about as many patches as the others. Where slots lie side by side in
 * several lanes of the LLM (core/plan/plan.h) they are the items of all of these slots, one slot after the
 * other: any number of lanes of the encoder feeds any number of lanes of the LLM.
 *
 * What leaves goes to those that have the rows of the LLM which it fills. The map of that
 * (core/plan/tokens/row_map.h) is the same on every rank.
 *
 * On a rank of the encoder all that layers read of a slot is then of its own items. */
#ifndef CS_WORKER_SLOT_SHARE_H
#define CS_WORKER_SLOT_SHARE_H

#include "core/plan/tokens/row_map.h"
#include "worker/slot/split.h"

struct cs_item_share {
    int32_t ranks, place; /* parts that have items; -1: this rank has none */
    int32_t llm; /* this rank's part of the LLM (lane, then place in the context), -1: none */
    const int32_t *item;   /* (ranks + 1) part r has items item[r] .. item[r + 1] of the slots */
    const int32_t *row;    /* (ranks + 1) rows that leave the encoder */
    const int32_t *fill;   /* (ranks + 1) rows of the LLM that they fill, in the order they leave */
    struct cs_row_map map; /* from parts of the encoder to parts of the LLM */
};

/* The shares of all encoders whose rows go to more than one part, or come from there. */
void cs_shares_make(struct cs_input *in, const struct cs_input *const *beside);
/* Encoders are prepared again, of the own items alone. */
void cs_shares_take(struct cs_input *in, const struct cs_input *const *beside);

#endif
