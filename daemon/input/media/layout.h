/* What one file of a sample becomes: the items its encoder is given, the text and placeholder rows
 * that stand for it in the LLM, and how its pixels get there. Computed from the size of the medium
 * alone, by the one function that planner, sample maker and pixels all call: so the rows that are
 * counted are the rows that come.
 *
 * A picture may be one item or several (tiles, crops, a small copy of the whole); each has its own
 * grid. In the text it is a list of pieces:
 *
 *     TEXT     literal text. It becomes part of the text around the placeholder before that is
 *              tokenised ("\n" and "\n" may merge to one token), special tokens allowed.
 *     ROWS     so many placeholder rows (the encoder's token), filled from items
 *     LEARNED  placeholder rows that are filled by a learned parameter of the model and by no item
 *              (LLaVA's image_newline)
 *
 * The placeholder rows of a file are counted through all its pieces, 0 to n_rows - 1. Where the rows
 * of an item go is said by the item: from first_row on in order, or by its map. Rows that a map sends
 * to -1 are made and then dropped. Where a placeholder row mixes several rows of items (a mosaic of
 * tiles that is made smaller), `blends` says of which; maps are not to be read then.
 *
 * Text that belongs around the first and the last row (<|vision_start|>, "\n\n<start_of_image>") is
 * often in the user's text already. Such pieces are wraps, at the ends of the list only: those of a
 * side are left away where the innermost of them stands in the text, right beside the placeholder
 * (cs_media_layout_trim).
 *
 * Everything is in the arena that is passed; nothing is freed alone. Errors: CS_INVALID a size that
 * the processor refuses (as transformers does), CS_LIMIT a result that is too large, CS_UNSUPPORTED.
 * They do not name the file: that is the caller's. Sources: the image processors and processors of
 * transformers 5, Pillow back end. */
#ifndef CS_INPUT_MEDIA_LAYOUT_H
#define CS_INPUT_MEDIA_LAYOUT_H

#include "core/base/arena.h"
#include "core/data/slot.h"
#include "input/media/processor.h"

/* A medium as its header describes it. (A picture has one frame; where the encoder takes several for a
 * patch in time, the worker repeats it.) */
struct cs_medium {
    enum cs_item_kind kind;
    int32_t width, height; /* pixels, upright (cs_image_probe) */
    int32_t n_frames;      /* of a video; pictures: 1 */
    double fps;            /* frames a second of a video; 0: not known */
    bool is_list;          /* a video of frames that were taken already */
    int64_t n_samples;     /* of a sound, at the encoder's rate */
    int32_t n_of_sample;   /* media of this kind that the sample has, this one included; 0: 1 */
};

/* What encoder and projector together make of a picture, as far as rows are counted by it. */
struct cs_media_encoder {
    const char *family;  /* for messages */
    int32_t side;        /* pixels, where all pictures have one size; 0: any size */
    int32_t patch;       /* pixels a side */
    int32_t merge;       /* rows of merge x merge patches become one; 1: none */
    int32_t frames;      /* that become one patch in time; 1 */
    int32_t extra_rows;  /* of each item, before the others (a class token that is kept) */
    int32_t channels;    /* 3 */
    int32_t side_tokens; /* 0, or rows a side of every item whatever its size (average pooling) */
    int32_t
        tokens_per_second; /* of videos: positions of the LLM for a second; 0: one for each patch in time */
    int32_t mosaic_tiles; /* of vision_aspect_ratio "anyres_max_9": 9; 0: as the processor has it */
};

enum cs_media_piece_kind { CS_MEDIA_TEXT, CS_MEDIA_ROWS, CS_MEDIA_LEARNED };

struct cs_media_piece {
    enum cs_media_piece_kind kind;
    int32_t n_rows;   /* TEXT: 0 */
    const char *text; /* TEXT; else NULL */
    bool is_wrap;
    bool is_token; /* one special token: left away where the tokenizer lacks it */
};

struct cs_media_item {
    struct cs_item_shape shape;
    int32_t first_row; /* placeholder row of its first row */
    const int32_t
        *row;        /* (shape.rows) that of each row, -1: dropped; NULL: in order from first_row */
    int32_t picture; /* whose pixels are its data: 0 the file, else 1 + index of a step */
    /* video: frames of those taken; its data repeat the last one to their end */
    int32_t first_frame, n_frames;
};

/* A placeholder row as a weighted sum of rows of the file's items, counted through all items. */
struct cs_media_blend {
    int32_t row[4];
    float weight[4]; /* 0: not used */
};

/* How a picture is made from another, with the processor's filter: resized, or laid on a canvas (cut, padded). */
enum cs_picture_op { CS_PICTURE_RESIZE, CS_PICTURE_PLACE };

struct cs_picture_step {
    enum cs_picture_op op;
    int32_t from;          /* 0: the file, else 1 + index of an earlier step */
    int32_t width, height; /* of the result */
    int32_t left, top; /* PLACE: where the first pixel of `from` comes to lie; below 0: cut off */
    uint8_t fill[3];   /* PLACE: colour of what it does not cover */
};

struct cs_media_layout {
    int32_t n_items, n_pieces, n_steps;
    int32_t n_rows;    /* placeholder rows of all pieces */
    int32_t n_learned; /* of these, filled by a learned parameter */
    struct cs_media_item *items;
    struct cs_media_piece *pieces;
    struct cs_picture_step *steps;       /* pictures only */
    const struct cs_media_blend *blends; /* (n_rows; those of LEARNED are all 0) or NULL */
    bool is_cut;         /* a sound that is longer than its encoder takes: the rest is left away */
    double grid_seconds; /* video: from a patch in time to the next, for positions; 0: not told */
};

/* The most that a file of this kind can become under a processor, for budgets. */
struct cs_media_bounds {
    int32_t items, rows;           /* of a file; rows that leave the encoder */
    int32_t item_rows, item_bytes; /* of one item */
    int32_t placeholders;          /* of a file */
};

/* From an architecture: what is known of its encoder. */
struct cs_media_encoder cs_media_encoder_of(const struct cs_arch *arch);

enum cs_status cs_media_layout_make(const struct cs_processor *processor,
                                    const struct cs_media_encoder *encoder,
                                    const struct cs_medium *medium, struct cs_arena *arena,
                                    struct cs_media_layout *out, struct cs_err *err) CS_NODISCARD;
/* Whether processor and encoder belong together is found out here, before any file. */
enum cs_status cs_media_bounds_of(const struct cs_processor *processor,
                                  const struct cs_media_encoder *encoder,
                                  struct cs_media_bounds *out, struct cs_err *err) CS_NODISCARD;

/* Whether all pictures become the same items, rows and text: then only the steps to their pixels depend on
 * the size. */
bool cs_media_ignores_size(const struct cs_processor *processor);

/* Whether rows of items may be dropped, reordered or mixed, or a learned row be put between. */
bool cs_media_mixes_rows(const struct cs_processor *processor);

/* Pieces [*first, *end) take the place of a placeholder between the texts `before` and `after` (bytes;
 * all of them, or as many as the longest wrap has): without the wraps that stand there already. */
void cs_media_layout_trim(const struct cs_media_layout *layout, const char *before, size_t n_before,
                          const char *after, size_t n_after, int32_t *first, int32_t *end);

#endif
