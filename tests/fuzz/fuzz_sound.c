/* libFuzzer target: any bytes as a sound; what is read is resampled and becomes features. */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/edit.h"
#include "input/media/sound/features.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* libsndfile forgets a part of what it has of a damaged Ogg file. */
const char *__lsan_default_suppressions(void)
{
    return "leak:vorbis_info_init\n";
}

/* A second of sound: what comes of it must be finite, and as long as its layout says. */
static void features_of(const struct cs_sound *sound)
{
    const struct cs_sound_processor p = {.rate = 16000,
                                         .n_mels = 80,
                                         .n_fft = 400,
                                         .hop = 160,
                                         .chunk_samples = 16000,
                                         .chunk_frames = 100};
    struct cs_sound_layout layout;
    struct cs_mel *mel = NULL;

    if (cs_sound_layout_make(&p, CS_SOUND_WHISPER, sound->n_samples, &layout, NULL) != CS_OK)
        return;
    float *values = malloc(100 * 80 * sizeof *values);
    fuzz_must(values != NULL && cs_mel_new(16000, 80, 400, 160, &mel, NULL) == CS_OK);
    fuzz_must(cs_sound_features(&p, mel, &layout, sound->samples, values, NULL) == CS_OK);
    for (int i = 0; i < 100 * 80; i++)
        fuzz_must(values[i] > -10.0f && values[i] < 100.0f);
    cs_mel_free(mel);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct cs_sound_source source = {"fuzz", data, size};
    struct cs_sound sound = {0};
    struct cs_err err = {0};

    if (size == 0) /* no bytes would mean a file of that name */
        return 0;
    if (cs_sound_read(&source, 16000, 20000, &sound, NULL, &err) != CS_OK) {
        fuzz_must(sound.samples == NULL && err.text[0] != '\0');
        return 0;
    }
    fuzz_must(sound.n_samples >= 1 && sound.n_samples <= 20000);
    features_of(&sound);
    cs_sound_free(&sound);
    return 0;
}
