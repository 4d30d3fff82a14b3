/* How the rows of an encoder come to be, and in which order they lie.
 *
 * An item (a picture, a video, a sound) has a grid in patches over time, height and width
 * (core/data/slot.h). Its rows inside the encoder are a class row, where the family has one, then its
 * patches in an order that is ours to choose: frame by frame; in a frame window by window, where
 * layers attend inside windows only; in a window group by group; a group is merge x merge patches,
 * row by row. So frames and windows are contiguous segments, and what becomes one row behind the
 * encoder lies side by side: joining is a change of shape, and nothing is ever permuted. Positions,
 * rotations and masks follow the order; where a row goes in the LLM is asked of cs_front_places.
 *
 * A sound has a grid of its frames x 1 x 1. A stem of two convolutions halves them; a group is merge
 * rows behind one another. Pure. */
#ifndef CS_ARCH_FRONT_H
#define CS_ARCH_FRONT_H

#include <stdbool.h>
#include <stdint.h>

struct cs_arch;

/* What is before the blocks. */
enum cs_stem {
    CS_STEM_TOKENS,  /* a language model: rows of a table */
    CS_STEM_PATCHES, /* a product of every patch with a matrix */
    CS_STEM_FRAMES /* convolutions over three frames: each with all around it, then every second */
};

/* Which rows of the learned table of positions a row of the encoder is given. */
enum cs_position_kind {
    CS_POSITION_NONE,
    CS_POSITION_ROW,     /* the row of its own number in the item */
    CS_POSITION_BICUBIC, /* the square table as a picture, resized to the grid: a = -0.75 */
    CS_POSITION_AREA,    /* the same bilinear, with antialias */
    CS_POSITION_CORNERS, /* the same bilinear, corners on corners */
    CS_POSITION_BUCKETS, /* the row at the same share of height and width, rounded down */
    CS_POSITION_AXES,    /* two tables, of width and height: the sum of a row of each */
    CS_POSITION_KINDS
};

enum { CS_FRONT_POSITION_SIDE = 256 }; /* of a square table that is resized, at most */

struct cs_front {
    enum cs_stem stem;
    enum cs_position_kind position;
    int32_t position_rows; /* of the table, without class rows; AXES: of each of its two tables */
    int32_t patch_frames;  /* frames that a patch spans; a single picture is repeated */
    int32_t merge;         /* patches a side (sound: rows) that become one row; 1: none */
    int32_t window;        /* patches a side of a window, a multiple of merge; 0: none */
    int32_t pool;          /* sound: rows whose mean the final norm is given; 1: none */
    bool has_class;        /* a learned row before the patches, with a position of its own */
    bool keeps_class;      /* it leaves the encoder's branch too */
    bool has_norm;         /* after the embedding */
    bool
        is_channels_last; /* values of a patch: row, column, channel; else channel, frame, row, column */
    bool is_standardised; /* behind the mean, by constants of the model */
    float mlp_ratio;      /* of the inner width to the width, as read; 0: the inner width is */
    int32_t out_width;    /* of what a tap makes, as read */
    bool is_centred;      /* pixels become 2 x - 1, after what the processor says */
};

/* A row inside an encoder. */
struct cs_front_row {
    int32_t frame, y, x; /* its patch in the grid; -1: the class row */
    int32_t window;      /* counted in the item through all frames */
};

/* Values of a patch, or of a frame of sound. */
int32_t cs_front_values(const struct cs_arch *encoder);
/* Rows inside the encoder of an item of that grid; of these, those that are no class row. */
int32_t cs_front_rows(const struct cs_arch *encoder, const int32_t grid[3]);
int32_t cs_front_patches(const struct cs_arch *encoder, const int32_t grid[3]);
/* Rows that leave the encoder's branch, after joining; 0: the grid is none of this encoder. */
int32_t cs_front_out_rows(const struct cs_arch *encoder, const int32_t grid[3]);
/* Patches (rows of the encoder) that become one row. */
int32_t cs_front_group(const struct cs_arch *encoder);
/* Rows inside the encoder at most, of n_items items of so many patches together. */
int64_t cs_front_inner_most(const struct cs_arch *encoder, int64_t n_patches, int64_t n_items);
/* The order: row (cs_front_rows). */
void cs_front_order(const struct cs_arch *encoder, const int32_t grid[3], struct cs_front_row *row);
/* place (cs_front_out_rows): of every row that leaves, in the order in which they leave, its number
 * when the item is read frame by frame, line by line (a class row first). */
void cs_front_places(const struct cs_arch *encoder, const int32_t grid[3], int32_t *place);
/* The grid of items where all have one size, {0, 0, 0} where they have not. */
void cs_front_fixed_grid(const struct cs_arch *encoder, int32_t grid[3]);

/* Weights of rows of a table: entry [start[i], start[i + 1]) of row i. */
struct cs_front_weights {
    int32_t *start; /* (rows + 1), starts at 0 */
    int32_t *index;
    float *weight;
};

/* Entries that the positions of an item have at most; 0: the encoder has none. */
int64_t cs_front_position_room(const struct cs_arch *encoder, const int32_t grid[3]);
/* Appends rows to `out`: rows of the table for each of the item's rows, which begin at first_row (the
 * rows before are there already). */
void cs_front_positions(const struct cs_arch *encoder, const int32_t grid[3],
                        const struct cs_front_row *row, int32_t first_row,
                        struct cs_front_weights *out);

#endif
