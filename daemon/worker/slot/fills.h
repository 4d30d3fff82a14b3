/* Which rows of the LLM an encoder fills, and what each is made of; part of preparing a slot (slot.h). */
#ifndef CS_WORKER_SLOT_FILLS_H
#define CS_WORKER_SLOT_FILLS_H

#include "worker/slot/slot.h"

/* fill and item_of of the encoder, and the lists of its rows where its budget has sources. */
void cs_input_prepare_fills(struct cs_input *in, int32_t encoder);

#endif
