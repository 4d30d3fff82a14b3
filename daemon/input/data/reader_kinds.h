/* What the reader does with sounds and videos, for reader.c. Errors name the file. */
#ifndef CS_INPUT_DATA_READER_KINDS_H
#define CS_INPUT_DATA_READER_KINDS_H

#include "input/data/reader.h"

/* Reads the processor, fills kind and bounds. */
enum cs_status cs_reader_open_sound(const struct cs_module *module, struct cs_reader *out,
                                    struct cs_err *err) CS_NODISCARD;
/* Where the module reads videos: their processor, and bounds that hold for pictures and videos. */
enum cs_status cs_reader_open_video(const struct cs_module *module, struct cs_reader *out,
                                    struct cs_err *err) CS_NODISCARD;
enum cs_status cs_reader_lay_out_sound(const struct cs_reader *reader, const struct cs_dataset *set,
                                       struct cs_sizes *sizes, struct cs_arena *arena,
                                       struct cs_sample_media *media,
                                       struct cs_err *err) CS_NODISCARD;
enum cs_status cs_reader_lay_out_video(const struct cs_reader *reader, const struct cs_dataset *set,
                                       struct cs_sizes *sizes, struct cs_arena *arena,
                                       struct cs_sample_media *media,
                                       struct cs_err *err) CS_NODISCARD;
enum cs_status cs_reader_load_sound(const struct cs_reader *reader, const struct cs_dataset *set,
                                    const struct cs_sample_media *media, uint8_t *data,
                                    struct cs_err *err) CS_NODISCARD;
enum cs_status cs_reader_load_video(const struct cs_reader *reader, const struct cs_dataset *set,
                                    const struct cs_sample_media *media, uint8_t *data,
                                    struct cs_err *err) CS_NODISCARD;

#endif
