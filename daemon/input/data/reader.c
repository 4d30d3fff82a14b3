/* Pictures by their processor: size, layout, pixels. Sounds and videos are left to reader_sound.c and
 * reader_video.c. */
#include "input/data/reader.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/hash.h"
#include "input/data/reader_kinds.h"
#include "input/media/pixels.h"

/* Processors as they are written, and what of the encoder they are made for. CODE changes when pixels or features
 * come out otherwise than before. */
static void name_settings(const struct cs_module *module, struct cs_reader *out)
{
    enum { CODE = 1 };

    const json_t *const documents[] = {module->spec->processor, module->spec->video};
    const struct cs_media_encoder *e = &out->encoder;
    struct cs_buf all = {0};

    cs_buf_addf(&all, "%d %s %d %d %d %d %d %d %d %d %d %d", CODE, e->family, e->side, e->patch,
                e->merge, e->frames, e->extra_rows, e->channels, e->side_tokens,
                e->tokens_per_second, e->mosaic_tiles, (int)out->kind);
    for (size_t i = 0; i < CS_ARRAY_LEN(documents); i++) {
        char *text = documents[i] != NULL
                         ? json_dumps(documents[i], JSON_SORT_KEYS | JSON_ENCODE_ANY)
                         : NULL;
        cs_buf_addf(&all, "\n%s", text != NULL ? text : "");
        free(text);
    }
    cs_xxh3_128_hex(cs_buf_str(&all), all.len, out->settings);
    cs_buf_free(&all);
}

static enum cs_status open_kind(const struct cs_module *module, struct cs_reader *out,
                                struct cs_err *err)
{
    const json_t *config = module->spec->processor;
    enum cs_status status = CS_OK;

    if (cs_sound_family_find(module->arch.family, &out->family))
        return cs_reader_open_sound(module, out, err);
    if (json_is_object(config))
        status = cs_processor_read(config, &out->processor, err);
    else
        cs_processor_default(&module->arch, &out->processor);
    if (status == CS_OK)
        status = cs_media_bounds_of(&out->processor, &out->encoder, &out->bounds, err);
    out->is_blind = cs_media_ignores_size(&out->processor);
    return status == CS_OK ? cs_reader_open_video(module, out, err) : status;
}

enum cs_status cs_reader_open(const struct cs_module *module, int32_t index, struct cs_reader *out,
                              struct cs_err *err)
{
    *out = (struct cs_reader){
        .name = module->name, .index = index, .encoder = cs_media_encoder_of(&module->arch)};
    const enum cs_status status = open_kind(module, out, err);
    name_settings(module, out);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "module %s", module->name);
}

/* What messages call it: its path where it has one. */
static const char *name_of(const struct cs_media_file *file, const char *key)
{
    return file->bytes == NULL && file->pack == NULL ? key : file->name;
}

static enum cs_status decode(const struct cs_dataset *set, const struct cs_media_file *file,
                             const char *key, struct cs_image *out, struct cs_err *err)
{
    struct cs_media_bytes bytes = {0};

    CS_TRY(cs_media_bytes_read(set, file, &bytes, err));
    const enum cs_status status = cs_image_decode(bytes.data, bytes.n, name_of(file, key),
                                                  cs_dataset_max_pixels(set), out, err);
    cs_media_bytes_free(&bytes);
    return status;
}

static enum cs_status find_size(const struct cs_dataset *set, struct cs_sizes *sizes,
                                const struct cs_media_file *file, struct cs_medium *out,
                                struct cs_err *err)
{
    char key[CS_PATH_CAP];
    struct cs_media_bytes bytes = {0};

    CS_TRY(cs_media_file_key(set, file, key, err));
    if (cs_sizes_get(sizes, key, out))
        return CS_OK;
    CS_TRY(cs_media_bytes_read(set, file, &bytes, err));
    *out = (struct cs_medium){.kind = CS_ITEM_IMAGE, .n_frames = 1};
    const enum cs_status status =
        cs_image_probe_bytes(bytes.data, bytes.n, name_of(file, key), cs_dataset_max_pixels(set),
                             &out->width, &out->height, err);
    cs_media_bytes_free(&bytes);
    if (status == CS_OK)
        cs_sizes_put(sizes, key, out);
    return status;
}

enum cs_status cs_reader_lay_out(const struct cs_reader *r, const struct cs_dataset *set,
                                 struct cs_sizes *sizes, int32_t n_of_sample,
                                 struct cs_arena *arena, struct cs_sample_media *media,
                                 struct cs_err *err)
{
    if (r->kind == CS_ITEM_SOUND)
        return cs_reader_lay_out_sound(r, set, sizes, arena, media, err);
    if (media->file->is_video)
        return cs_reader_lay_out_video(r, set, sizes, arena, media, err);
    media->medium = (struct cs_medium){.kind = CS_ITEM_IMAGE,
                                       .width = r->processor.width,
                                       .height = r->processor.height,
                                       .n_frames = 1};
    if (!r->is_blind)
        CS_TRY(find_size(set, sizes, media->file, &media->medium, err));
    media->medium.n_of_sample = n_of_sample;
    const enum cs_status status = cs_media_layout_make(&r->processor, &r->encoder, &media->medium,
                                                       arena, &media->layout, err);
    if (r->is_blind)
        media->medium.width = media->medium.height = 0;
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "%s", media->file->name);
}

