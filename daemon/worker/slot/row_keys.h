/* Keys of a rank of a context under one mask: which rows they are, in which order they lie, which of
 * the own ones go, and how gradients come back to them. */
#ifndef CS_WORKER_SLOT_ROW_KEYS_H
#define CS_WORKER_SLOT_ROW_KEYS_H

#include "worker/slot/block.h"
#include "worker/slot/split.h"

/* After rows are padded: need[].keys of the LLM's masks, whose keys these become. */
void cs_row_keys_make(struct cs_input *input);
/* hosts: keys are sorted once they are here */
bool cs_row_keys_are_sorted(const struct cs_input *input);
/* What operators read of them into the block: need[].at, and the keys of in->at.mask[mask]. */
void cs_row_keys_put(struct cs_input *input, int32_t mask, struct cs_slot_block *block);

#endif
