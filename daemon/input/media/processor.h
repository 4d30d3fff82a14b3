/* Image processors: what preprocessor_config.json (or the image_processor of processor_config.json)
 * says is done to a picture before the encoder, in both spellings of transformers 4 and 5. A class of
 * processor is a row of a table: its kind and its defaults.
 *
 * The feeder resizes, cuts and pads (layout.h, pixels.h) and hands over uint8 pixels; rescaling and
 * normalising happen in the worker's `patches` operator from the figures here (a quarter of the
 * traffic). The reference is the Pillow back end. A class, or an option that would change the pixels,
 * that is not known is CS_UNSUPPORTED naming it. */
#ifndef CS_INPUT_MEDIA_PROCESSOR_H
#define CS_INPUT_MEDIA_PROCESSOR_H

#include <jansson.h>

#include "core/arch/arch.h"
#include "core/data/slot.h"
#include "core/doc/doc.h"
#include "input/media/resize.h"
#include "input/picture/image.h"

enum cs_processor_kind {
    CS_PROCESSOR_PLAIN, /* all of one size: padded to a square, resized, cut (CLIP, SigLIP, DINOv2) */
    CS_PROCESSOR_SMART,  /* multiples of a patch, between two numbers of pixels (Qwen-VL) */
    CS_PROCESSOR_WITHIN, /* within a square, sides rounded up to patches (Pixtral) */
    CS_PROCESSOR_BUDGET, /* at most so many patches, sides rounded up (SigLIP 2 NaFlex) */
    CS_PROCESSOR_POOLED, /* at most so many patches, sides rounded down to pools (Gemma 4) */
    CS_PROCESSOR_TILES,  /* a grid of tiles by aspect, and the whole (InternVL) */
    CS_PROCESSOR_PAN,    /* the whole, and crops where it is long (Gemma 3) */
    CS_PROCESSOR_ANYRES, /* the whole, and a padded mosaic of tiles (LLaVA-NeXT, OneVision) */
    CS_PROCESSOR_SPLIT,  /* tiles by size, and the whole (Idefics 3, SmolVLM) */
    CS_PROCESSOR_KINDS
};

/* A size as the documents say it, pixels; 0: not said. */
struct cs_processor_size {
    int32_t height, width, shortest_edge, longest_edge, max_height, max_width;
};

enum { CS_PROCESSOR_PINS = 128, CS_PROCESSOR_SIDE_MAX = 16384 };

struct cs_processor {
    enum cs_processor_kind kind;
    const char *name;      /* of the class, for messages: a constant */
    int32_t height, width; /* of every item; 0: they differ */
    int32_t channels;
    bool do_resize;
    enum cs_resample resample;
    double rescale;        /* 1 when do_rescale is false */
    float mean[3], std[3]; /* 0 and 1 when do_normalize is false */

    struct cs_processor_size size;
    struct cs_processor_size crop; /* cut from the middle; all 0: not */
    struct cs_processor_size pad;  /* right and below; all 0: not */
    bool pads_square;              /* before it is resized, with colour `ground` */
    uint8_t ground[3];

    int32_t patch, merge, frames;      /* sides in pixels, in patches; frames of a patch */
    int64_t min_pixels, max_pixels;    /* SMART */
    int32_t max_patches;               /* BUDGET; POOLED: of rows behind the pools */
    bool is_cut;                       /* TILES, PAN, SPLIT: into several items */
    int32_t min_tiles, max_tiles;      /* TILES */
    int32_t pan_side, pan_crops;       /* PAN: least side of a crop, most crops */
    double pan_ratio;                  /* PAN: of the sides, from which on crops are made */
    int32_t n_pins;                    /* ANYRES: sizes of mosaics */
    int32_t pin[CS_PROCESSOR_PINS][2]; /* height, width */
    int32_t mosaic_tiles;              /* ANYRES: rows of a larger mosaic are blended; 0: never */
};

/* The keys of preprocessor_config.json, and those of a processor_config.json that holds it beside what
 * joins pictures and text. */
const struct cs_doc_table *cs_processor_keys(void);
const struct cs_doc_table *cs_processor_pair_keys(void);
/* doc->table is not looked at. Findings: unknown keys, defaults that are taken; or NULL. */
enum cs_status cs_processor_read_doc(const struct cs_doc *doc, struct cs_findings *findings,
                                     struct cs_processor *out, struct cs_err *err) CS_NODISCARD;
/* What SigLIP's processor does, at the size of the encoder: where a directory has none. */
void cs_processor_default(const struct cs_arch *encoder, struct cs_processor *out);
/* the same as cs_processor_read_doc for a document of which no more is known */
enum cs_status cs_processor_read(const json_t *config, struct cs_processor *out,
                                 struct cs_err *err) CS_NODISCARD;
/* Puts into a document what its class takes where nothing is said of rescaling and normalising: workers know no
 * classes. One of an unknown class stays as it is. */
void cs_processor_say_colours(json_t *config);
/* pixels uint8 (n, 3) -> values fp32 (3, n): what the encoder sees. The one definition of it:
 * (pixel * rescale - mean) / std, the product in double, the rest in float. */
void cs_processor_normalise(const struct cs_processor *processor, const uint8_t *pixels, size_t n,
                            float *values);

#endif
