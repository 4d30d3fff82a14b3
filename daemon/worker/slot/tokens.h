/* The LLM's rows of a slot, checked and prepared; part of preparing a slot (slot.h). */
#ifndef CS_WORKER_SLOT_TOKENS_H
#define CS_WORKER_SLOT_TOKENS_H

#include "worker/slot/slot.h"

/* Ids, spans, axes and masks of all rows, after those of the encoders. CS_CORRUPT names slot and row. */
enum cs_status cs_input_prepare_tokens(struct cs_input *in, int index,
                                       struct cs_err *err) CS_NODISCARD;
/* The masks of the LLM: these rows, each under its own rule. */
void cs_input_set_masks(struct cs_input *in, const struct cs_mask_plan *rows);

#endif
