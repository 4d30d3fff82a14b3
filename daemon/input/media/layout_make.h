/* What the layouts of all kinds of processors are made with. Inside of input/media only. */
#ifndef CS_INPUT_MEDIA_LAYOUT_MAKE_H
#define CS_INPUT_MEDIA_LAYOUT_MAKE_H

#include "input/media/layout.h"
#include "input/media/sizes.h"

/* One layout in the making. The functions below only note the first error in `status` (and err). */
struct cs_layout_maker {
    const struct cs_processor *processor;
    const struct cs_media_encoder *encoder;
    const struct cs_medium *medium;
    struct cs_arena *arena;
    struct cs_err *err;
    enum cs_status status;
    struct cs_media_layout out;
    int32_t room_items, room_pieces, room_steps;
};

/* Notes an error, unless there is one. */
void cs_layout_fail(struct cs_layout_maker *m, enum cs_status status, const char *fmt, ...)
    CS_PRINTF(3, 4);
/* Size of a picture: 0 the file, else 1 + index of a step. */
struct cs_extent cs_layout_extent(const struct cs_layout_maker *m, int32_t picture);
/* All return the new picture; one that would be the same is not made. */
int32_t cs_layout_resize(struct cs_layout_maker *m, int32_t from, struct cs_extent to);
/* On a canvas; its first pixel comes to (left, top). fill: 3 colours, NULL: black. */
int32_t cs_layout_place(struct cs_layout_maker *m, int32_t from, struct cs_extent canvas,
                        int32_t left, int32_t top, const uint8_t *fill);
/* The tile at a row and column of a grid of tiles. */
int32_t cs_layout_tile(struct cs_layout_maker *m, int32_t from, struct cs_extent tile, int32_t row,
                       int32_t column);
/* The picture is an item: its rows follow those of the items before it, without text. Returns its
 * rows. */
int32_t cs_layout_item(struct cs_layout_maker *m, int32_t picture);
/* Rows that an item of this size has. */
int32_t cs_layout_item_rows(const struct cs_media_encoder *encoder, struct cs_extent size);
/* Pieces, in order; wraps come first and last. Texts must live as long as the layout. */
void cs_layout_text(struct cs_layout_maker *m, const char *text);
void cs_layout_token(struct cs_layout_maker *m, const char *text);
void cs_layout_wrap(struct cs_layout_maker *m, const char *text);
void cs_layout_wrap_token(struct cs_layout_maker *m, const char *text);
void cs_layout_rows(struct cs_layout_maker *m, int32_t n);
void cs_layout_learned(struct cs_layout_maker *m, int32_t n);
/* The picture resized, cut and padded as the processor's sizes say. */
int32_t cs_layout_fit(struct cs_layout_maker *m, int32_t picture);

/* What a kind of processor does. */
struct cs_layout_kind {
    bool has_one_size; /* of all items: that of the encoder */
    /* what processor and encoder must agree on beyond it; NULL: nothing */
    enum cs_status (*check)(const struct cs_processor *p, const struct cs_media_encoder *e,
                            struct cs_err *err);
    void (*make)(struct cs_layout_maker *m);
    /* items, item_rows, item_bytes and placeholders; rows: 0 for items * item_rows */
    void (*bound)(const struct cs_processor *p, const struct cs_media_encoder *e,
                  struct cs_media_bounds *out);
};

extern const struct cs_layout_kind cs_layout_plain, cs_layout_smart, cs_layout_within,
    cs_layout_budget, cs_layout_pooled, cs_layout_tiles, cs_layout_pan, cs_layout_anyres,
    cs_layout_split;

#endif
