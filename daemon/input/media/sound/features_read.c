/* Reads the preprocessor_config.json of sounds through a table of its keys. Source: WhisperFeatureExtractor of
 * transformers 5. */
#include <stdio.h>

#include "input/media/sound/features.h"
#include "input/media/sound/fourier.h"

/* clang-format off */
static const struct cs_doc_key keys[] = {
    {.names = "feature_extractor_type", .types = CS_DOC_STRING, .accept = "WhisperFeatureExtractor"},
    {.names = "feature_size", .types = CS_DOC_INT, .min = 1, .max = 1024},
    {.names = "sampling_rate", .types = CS_DOC_INT, .min = CS_SOUND_MIN_RATE, .max = CS_SOUND_MAX_RATE},
    {.names = "hop_length", .types = CS_DOC_INT, .min = 1, .max = CS_FOURIER_MAX},
    {.names = "chunk_length", .types = CS_DOC_INT, .min = 1, .max = 600},
    {.names = "n_fft", .types = CS_DOC_INT, .min = 2, .max = CS_FOURIER_MAX},
    {.names = "padding_value", .types = CS_DOC_NUMBER, .min = -1e6, .max = 1e6},
    {.names = "padding_side", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"right\"", .text = "silence is put behind a sound"},
    {.names = "dither", .types = CS_DOC_NUMBER, .use = CS_DOC_REFUSED, .only = "0", .text = "noise is not added to sounds: the same sound must always give the same features"},
    /* computed from the others, or of how the processor is called */
    {.names = "n_samples|nb_max_frames|mel_filters|return_attention_mask|processor_class|auto_map|return_tensors|do_normalize|device|transformers_version", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
};
static const struct cs_doc_table table = CS_DOC_TABLE(keys, NULL);

static const struct cs_doc_key pair_keys[] = {
    {.names = "feature_extractor", .types = CS_DOC_OBJECT, .inside = &table},
    {.names = "audio_token|audio_bos_token|audio_eos_token", .types = CS_DOC_STRING},
    {.names = "processor_class|chat_template|auto_map|tokenizer|image_processor|video_processor|transformers_version", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
};
static const struct cs_doc_table pair_table = CS_DOC_TABLE(pair_keys, NULL);

/* clang-format on */

const struct cs_doc_table *cs_sound_processor_keys(void)
{
    return &table;
}

const struct cs_doc_table *cs_sound_processor_pair_keys(void)
{
    return &pair_table;
}

/* A number, or the default of the class, which is said. */
static double number(const struct cs_doc *doc, struct cs_findings *findings, const char *key,
                     double fallback)
{
    char path[CS_DOC_NAME * 2];
    const json_t *value = cs_doc_get(doc->json, key, NULL);

    if (value != NULL)
        return json_number_value(value);
    snprintf(path, sizeof path, "%s%s%s", doc->where, doc->where[0] != '\0' ? "." : "", key);
    cs_findings_say(findings, CS_FINDING_DEFAULT, doc->name, path, NULL,
                    "%s is not given: %g, the default of WhisperFeatureExtractor", path, fallback);
    return fallback;
}

/* The sizes must fit each other: the ends of a chunk are mirrored, and windows step evenly through it. */
static enum cs_status check(const struct cs_doc *doc, const struct cs_sound_processor *p,
                            int64_t chunk_samples, struct cs_err *err)
{
    if (p->n_fft % 2 != 0)
        return cs_fail(err, CS_UNSUPPORTED, "%s: n_fft is %d; it must be even", doc->name,
                       p->n_fft);
    if (chunk_samples > CS_SOUND_MAX_SAMPLES)
        return cs_fail(err, CS_LIMIT, "%s: a chunk of %lld samples, the limit is %d", doc->name,
                       (long long)chunk_samples, CS_SOUND_MAX_SAMPLES);
    if (chunk_samples % p->hop != 0)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s: a chunk of %lld samples is no multiple of hop_length %d", doc->name,
                       (long long)chunk_samples, p->hop);
    if (chunk_samples <= p->n_fft / 2)
        return cs_fail(err, CS_INVALID, "%s: a chunk of %lld samples is shorter than n_fft / 2",
                       doc->name, (long long)chunk_samples);
    return CS_OK;
}

enum cs_status cs_sound_processor_read(const struct cs_doc *doc, struct cs_findings *findings,
                                       struct cs_sound_processor *out, struct cs_err *err)
{
    struct cs_doc known = *doc;

    known.table = &table;
    *out = (struct cs_sound_processor){0};
    CS_TRY(cs_doc_review(&known, findings, err));
    if (cs_doc_get(doc->json, "feature_extractor_type", NULL) == NULL)
        return cs_fail(err, CS_INVALID, "%s: feature_extractor_type is missing", doc->name);
    out->n_mels = (int32_t)number(doc, findings, "feature_size", 80);
    out->rate = (int32_t)number(doc, findings, "sampling_rate", 16000);
    out->hop = (int32_t)number(doc, findings, "hop_length", 160);
    out->n_fft = (int32_t)number(doc, findings, "n_fft", 400);
    out->padding = (float)number(doc, findings, "padding_value", 0);
    const int64_t chunk_samples = (int64_t)number(doc, findings, "chunk_length", 30) * out->rate;
    CS_TRY(check(doc, out, chunk_samples, err));
    out->chunk_samples = (int32_t)chunk_samples;
    out->chunk_frames = out->chunk_samples / out->hop;
    return CS_OK;
}

void cs_sound_processor_default(int32_t n_mels, struct cs_sound_processor *out)
{
    *out = (struct cs_sound_processor){.rate = 16000,
                                       .n_mels = n_mels,
                                       .n_fft = 400,
                                       .hop = 160,
                                       .chunk_samples = 30 * 16000,
                                       .chunk_frames = 3000};
}
