/* Lays sounds out and computes their features: one row of a table for every family. */
#include "input/media/sound/features.h"

#include <stdlib.h>
#include <string.h>

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

static const struct {
    const char *model_types;
    int32_t (*rows)(int32_t frames); /* of the encoder */
    int32_t group;                   /* of these that the family's own projector makes one */
    bool takes_all;                  /* chunks */
    bool counts_used;                /* frames with sound count, not all of the chunk */
    const char *open, *close;        /* tokens around the rows, NULL: none */
} families[] = {
    [CS_SOUND_WHISPER] = {"whisper|whisper_encoder",         rows_of_conv, 1, false, false, NULL,            NULL           },
    [CS_SOUND_QWEN2_AUDIO] = {"qwen2_audio|qwen2_audio_encoder", rows_of_pool, 1, false, true,
                          "<|audio_bos|>",                                                                   "<|audio_eos|>"},
    [CS_SOUND_VOXTRAL] = {"voxtral|voxtral_encoder",         rows_of_conv, 4, true,  false, "[BEGIN_AUDIO]",
                          NULL                                                                                              },
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
    out->n_frames = out->data_frames = p->chunk_frames;
    if (families[family].counts_used) {
        out->n_frames = (int32_t)((out->n_used + p->hop - 1) / p->hop);
        const int32_t seen = 2 * rows_of_conv(out->n_frames) + 1;
        out->data_frames = seen < p->chunk_frames ? seen : p->chunk_frames;
    }
    out->rows =
        families[family].rows(out->n_frames) / (p->group > 0 ? p->group : families[family].group);
    if (out->rows < 1)
        return cs_fail(err, CS_INVALID, "a sound of %lld samples is too short for this encoder",
                       (long long)n_samples);
    return CS_OK;
}

static int32_t bytes_of(const struct cs_sound_processor *p, const struct cs_sound_layout *l)
{
    return l->data_frames * p->n_mels * (int32_t)sizeof(float);
}

enum cs_status cs_sound_media_layout(const struct cs_sound_processor *p,
                                     enum cs_sound_family family, int64_t n_samples,
                                     struct cs_arena *arena, struct cs_media_layout *out,
                                     struct cs_err *err)
{
    struct cs_sound_layout l;
    int n = 0;

    *out = (struct cs_media_layout){0};
    CS_TRY(cs_sound_layout_make(p, family, n_samples, &l, err));
    struct cs_media_item *items = CS_NEW_ARRAY(arena, struct cs_media_item, l.n_items);
    struct cs_media_piece *pieces = CS_NEW_ARRAY(arena, struct cs_media_piece, 3);
    for (int32_t i = 0; i < l.n_items; i++)
        items[i] = (struct cs_media_item){
            .shape = {CS_ITEM_SOUND, {l.n_frames, 1, 1}, l.rows, bytes_of(p, &l)},
            .first_row = i * l.rows
        };
    if (families[family].open != NULL)
        pieces[n++] = (struct cs_media_piece){
            .text = families[family].open, .is_wrap = true, .is_token = true};
    pieces[n++] = (struct cs_media_piece){.kind = CS_MEDIA_ROWS, .n_rows = l.n_items * l.rows};
    if (families[family].close != NULL)
        pieces[n++] = (struct cs_media_piece){
            .text = families[family].close, .is_wrap = true, .is_token = true};
    *out = (struct cs_media_layout){.n_items = l.n_items,
                                    .n_pieces = n,
                                    .n_rows = l.n_items * l.rows,
                                    .is_cut = l.is_cut,
                                    .items = items,
                                    .pieces = pieces};
    return CS_OK;
}

enum cs_status cs_sound_bounds_of(const struct cs_sound_processor *p, enum cs_sound_family family,
                                  int64_t most_samples, struct cs_media_bounds *out,
                                  struct cs_err *err)
{
    struct cs_sound_layout l;

    *out = (struct cs_media_bounds){0};
    CS_TRY(cs_sound_layout_make(p, family, most_samples, &l, err));
    *out = (struct cs_media_bounds){.items = l.n_items,
                                    .rows = l.n_items * l.rows,
                                    .item_rows = l.rows,
                                    .item_bytes = bytes_of(p, &l),
                                    .placeholders = l.n_items * l.rows};
    return CS_OK;
}

enum cs_status cs_sound_features(const struct cs_sound_processor *p, const struct cs_mel *mel,
                                 const struct cs_sound_layout *layout, const float *samples,
                                 float *values, struct cs_err *err)
{
    const size_t n_all = (size_t)p->chunk_frames * (size_t)p->n_mels;
    const size_t n_kept = (size_t)layout->data_frames * (size_t)p->n_mels;
    enum cs_status status = CS_OK;
    float *all = values;

    if (layout->data_frames < p->chunk_frames) /* one item: the rest of its silence is left away */
        all = malloc(n_all * sizeof *all);
    if (all == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sound's features");
    status = cs_mel_log(mel, samples, layout->n_used, layout->n_padded, p->padding, all, err);
    if (all == values)
        return status;
    memcpy(values, all, n_kept * sizeof *values);
    free(all);
    return status;
}
