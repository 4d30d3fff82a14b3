/* What the layouts of all kinds of processors are made with. Inside of input/media only. */
#ifndef CS_INPUT_MEDIA_LAYOUT_MAKE_H
#define CS_INPUT_MEDIA_LAYOUT_MAKE_H

#include "input/media/layout.h"

/* A size, in pixels or patches. */
struct cs_extent {
    int32_t height, width;
};

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

/* Size of a picture: 0 the file, else 1 + index of a step. */
struct cs_extent cs_layout_extent(const struct cs_layout_maker *m, int32_t picture);
/* Both return the new picture; one that would be the same is not made. */
int32_t cs_layout_resize(struct cs_layout_maker *m, int32_t from, int32_t height, int32_t width);
int32_t cs_layout_place(struct cs_layout_maker *m, int32_t from,
                        const struct cs_picture_step *place); /* its op and from are not read */
/* The picture is an item: its rows follow those of the items before it, without text. */
struct cs_media_item *cs_layout_item(struct cs_layout_maker *m, int32_t picture);
/* Pieces, in order; wraps come first and last. Texts must live as long as the layout. */
void cs_layout_text(struct cs_layout_maker *m, const char *text);
void cs_layout_token(struct cs_layout_maker *m, const char *text);
void cs_layout_wrap(struct cs_layout_maker *m, const char *text);
void cs_layout_wrap_token(struct cs_layout_maker *m, const char *text);
void cs_layout_rows(struct cs_layout_maker *m, int32_t n);
void cs_layout_learned(struct cs_layout_maker *m, int32_t n);

/* Kinds of processors. */
void cs_layout_fixed(struct cs_layout_maker *m);

#endif
