/* What one item of an encoder is in a slot; part of preparing it (slot.h). */
#ifndef CS_WORKER_SLOT_ITEM_H
#define CS_WORKER_SLOT_ITEM_H

#include "worker/slot/slot.h"

/* The grid by which the rows of an item are ordered. */
void cs_input_item_grid(const struct cs_arch *encoder, const struct cs_item *item, int32_t grid[3]);
/* Pixels of a picture of that grid. */
void cs_input_picture_size(const struct cs_arch *encoder, const int32_t grid[3], int32_t *height,
                           int32_t *width);
/* Bytes of the data of an item of that grid: all of a sound's frames have sound, a video has all its
 * frames. */
int64_t cs_input_item_bytes(const struct cs_arch *encoder, const int32_t grid[3]);

#endif
