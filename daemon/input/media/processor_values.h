/* Values of a processor's document, which has been reviewed against its keys. Inside of input/media
 * only. */
#ifndef CS_INPUT_MEDIA_PROCESSOR_VALUES_H
#define CS_INPUT_MEDIA_PROCESSOR_VALUES_H

#include "input/media/processor_classes.h"

struct cs_processor_reader {
    const struct cs_doc *doc;
    const struct cs_processor_class *row;
    json_t *defaults; /* of the class */
    struct cs_findings *findings;
    struct cs_err *err;
};

/* The document's value, else the default, which becomes a finding; NULL: neither says it. */
const json_t *cs_processor_value(const struct cs_processor_reader *r, const char *key);
bool cs_processor_flag(const struct cs_processor_reader *r, const char *key); /* false: not said */
/* A number is a square or else a shortest edge, a list is height and width. All 0: not said. */
enum cs_status cs_processor_read_size(const struct cs_processor_reader *r, const char *key,
                                      bool is_square, struct cs_processor_size *out) CS_NODISCARD;
/* rescale, mean, std, and from pads_square on ground */
enum cs_status cs_processor_read_colours(const struct cs_processor_reader *r,
                                         struct cs_processor *out) CS_NODISCARD;
/* The numbers that the class reads. */
enum cs_status cs_processor_read_numbers(const struct cs_processor_reader *r,
                                         struct cs_processor *out) CS_NODISCARD;
/* image_grid_pinpoints */
enum cs_status cs_processor_read_pins(const struct cs_processor_reader *r,
                                      struct cs_processor *out) CS_NODISCARD;

#endif
