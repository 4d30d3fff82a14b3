/* Sounds of an encoder: their length from the header, their features. */
#include "input/data/reader_kinds.h"

/* What a message calls a file: its path where it has one. */
static struct cs_sound_source source_of(const struct cs_media_file *file, const char *path,
                                        const struct cs_media_bytes *bytes)
{
    if (path[0] != '\0')
        return (struct cs_sound_source){.name = path};
    return (struct cs_sound_source){file->name, bytes->data, bytes->n};
}

enum cs_status cs_reader_open_sound(const struct cs_module *module, struct cs_reader *out,
                                    struct cs_err *err)
{
    const struct cs_doc doc = {
        .name = "preprocessor_config.json", .where = "", .json = module->spec->processor};
    struct cs_sound_processor *p = &out->sound;

    out->kind = CS_ITEM_SOUND;
    if (json_is_object(module->spec->processor))
        CS_TRY(cs_sound_processor_read(&doc, NULL, p, err));
    else
        cs_sound_processor_default(module->arch.channels, p);
    p->group = module->arch.front.merge;
    if (p->n_mels != module->arch.channels)
        return cs_fail(err, CS_INVALID,
                       "the processor makes %d mel bands (feature_size), the %s encoder takes %d: "
                       "preprocessor_config.json and config.json do not belong together",
                       p->n_mels, module->arch.family, module->arch.channels);
    return cs_sound_bounds_of(p, out->family, CS_SOUND_MAX_SAMPLES, &out->bounds, err);
}

static enum cs_status find_length(const struct cs_reader *r, const struct cs_dataset *set,
                                  struct cs_sizes *sizes, const struct cs_media_file *file,
                                  struct cs_medium *out, struct cs_err *err)
{
    char key[CS_PATH_CAP], path[CS_PATH_CAP];
    struct cs_media_bytes bytes = {0};
    struct cs_sound_info info = {0};

    CS_TRY(cs_media_file_key(set, file, key, err));
    if (cs_sizes_get(sizes, key, out))
        return CS_OK;
    CS_TRY(cs_media_file_locate(set, file, path, &bytes, err));
    const struct cs_sound_source source = source_of(file, path, &bytes);
    const enum cs_status status = cs_sound_probe(&source, &info, err);
    cs_media_bytes_free(&bytes);
    if (status != CS_OK)
        return status;
    *out = (struct cs_medium){.kind = CS_ITEM_SOUND,
                              .n_samples =
                                  cs_sound_resampled(info.n_frames, info.rate, r->sound.rate)};
    cs_sizes_put(sizes, key, out);
    return CS_OK;
}

enum cs_status cs_reader_lay_out_sound(const struct cs_reader *r, const struct cs_dataset *set,
                                       struct cs_sizes *sizes, struct cs_arena *arena,
                                       struct cs_sample_media *media, struct cs_err *err)
{
    CS_TRY(find_length(r, set, sizes, media->file, &media->medium, err));
    const enum cs_status status = cs_sound_media_layout(
        &r->sound, r->family, media->medium.n_samples, arena, &media->layout, err);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "%s", media->file->name);
}

/* Reads as many samples as were laid out: a file that has fewer now was changed meanwhile. */
static enum cs_status read_samples(const struct cs_reader *r, const struct cs_dataset *set,
                                   const struct cs_media_file *file, int64_t n,
                                   struct cs_sound *out, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_media_bytes bytes = {0};

    CS_TRY(cs_media_file_locate(set, file, path, &bytes, err));
    const struct cs_sound_source source = source_of(file, path, &bytes);
    enum cs_status status = cs_sound_read(&source, r->sound.rate, n, out, NULL, err);
    if (status == CS_OK && out->n_samples != n) {
        status = cs_fail(err, CS_CORRUPT, "%s: %lld samples now, %lld when it was counted",
                         source.name, (long long)out->n_samples, (long long)n);
        cs_sound_free(out);
    }
    cs_media_bytes_free(&bytes);
    return status;
}

enum cs_status cs_reader_load_sound(const struct cs_reader *r, const struct cs_dataset *set,
                                    const struct cs_sample_media *media, uint8_t *data,
                                    struct cs_err *err)
{
    const struct cs_sound_processor *p = &r->sound;
    struct cs_sound_layout layout;
    struct cs_sound sound = {0};
    struct cs_mel *mel = NULL;

    CS_ASSERT((uintptr_t)data % sizeof(float) == 0);
    CS_TRY(cs_sound_layout_make(p, r->family, media->medium.n_samples, &layout, err));
    CS_TRY(read_samples(r, set, media->file, layout.n_used, &sound, err));
    enum cs_status status = cs_mel_new(p->rate, p->n_mels, p->n_fft, p->hop, &mel, err);
    if (status == CS_OK)
        status = cs_sound_features(p, mel, &layout, sound.samples, (float *)(void *)data, err);
    cs_mel_free(mel);
    cs_sound_free(&sound);
    return status;
}
