/* Rows of a slot in order, for recurrent layers; part of splitting a slot (split.h). */
#ifndef CS_WORKER_SLOT_STRETCH_H
#define CS_WORKER_SLOT_STRETCH_H

#include "worker/slot/block.h"
#include "worker/slot/split.h"

/* Fills in->split->stretch, while the masks are still of all rows; nothing where no layer is
 * recurrent. */
void cs_stretch_make(struct cs_input *in);
/* Of the fullest slot: as many rows as a rank can have in order, with rows before them. */
void cs_stretch_make_fullest(struct cs_input *in);
/* What operators read of them into the block; with room for as many rows as a rank can have. */
void cs_stretch_put(struct cs_input *in, struct cs_slot_block *block);

#endif
