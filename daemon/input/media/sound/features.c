/* Lays sounds out and computes their features: one row of a table for every family. */
#include "input/media/sound/features.h"

/* Floor division by 2 and one more: the length behind a convolution or a pool of stride 2. */
static int32_t halved(int32_t n)
{
    return (n >= 0 ? n / 2 : -((1 - n) / 2)) + 1;
}

static int32_t rows_of_conv(int32_t frames)
{
    return halved(frames - 1);
}

static int32_t rows_of_pool(int32_t frames)
{
    return halved(rows_of_conv(frames) - 2);
}

static int32_t rows_of_four(int32_t frames)
{
    return rows_of_conv(frames) / 4;
}

static const struct {
    const char *model_types;
    int32_t (*rows)(int32_t frames);
    bool takes_all;   /* chunks */
    bool counts_used; /* rows of the frames with sound, not of the chunk */
} families[] = {
    [CS_SOUND_WHISPER] = {"whisper|whisper_encoder",         rows_of_conv, false, false},
    [CS_SOUND_QWEN2_AUDIO] = {"qwen2_audio|qwen2_audio_encoder", rows_of_pool, false, true },
    [CS_SOUND_VOXTRAL] = {"voxtral|voxtral_encoder",         rows_of_four, true,  false},
};

_Static_assert(CS_ARRAY_LEN(families) == CS_SOUND_FAMILIES, "a row for every family");

bool cs_sound_family_find(const char *model_type, enum cs_sound_family *out)
{
    for (int i = 0; i < CS_SOUND_FAMILIES; i++)
        if (cs_doc_is_word(families[i].model_types, model_type)) {
            *out = (enum cs_sound_family)i;
            return true;
        }
    return false;
}

enum cs_status cs_sound_layout_make(const struct cs_sound_processor *p, enum cs_sound_family family,
                                    int64_t n_samples, struct cs_sound_layout *out,
                                    struct cs_err *err)
{
    const int64_t chunk = p->chunk_samples;

    *out = (struct cs_sound_layout){.n_used = n_samples, .n_items = 1};
    if (n_samples < 1)
        return cs_fail(err, CS_INVALID, "a sound without samples");
    if (n_samples > CS_SOUND_MAX_SAMPLES)
        return cs_fail(err, CS_LIMIT, "a sound of %.0f minutes, the limit is %.0f",
                       (double)n_samples / p->rate / 60.0,
                       (double)CS_SOUND_MAX_SAMPLES / p->rate / 60.0);
    if (families[family].takes_all)
        out->n_items = (int32_t)((n_samples + chunk - 1) / chunk);
    out->is_cut = n_samples > out->n_items * chunk;
    if (out->is_cut)
        out->n_used = out->n_items * chunk;
    out->n_padded = out->n_items * chunk;
    out->n_frames = (int32_t)((out->n_used + p->hop - 1) / p->hop);
    out->rows =
        families[family].rows(families[family].counts_used ? out->n_frames : p->chunk_frames);
    if (out->rows < 1)
        return cs_fail(err, CS_INVALID, "a sound of %lld samples is too short for this encoder",
                       (long long)n_samples);
    return CS_OK;
}

enum cs_status cs_sound_features(const struct cs_sound_processor *p, const struct cs_mel *mel,
                                 const struct cs_sound_layout *layout, const float *samples,
                                 float *values, struct cs_err *err)
{
    return cs_mel_log(mel, samples, layout->n_used, layout->n_padded, p->padding, values, err);
}
