/* Rows of a slot on the ranks of a context that exchange heads: every rank has all rows of the slot for some
 * heads of attention, under the whole masks. */
#ifndef CS_WORKER_SLOT_ROW_HEADS_H
#define CS_WORKER_SLOT_ROW_HEADS_H

#include "worker/slot/block.h"
#include "worker/slot/split.h"

/* After rows are padded, the slot's in its masks and the own ones: in->split->heads. */
void cs_row_heads_make(struct cs_input *input);
/* What operators read of them into the block. */
void cs_row_heads_put(struct cs_input *input, struct cs_slot_block *block);

#endif