size_t cs_reader_bytes(const struct cs_media_layout *layout)
{
    size_t n = 0;

    for (int32_t i = 0; i < layout->n_items; i++)
        n += (size_t)layout->items[i].shape.bytes;
    return n;
}

/* Decoded, then made into items. Where the layout was made without the file's size, its steps are not
 * those of this file: it is made again. */
static enum cs_status make(const struct cs_reader *r, const struct cs_sample_media *media,
                           const struct cs_image *image, uint8_t *const *item, struct cs_err *err)
{
    struct cs_medium medium = media->medium;
    struct cs_media_layout layout = media->layout;
    struct cs_arena *arena = NULL;
    enum cs_status status = CS_OK;

    if (r->is_blind) {
        arena = cs_arena_new(0);
        medium.width = image->width;
        medium.height = image->height;
        status = cs_media_layout_make(&r->processor, &r->encoder, &medium, arena, &layout, err);
    }
    if (status == CS_OK)
        status = cs_pixels_make(&r->processor, &layout, &medium, image, item, err);
    cs_arena_free(arena);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "%s", media->file->name);
}

/* What is done to the file: the encoder, and how it is cut, which may depend on the sample. */
static uint64_t key_of(const struct cs_reader *r, const struct cs_media_layout *layout)
{
    uint64_t key = (uint64_t)r->index;

    for (int32_t i = 0; i < layout->n_steps && !r->is_blind; i++) {
        const struct cs_picture_step *s = &layout->steps[i];
        const int32_t step[] = {(int32_t)s->op, s->from,    s->width,   s->height, s->left,
                                s->top,         s->fill[0], s->fill[1], s->fill[2]};
        key = XXH3_64bits_withSeed(step, sizeof step, key);
    }
    for (int32_t i = 0; i < layout->n_items; i++) {
        const struct cs_media_item *item = &layout->items[i];
        const int32_t shape[] = {item->picture, item->shape.grid[0], item->shape.grid[1],
                                 item->shape.grid[2], item->shape.bytes};
        key = XXH3_64bits_withSeed(shape, sizeof shape, key);
    }
    return key;
}

static enum cs_status load_picture(const struct cs_reader *r, const struct cs_dataset *set,
                                   const struct cs_sample_media *media, const char *key,
                                   uint8_t *data, bool *is_saturated, struct cs_err *err)
{
    const struct cs_media_layout *layout = &media->layout;
    struct cs_image image = {0};
    uint8_t **item = calloc((size_t)layout->n_items + 1, sizeof *item);

    if (item == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d items of a file", layout->n_items);
    for (int32_t i = 0; i < layout->n_items; i++)
        item[i] = i == 0 ? data : item[i - 1] + layout->items[i - 1].shape.bytes;
    enum cs_status status = decode(set, media->file, key, &image, err);
    *is_saturated = status == CS_OK && image.is_saturated;
    if (status == CS_OK)
        status = make(r, media, &image, item, err);
    cs_image_free(&image);
    free(item);
    return status;
}

static enum cs_status load(const struct cs_reader *r, const struct cs_dataset *set,
                           const struct cs_sample_media *media, const char *key, uint8_t *data,
                           bool *is_saturated, struct cs_err *err)
{
    if (r->kind == CS_ITEM_SOUND)
        return cs_reader_load_sound(r, set, media, data, err);
    if (media->file->is_video)
        return cs_reader_load_video(r, set, media, data, err);
    return load_picture(r, set, media, key, data, is_saturated, err);
}

enum cs_status cs_reader_load(const struct cs_reader *r, const struct cs_dataset *set,
                              const struct cs_reader_caches *caches,
                              const struct cs_sample_media *media, uint8_t *data,
                              bool *is_saturated, struct cs_err *err)
{
    const size_t n = cs_reader_bytes(&media->layout);
    const uint64_t how = key_of(r, &media->layout);
    char key[CS_PATH_CAP], stamp[CS_PATH_CAP] = "", entry[CS_DISK_KEY];

    *is_saturated = false;
    CS_TRY(cs_media_file_key(set, media->file, key, err));
    if (cs_cache_get(caches->memory, how, key, data, n))
        return CS_OK;
    if (caches->disk != NULL)
        CS_TRY(cs_media_file_stamp(set, media->file, stamp, err));
    cs_disk_cache_key(stamp, strlen(stamp), r->settings, how, entry);
    if (stamp[0] == '\0' || !cs_disk_cache_get(caches->disk, entry, data, n)) {
        CS_TRY(load(r, set, media, key, data, is_saturated, err));
        if (stamp[0] != '\0' && !*is_saturated)
            cs_disk_cache_put(caches->disk, entry, data, n);
    }
    cs_cache_put(caches->memory, how, key, data, n);
    return CS_OK;
}
