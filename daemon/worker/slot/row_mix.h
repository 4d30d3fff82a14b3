/* Lists of which rows make which, and their way back; part of preparing a slot (slot.h). */
#ifndef CS_WORKER_SLOT_ROW_MIX_H
#define CS_WORKER_SLOT_ROW_MIX_H

#include "worker/slot/slot.h"

/* The list that goes the other way: for each of n_from rows, who takes it, in rising order. */
struct cs_row_mix cs_row_mix_back(struct cs_scratch *memory, const struct cs_row_mix *mix,
                                  int32_t n_from);

#endif
