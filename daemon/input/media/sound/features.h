/* What a sound is to its encoder: the log-mel features of WhisperFeatureExtractor, and how they are cut into items
 * and counted, which the model's family says. One function lays a sound out, for planning and for features,
 * so that the rows of the LLM and the rows of the encoder cannot differ.
 *
 * An item is one chunk (30 seconds as a rule): data fp32 (frames, n_mels), grid {frames that count, 1, 1}. Frames of
 * silence may lie behind those that count: the encoder's convolutions see them, nothing else does. Whisper and
 * Qwen2-Audio take one chunk and cut the rest of the sound off; Voxtral takes as many
 * as there are, and the range of the log-mel is that of the whole sound. Sources: WhisperFeatureExtractor,
 * Qwen2AudioProcessor, Qwen2AudioEncoder, VoxtralProcessor, VoxtralEncoder of transformers 5. */
#ifndef CS_INPUT_MEDIA_SOUND_FEATURES_H
#define CS_INPUT_MEDIA_SOUND_FEATURES_H

#include <stdbool.h>

#include "core/doc/doc.h"
#include "input/media/layout.h"
#include "input/media/sound/mel.h"
#include "input/media/sound/sound.h"

/* preprocessor_config.json of a WhisperFeatureExtractor */
struct cs_sound_processor {
    int32_t rate, n_mels, n_fft, hop;
    int32_t chunk_samples, chunk_frames;
    float padding;
    int32_t
        group; /* not of the document: rows of the encoder that its projector makes one; 0: the family's */
};

/* Its keys, and those of a processor_config.json that holds it beside what joins sounds and text. */
const struct cs_doc_table *cs_sound_processor_keys(void);
const struct cs_doc_table *cs_sound_processor_pair_keys(void);
/* doc->table is not looked at. Findings: unknown keys, defaults that are taken; or NULL. Any other extractor, or an
 * option that changes the features and is not known, is CS_UNSUPPORTED or CS_INVALID by name. */
enum cs_status cs_sound_processor_read(const struct cs_doc *doc, struct cs_findings *findings,
                                       struct cs_sound_processor *out,
                                       struct cs_err *err) CS_NODISCARD;

/* What WhisperFeatureExtractor does if nothing is said, with so many bands: where a directory has no document. */
void cs_sound_processor_default(int32_t n_mels, struct cs_sound_processor *out);

enum cs_sound_family {
    CS_SOUND_WHISPER,     /* every chunk gives all its rows, silence too */
    CS_SOUND_QWEN2_AUDIO, /* rows of the frames with sound only, two of the encoder's to one */
    CS_SOUND_VOXTRAL,     /* all chunks, four of the encoder's rows to one */
    CS_SOUND_FAMILIES
};

/* by model_type of the model or of its encoder, which is its family (core/arch): "qwen2_audio", "voxtral_encoder";
 * false: no family of sounds */
bool cs_sound_family_find(const char *model_type, enum cs_sound_family *out);

struct cs_sound_layout {
    int32_t n_items;
    int32_t rows;        /* of the LLM, of every item */
    int32_t n_frames;    /* of every item, that count: its grid */
    int32_t data_frames; /* of every item, in its data */
    int64_t n_used;      /* samples that are read; the rest is cut off */
    int64_t n_padded;    /* samples with the silence behind them: chunks */
    bool is_cut;         /* the sound is longer than its chunk */
};

/* n_samples: at the processor's rate (cs_sound_resampled). A sound that is too short for a single row of the LLM
 * is CS_INVALID, one of more than CS_SOUND_MAX_SAMPLES CS_LIMIT. */
enum cs_status cs_sound_layout_make(const struct cs_sound_processor *processor,
                                    enum cs_sound_family family, int64_t n_samples,
                                    struct cs_sound_layout *out, struct cs_err *err) CS_NODISCARD;
/* The same as items and pieces of text (input/media/layout.h), and the most that a sound of so many samples can
 * become. */
enum cs_status cs_sound_media_layout(const struct cs_sound_processor *processor,
                                     enum cs_sound_family family, int64_t n_samples,
                                     struct cs_arena *arena, struct cs_media_layout *out,
                                     struct cs_err *err) CS_NODISCARD;
enum cs_status cs_sound_bounds_of(const struct cs_sound_processor *processor,
                                  enum cs_sound_family family, int64_t most_samples,
                                  struct cs_media_bounds *out, struct cs_err *err) CS_NODISCARD;
/* mel: of the processor (cs_mel_new). samples (layout->n_used) -> values fp32 (n_items * data_frames, n_mels),
 * caller's memory: the items one behind the other */
enum cs_status cs_sound_features(const struct cs_sound_processor *processor,
                                 const struct cs_mel *mel, const struct cs_sound_layout *layout,
                                 const float *samples, float *values,
                                 struct cs_err *err) CS_NODISCARD;

#endif
