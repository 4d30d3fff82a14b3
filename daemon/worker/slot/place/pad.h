/* Rows that are added to a slot on a device with memory of its own; why: slot.h. */
#ifndef CS_WORKER_SLOT_PLACE_PAD_H
#define CS_WORKER_SLOT_PLACE_PAD_H

#include "worker/slot/slot.h"

/* rows of the LLM with what is added to them */
int32_t cs_input_bucket(const struct cs_input *input);
/* fill embed_ids up to llm_rows, and the masks; those of a whole slot of a context up to a bucket of their own */
void cs_input_pad(struct cs_input *input);
/* picked and n_picked, after llm_rows are known */
void cs_input_pick(struct cs_input *input, bool is_padded);

#endif
