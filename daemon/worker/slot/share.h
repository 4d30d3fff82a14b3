/* Items of an encoder over the ranks that share it. Rows of one item see each other and no others: an item
 * stays whole, so that these ranks need nothing from each other, and each has neighbours of the slot's
 * order, about as many patches as the others. What leaves a rank goes to those that have the rows of the
 * LLM which it fills: all rows of the LLM know where theirs come from.
 *
 * On a rank of the encoder all that layers read of a slot is then of its own items. */
#ifndef CS_WORKER_SLOT_SHARE_H
#define CS_WORKER_SLOT_SHARE_H

#include "worker/slot/split.h"

struct cs_item_share {
    int32_t ranks, place;  /* that have items; -1: this one has none */
    int32_t llm;           /* this rank's place in the LLM's context, -1: it is none of its ranks */
    const int32_t *item;   /* (ranks + 1) rank r has items item[r] .. item[r + 1] of the slot */
    const int32_t *row;    /* (ranks + 1) rows that leave the encoder */
    const int32_t *fill;   /* (ranks + 1) rows of the LLM that they fill, in the order they leave */
    struct cs_row_runs go; /* the own ones of these, by the rank of the LLM that has them */
    const int32_t
        *come; /* (ranks + 1) those that come to this rank of the LLM, by who makes them */
    const int32_t *taken; /* (ranks of the LLM) how many come to each */
};

/* The parts of all encoders that ranks share, once fill and item_of are known, and while they are of
 * the whole slot. owner (n_tokens): ranks of the LLM's rows, NULL: there is one. */
void cs_shares_make(struct cs_input *in, const int32_t *owner);
/* Encoders are prepared again, of the own items alone. */
void cs_shares_take(struct cs_input *in);

#endif
