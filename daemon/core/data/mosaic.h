/* Mosaics of tiles, as LLaVA-NeXT and LLaVA-OneVision lay pictures into them: which rows of the items of a
 * picture fill the LLM's rows. Item 0 is the whole picture, the others are its tiles, line by line. The
 * picture keeps its aspect, so that a mosaic has padding on two of its sides; rows of padding are dropped.
 * Where more rows than those of most_tiles tiles are left, they are made fewer by a bilinear resize. Pure;
 * the arithmetic is that of transformers 5 (pack_image_features), to the last rounding. */
#ifndef CS_DATA_MOSAIC_H
#define CS_DATA_MOSAIC_H

#include "core/data/slot.h"

struct cs_extent {
    int32_t height, width;
};

/* In rows of the encoder, but `tiles`. */
struct cs_mosaic {
    struct cs_extent tiles, tile, full;
    struct cs_extent kept; /* of full, what is no padding: from top, left on */
    struct cs_extent size; /* kept, or fewer: what fills the LLM */
    int32_t top, left;
};

/* The pin that keeps most of the picture and wastes least: its index; -1: none. */
int32_t cs_size_pin(struct cs_extent from, const int32_t (*pins)[2], int32_t n);
/* Of `grid` patches that a padded picture has, those that are not padding: the same above and below, or
 * left and right. */
struct cs_extent cs_size_unpadded(struct cs_extent from, struct cs_extent grid);

/* from: pixels of the picture; most_tiles 0: any number. */
struct cs_mosaic cs_mosaic_make(struct cs_extent from, struct cs_extent tiles,
                                struct cs_extent tile, int32_t most_tiles);
/* Its rows are not those of the tiles, but blends of them. */
bool cs_mosaic_is_blended(const struct cs_mosaic *mosaic);
/* The row, counted through all items, at a place of what is kept. */
int32_t cs_mosaic_row(const struct cs_mosaic *mosaic, int32_t y, int32_t x);
/* What is at a place of its size, where it is blended. */
struct cs_slot_blend cs_mosaic_blend(const struct cs_mosaic *mosaic, int32_t y, int32_t x);

#endif
