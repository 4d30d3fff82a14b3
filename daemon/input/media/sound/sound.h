/* Sounds: WAV, FLAC, Ogg (Vorbis, Opus), MP3 and AIFF files to one channel of 32-bit floats at the rate that
 * the encoder takes, as librosa.load gives them to transformers: channels are averaged first, then
 * resampled by soxr at its high quality, to ceil(samples * rate / rate of the file) samples.
 *
 * Decoded with libsndfile and libsoxr (library.h). Nothing in the file is trusted: format, channels, rate and
 * length are checked before anything is allocated, a file is decoded in blocks and never held whole, samples
 * that are no numbers or a stream that ends before its header says are CS_CORRUPT with the file's name
 * and the place, other formats CS_UNSUPPORTED by name. Thread-safe: no state. */
#ifndef CS_INPUT_MEDIA_SOUND_SOUND_H
#define CS_INPUT_MEDIA_SOUND_SOUND_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

enum {
    CS_SOUND_MAX_CHANNELS = 64,
    CS_SOUND_MIN_RATE = 1000, /* Hz */
    CS_SOUND_MAX_RATE = 768 * 1000,
    CS_SOUND_MAX_SAMPLES = 64 * 1000 * 1000 /* after resampling: more than an hour at 16 kHz */
};

/* What a header says. Frames: samples of one channel. */
struct cs_sound_info {
    int64_t n_frames;
    int32_t rate, channels;
    char format[16]; /* "WAV", "FLAC", "Ogg", "MP3", "AIFF" */
};

struct cs_sound {
    int64_t n_samples; /* at the rate that was asked for */
    int32_t rate;
    float *samples; /* (n_samples) malloc'ed, NULL when empty */
};

/* A file, or bytes that lie in memory; name only appears in messages where bytes are given. */
struct cs_sound_source {
    const char *name; /* the path where bytes is NULL */
    const void *bytes;
    size_t n_bytes;
};

/* Without decoding; but for MP3, whose header tells no exact length: it is decoded and counted. */
enum cs_status cs_sound_probe(const struct cs_sound_source *source, struct cs_sound_info *out,
                              struct cs_err *err) CS_NODISCARD;
/* Samples of a sound of n_frames after resampling. */
int64_t cs_sound_resampled(int64_t n_frames, int32_t from_rate, int32_t to_rate);
/* most: stops after so many samples, what comes behind is neither decoded nor judged; 0: all, a longer sound
 * than CS_SOUND_MAX_SAMPLES is CS_LIMIT. A sound without samples is CS_INVALID. info (may be NULL). */
enum cs_status cs_sound_read(const struct cs_sound_source *source, int32_t rate, int64_t most,
                             struct cs_sound *out, struct cs_sound_info *info,
                             struct cs_err *err) CS_NODISCARD;
void cs_sound_free(struct cs_sound *sound); /* accepts an empty sound */

#endif
