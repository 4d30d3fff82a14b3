/* What fills the placeholder rows of a file: which row of its items, a learned row, or a blend. */
#ifndef CS_INPUT_DATA_FILLS_H
#define CS_INPUT_DATA_FILLS_H

#include "input/media/layout.h"

/* Without sources (core/data/slot.h): every row of every item, in order, and nothing else. */
bool cs_fills_are_plain(const struct cs_media_layout *layout);
/* source: (n_rows) row among those of the file's items, CS_SOURCE_LEARNED, or, where the layout has
 * blends, CS_SOURCE_BLENDS (then layout->blends says of what). CS_CORRUPT: a row that nothing fills,
 * or two do: the layout is wrong. */
enum cs_status cs_fills_make(const struct cs_media_layout *layout, int32_t *source,
                             struct cs_err *err) CS_NODISCARD;

#endif
