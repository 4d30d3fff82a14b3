/* Sizes that pictures are resized to: the arithmetic of transformers 5, to the last rounding (ratios
 * and roots in double, half to even where Python's round is). Pure; sizes go in and come out as
 * height, width in pixels. Sides that would become 0 come out as 0: the caller refuses them. */
#ifndef CS_INPUT_MEDIA_SIZES_H
#define CS_INPUT_MEDIA_SIZES_H

#include <stdint.h>

#include "core/base/status.h"
#include "core/data/mosaic.h" /* struct cs_extent */

/* Shortest side s, the other one by aspect, cut to whole pixels; longest 0: no limit. */
struct cs_extent cs_size_shortest(struct cs_extent from, int32_t shortest, int32_t longest);
/* The largest of this aspect within a box; larger than the picture too. */
struct cs_extent cs_size_box(struct cs_extent from, int32_t max_height, int32_t max_width);
/* Multiples of factor, of min to max pixels, of about the same aspect. CS_INVALID: one side is more
 * than 200 times the other. (Qwen-VL's smart_resize.) */
enum cs_status cs_size_smart(struct cs_extent from, int32_t factor, int64_t min, int64_t max,
                             struct cs_extent *out, struct cs_err *err) CS_NODISCARD;
/* Within max by the aspect, then up to multiples of factor. (Pixtral.) */
struct cs_extent cs_size_within(struct cs_extent from, struct cs_extent max, int32_t factor);
/* Multiples of patch, at most max_patches of them, as large as that allows. (SigLIP 2.) */
struct cs_extent cs_size_budget(struct cs_extent from, int32_t patch, int32_t max_patches);
/* Multiples of pool * patch, at most max_rows pools, as large as that allows. (Gemma 4.) */
struct cs_extent cs_size_pooled(struct cs_extent from, int32_t patch, int32_t pool,
                                int32_t max_rows);
/* Columns and rows of tiles: the grid of min to max tiles whose aspect is nearest. (InternVL.) */
struct cs_extent cs_size_grid(struct cs_extent from, struct cs_extent tile, int32_t min,
                              int32_t max);
/* Longest side n, the other one by aspect and even, no side over 4096. (Idefics 3.) */
struct cs_extent cs_size_longest(struct cs_extent from, int32_t n);
/* Up to multiples of tile, the longer side first. (Idefics 3.) */
struct cs_extent cs_size_multiple(struct cs_extent from, int32_t tile);
/* The largest of this aspect inside of `within`, up to whole pixels. (LLaVA-NeXT.) */
struct cs_extent cs_size_inside(struct cs_extent from, struct cs_extent within);

#endif
