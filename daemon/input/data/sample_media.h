/* The media of a sample in the making. For sample.c. */
#ifndef CS_INPUT_DATA_SAMPLE_MEDIA_H
#define CS_INPUT_DATA_SAMPLE_MEDIA_H

#include "input/data/sample.h"

/* The files of the record in the order of their placeholders in the rendering: fills media, shape and
 * the counts of items. */
enum cs_status cs_sample_lay_out_media(const struct cs_sample_rules *rules,
                                       const struct cs_record *record,
                                       const struct cs_rendering *rendering, struct cs_sample *out,
                                       struct cs_err *err) CS_NODISCARD;
/* CS_LIMIT: no slot holds them; out->fault says so. */
enum cs_status cs_sample_check_items(const struct cs_sample_rules *rules, struct cs_sample *out,
                                     struct cs_err *err) CS_NODISCARD;

#endif
