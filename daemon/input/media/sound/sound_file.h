/* A sound file that is being decoded: blocks of averaged samples, in order. For sound.c. */
#ifndef CS_INPUT_MEDIA_SOUND_SOUND_FILE_H
#define CS_INPUT_MEDIA_SOUND_SOUND_FILE_H

#include <stdbool.h>

#include "input/media/sound/sound.h"

enum { CS_SOUND_BLOCK = 4096 }; /* frames */

struct cs_sound_file;

/* *is_exact: info->n_frames is what decoding gives; else it is a guess. */
enum cs_status cs_sound_file_open(const struct cs_sound_source *source, struct cs_sound_file **out,
                                  struct cs_sound_info *info, bool *is_exact,
                                  struct cs_err *err) CS_NODISCARD;
/* The next frames, each the mean of its channels; *got 0: the end. CS_CORRUPT: the stream is damaged, or a
 * sample is no number. */
enum cs_status cs_sound_file_next(struct cs_sound_file *file, float mono[CS_SOUND_BLOCK],
                                  int64_t *got, struct cs_err *err) CS_NODISCARD;
void cs_sound_file_close(struct cs_sound_file *file); /* accepts NULL */

#endif
