/* Videos of an encoder of pictures: files, folders and lists of frames. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "input/data/reader_kinds.h"
#include "input/media/video/clip.h"

/* A video that is open: where its bytes or its frames lie. */
struct video {
    struct cs_clip_source source;
    char path[CS_PATH_CAP];
    struct cs_media_bytes bytes;
    struct cs_clip_picture *pictures; /* (n) of a list */
    struct cs_media_bytes *held;      /* (n) */
    char **paths;                     /* (n) */
    int32_t n;
};

static void close_video(struct video *v)
{
    for (int32_t i = 0; i < v->n; i++) {
        if (v->held != NULL)
            cs_media_bytes_free(&v->held[i]);
        if (v->paths != NULL)
            free(v->paths[i]);
    }
    free(v->held);
    free(v->paths);
    free(v->pictures);
    cs_media_bytes_free(&v->bytes);
}

static enum cs_status open_frame(const struct cs_dataset *set, const struct cs_media_file *frame,
                                 struct video *v, struct cs_err *err)
{
    const int32_t i = v->n++;

    CS_TRY(cs_media_file_locate(set, frame, v->path, &v->held[i], err));
    if (v->path[0] == '\0') {
        v->pictures[i] = (struct cs_clip_picture){frame->name, v->held[i].data, v->held[i].n};
        return CS_OK;
    }
    v->paths[i] = strdup(v->path);
    v->pictures[i].name = v->paths[i];
    return v->paths[i] != NULL ? CS_OK
                               : cs_fail(err, CS_NO_MEMORY, "no memory for the frames of a video");
}

static enum cs_status open_list(const struct cs_dataset *set, const struct cs_media_file *file,
                                struct video *v, struct cs_err *err)
{
    const size_t room = (size_t)file->n_frames + 1;

