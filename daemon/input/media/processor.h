/* Image processors: what preprocessor_config.json says is done to a picture before the encoder.
 *
 * The feeder resizes and hands over uint8 pixels; rescaling and normalising happen in the worker's
 * `patches` operator from the figures here (a quarter of the traffic). Supported:
 * SiglipImageProcessor (resize to exactly height x width, aspect not kept; reference is the Pillow
 * back end; one number as a size keeps the aspect in transformers and is refused). Any other type, or
 * an option that would change the pixels and is not known, is CS_UNSUPPORTED naming it. */
#ifndef CS_INPUT_MEDIA_PROCESSOR_H
#define CS_INPUT_MEDIA_PROCESSOR_H

#include <jansson.h>

#include "core/arch/arch.h"
#include "core/data/slot.h"
#include "core/doc/doc.h"
#include "input/media/image.h"
#include "input/media/resize.h"

struct cs_processor {
    int32_t height, width, channels;
    bool do_resize;
    enum cs_resample resample;
    double rescale;        /* 1 when do_rescale is false */
    float mean[3], std[3]; /* 0 and 1 when do_normalize is false */
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
/* image -> pixels uint8 (height, width, 3), caller's memory */
enum cs_status cs_processor_apply(const struct cs_processor *processor,
                                  const struct cs_image *image, uint8_t *pixels,
                                  struct cs_err *err) CS_NODISCARD;
/* pixels uint8 (height, width, 3) -> values fp32 (3, height, width): what the encoder sees */
void cs_processor_normalise(const struct cs_processor *processor, const uint8_t *pixels,
                            float *values);

/* What a picture of the one size is to the encoder; see layout.h, which this calls. */
enum cs_status cs_image_shape(const struct cs_processor *processor, const struct cs_arch *encoder,
                              struct cs_item_shape *shape, struct cs_err *err) CS_NODISCARD;

#endif
