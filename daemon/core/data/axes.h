/* Positions over time, height and width of the rows of a language model whose heads turn by all three
 * (mrope of Qwen2-VL and its successors): text goes on by one on all axes; a picture stands at the
 * place where it begins, its rows at their lines and columns from there; what follows begins behind the
 * longer side of it. Frames of a video that text lies between are pictures of their own.
 * Source: get_rope_index of transformers 5 (qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5). */
#ifndef CS_DATA_AXES_H
#define CS_DATA_AXES_H

#include "core/data/slot.h"

/* pos (3, slot->head->n_tokens): time, then height, then width. merge (budget->n_encoders): patches a
 * side that became one row; 0: rows of that encoder count as text. The slot's items are checked. */
void cs_slot_axes(const struct cs_slot *slot, const struct cs_slot_budget *budget,
                  const int32_t *merge, int32_t *pos);

#endif