    v->pictures = calloc(room, sizeof *v->pictures);
    v->held = calloc(room, sizeof *v->held);
    v->paths = calloc(room, sizeof *v->paths);
    if (v->pictures == NULL || v->held == NULL || v->paths == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d frames of a video", file->n_frames);
    for (int32_t i = 0; i < file->n_frames; i++)
        CS_TRY(open_frame(set, &file->frames[i], v, err));
    v->source = (struct cs_clip_source){.name = file->name,
                                        .pictures = v->pictures,
                                        .n_pictures = v->n,
                                        .fps = file->fps,
                                        .max_pixels = cs_dataset_max_pixels(set)};
    return CS_OK;
}

/* The pictures of a folder as a list, each by its path below the root: links out of it are refused as ever. */
static enum cs_status open_folder(const struct cs_dataset *set, const struct cs_media_file *file,
                                  struct video *v, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_media_file list = *file;
    struct cs_clip_folder folder;
    enum cs_status status = cs_clip_folder_list(v->path, &folder, err);

    if (status == CS_OK) {
        struct cs_media_file *frames = CS_NEW_ARRAY(arena, struct cs_media_file, folder.n);
        for (int32_t i = 0; i < folder.n; i++)
            frames[i].name = cs_arena_printf(arena, "%s/%s", file->name,
                                             strrchr(folder.pictures[i].name, '/') + 1);
        list.frames = frames;
        list.n_frames = folder.n;
        status = open_list(set, &list, v, err);
        cs_clip_folder_free(&folder);
    }
    cs_arena_free(arena);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat st;

    return path[0] != '\0' && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static enum cs_status open_video(const struct cs_dataset *set, const struct cs_media_file *file,
                                 struct video *v, struct cs_err *err)
{
    enum cs_status status = CS_OK;

    *v = (struct video){0};
    if (file->frames == NULL)
        CS_TRY(cs_media_file_locate(set, file, v->path, &v->bytes, err));
    if (file->frames != NULL || is_folder(v->path)) {
        status =
            file->frames != NULL ? open_list(set, file, v, err) : open_folder(set, file, v, err);
        if (status != CS_OK)
            close_video(v);
        return status;
    }
    v->source = (struct cs_clip_source){.name = v->path[0] != '\0' ? v->path : file->name,
                                        .bytes = v->bytes.data,
                                        .n_bytes = v->bytes.n,
                                        .fps = file->fps,
                                        .max_pixels = cs_dataset_max_pixels(set)};
    return CS_OK;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

enum cs_status cs_reader_open_video(const struct cs_module *module, struct cs_reader *out,
                                    struct cs_err *err)
{
    const struct cs_doc doc = {
        .name = "video_preprocessor_config.json", .where = "", .json = module->spec->video};
    struct cs_media_bounds most, *b = &out->bounds;

    if (!json_is_object(module->spec->video))
        return CS_OK;
    if (strncmp(module->arch.family, "qwen2_5_vl", 10) == 0) {
        const json_t *said = cs_doc_get(module->spec->config, "tokens_per_second", NULL);
        out->encoder.tokens_per_second = said != NULL ? (int32_t)json_integer_value(said) : 4;
    }
    CS_TRY(cs_video_processor_read(&doc, NULL, &out->video, err));
    CS_TRY(cs_video_check(&out->video, &out->processor, &out->encoder, err));
    const int32_t frames = cs_video_most_frames(&out->video);
    if (frames == 0)
        return cs_fail(err, CS_INVALID,
                       "%s takes all frames of a video: say how many at most, as num_frames or fps "
                       "at the encoder's `video`",
                       out->video.name);
    CS_TRY(cs_video_bounds_of(&out->video, &out->encoder, frames, &most, err));
    *b = (struct cs_media_bounds){.items = larger(b->items, most.items),
                                  .rows = larger(b->rows, most.rows),
                                  .item_rows = larger(b->item_rows, most.item_rows),
                                  .item_bytes = larger(b->item_bytes, most.item_bytes),
                                  .placeholders = larger(b->placeholders, most.placeholders)};
    out->has_video = true;
    return CS_OK;
}

static struct cs_video_info info_of(const struct cs_medium *m)
{
    return (struct cs_video_info){.width = m->width,
                                  .height = m->height,
                                  .n_frames = m->n_frames,
                                  .fps = m->fps,
                                  .is_list = m->is_list};
}

static enum cs_status probe(const struct cs_dataset *set, const struct cs_media_file *file,
                            struct cs_medium *out, struct cs_err *err)
{
    struct cs_video_info info = {0};
    struct video v;

    CS_TRY(open_video(set, file, &v, err));
    const enum cs_status status = cs_clip_probe(&v.source, &info, err);
    close_video(&v);
    *out = (struct cs_medium){.kind = CS_ITEM_VIDEO,
                              .width = info.width,
                              .height = info.height,
                              .n_frames = (int32_t)info.n_frames,
                              .fps = info.fps,
                              .is_list = info.is_list};
    return status;
}

static enum cs_status find_size(const struct cs_dataset *set, struct cs_sizes *sizes,
                                const struct cs_media_file *file, struct cs_medium *out,
                                struct cs_err *err)
{
    char key[CS_PATH_CAP];

    CS_TRY(cs_media_file_key(set, file, key, err));
    if (cs_sizes_get(sizes, key, out))
        return CS_OK;
    CS_TRY(probe(set, file, out, err));
    cs_sizes_put(sizes, key, out);
    return CS_OK;
}

enum cs_status cs_reader_lay_out_video(const struct cs_reader *r, const struct cs_dataset *set,
                                       struct cs_sizes *sizes, struct cs_arena *arena,
                                       struct cs_sample_media *media, struct cs_err *err)
{
    struct cs_video_frames frames;

    if (!r->has_video)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s: a video; module %s of the job reads pictures only: say `video` at the "
                       "encoder",
                       media->file->name, r->name);
    CS_TRY(find_size(set, sizes, media->file, &media->medium, err));
    const struct cs_video_info info = info_of(&media->medium);
    enum cs_status status = cs_video_frames_take(&r->video, &info, arena, &frames, err);
    if (status == CS_OK)
        status = cs_video_layout_make(&r->video, &r->encoder, &info, &frames, arena, &media->layout,
                                      err);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "%s", media->file->name);
}

/* Where frames go. */
struct into {
    const struct cs_reader *reader;
    const struct cs_media_layout *layout;
    uint8_t **item;
};

static enum cs_status put(void *user, int32_t k, const uint8_t *rgb, int32_t width, int32_t height,
                          struct cs_err *err)
{
    const struct into *to = user;

    return cs_video_pixels(&to->reader->video, to->layout, k, rgb, width, height, to->item, err);
}

enum cs_status cs_reader_load_video(const struct cs_reader *r, const struct cs_dataset *set,
                                    const struct cs_sample_media *media, uint8_t *data,
                                    struct cs_err *err)
{
    const struct cs_media_layout *layout = &media->layout;
    const struct cs_video_info info = info_of(&media->medium);
    struct cs_arena *arena = cs_arena_new(0);
    struct into to = {r, layout, CS_NEW_ARRAY(arena, uint8_t *, layout->n_items + 1)};
    struct cs_video_frames frames;
    struct video v;

    for (int32_t i = 0; i < layout->n_items; i++)
        to.item[i] = i == 0 ? data : to.item[i - 1] + layout->items[i - 1].shape.bytes;
    enum cs_status status = cs_video_frames_take(&r->video, &info, arena, &frames, err);
    if (status == CS_OK)
        status = open_video(set, media->file, &v, err);
    if (status == CS_OK) {
        status = cs_clip_read(&v.source, &info, &frames, put, &to, err);
        close_video(&v);
    }
    cs_arena_free(arena);
    return status;
}
