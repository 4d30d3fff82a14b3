/* Room for the bitmaps of a mask (core/mask/cells.h) before its cells are known. Equal bitmaps are
 * stored once, so most masks need few: those of a diagonal, of the borders of documents and items.
 * Rules under which items far apart see each other (CORNSTARCH, MODALITY_BIDIR) may need one for
 * every cell in which a border falls; these cells are counted, in closed form. */
#ifndef CS_MASK_BITMAPS_H
#define CS_MASK_BITMAPS_H

#include "core/mask/cells.h"

/* At least 1 where there are tiles, at most one for every cell. q_row: (n_q + 1) first rows of the
 * query tiles; key tiles are plain, one after the other. */
int32_t cs_mask_bitmap_room(const struct cs_mask_plan *plan, const int32_t *q_row, int32_t n_q,
                            int32_t n_k);
/* What masks need that are not of those rules. */
int32_t cs_mask_bitmap_room_usual(int32_t n_q, int32_t n_k);

#endif
