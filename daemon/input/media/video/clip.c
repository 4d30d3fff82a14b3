/* Tells files, folders and lists apart; reads the pictures of the latter two. */
#include "input/media/video/clip.h"

#include <string.h>
#include <sys/stat.h>

#include "input/media/video/clip_parts.h"
#include "input/picture/image.h"

static bool is_folder(const struct cs_clip_source *source)
{
    struct stat st;

    return source->pictures == NULL && source->bytes == NULL && stat(source->name, &st) == 0 &&
           S_ISDIR(st.st_mode);
}

static enum cs_status read_picture(const struct cs_clip_picture *p, int64_t max_pixels,
                                   struct cs_image *out, struct cs_err *err)
{
    if (p->bytes != NULL)
        return cs_image_decode(p->bytes, p->n_bytes, p->name, max_pixels, out, err);
    return cs_image_read(p->name, max_pixels, out, err);
}

static enum cs_status probe_list(const struct cs_clip_source *list, struct cs_video_info *out,
                                 struct cs_err *err)
{
    const struct cs_clip_picture *p = list->pictures;

    *out = (struct cs_video_info){.n_frames = list->n_pictures, .fps = list->fps, .is_list = true};
    if (list->n_pictures < 1)
        return cs_fail(err, CS_INVALID, "a video without frames");
    if (p->bytes != NULL)
        return cs_image_probe_bytes(p->bytes, p->n_bytes, p->name, list->max_pixels, &out->width,
                                    &out->height, err);
    return cs_image_probe(p->name, list->max_pixels, &out->width, &out->height, err);
}

static enum cs_status read_list(const struct cs_clip_source *list, const struct cs_video_info *info,
                                const struct cs_video_frames *frames, cs_clip_sink *sink,
                                void *user, struct cs_err *err)
{
    enum cs_status status = CS_OK;

    for (int32_t k = 0; k < frames->n && status == CS_OK; k++) {
        const int32_t i = frames->index[k];
        struct cs_image image = {0};
        if (i >= list->n_pictures)
            return cs_fail(err, CS_CORRUPT, "%s: the video has %d frames now, not %lld",
                           list->pictures[0].name, list->n_pictures, (long long)info->n_frames);
        CS_TRY(read_picture(&list->pictures[i], list->max_pixels, &image, err));
        if (image.width != info->width || image.height != info->height)
            status = cs_fail(
                err, CS_INVALID, "%s: %d x %d pixels, the first frame of the video has %d x %d",
                list->pictures[i].name, image.width, image.height, info->width, info->height);
        else
            status = sink(user, k, image.rgb, image.width, image.height, err);
        cs_image_free(&image);
    }
    return status;
}

static struct cs_clip_source list_of(const struct cs_clip_source *source,
                                     const struct cs_clip_folder *folder)
{
    struct cs_clip_source list = *source;

    list.pictures = folder->pictures;
    list.n_pictures = folder->n;
    return list;
}

enum cs_status cs_clip_probe(const struct cs_clip_source *source, struct cs_video_info *out,
                             struct cs_err *err)
{
    struct cs_clip_folder folder;
    struct cs_clip_source list;
    enum cs_status status = CS_OK;

    if (source->pictures != NULL)
        return probe_list(source, out, err);
    if (!is_folder(source))
        return cs_clip_file_probe(source, out, err);
    CS_TRY(cs_clip_folder_list(source->name, &folder, err));
    list = list_of(source, &folder);
    status = probe_list(&list, out, err);
    cs_clip_folder_free(&folder);
    return status;
}

enum cs_status cs_clip_read(const struct cs_clip_source *source, const struct cs_video_info *info,
                            const struct cs_video_frames *frames, cs_clip_sink *sink, void *user,
                            struct cs_err *err)
{
    struct cs_clip_folder folder;
    struct cs_clip_source list;
    enum cs_status status = CS_OK;

    if (source->pictures != NULL)
        return read_list(source, info, frames, sink, user, err);
    if (!is_folder(source))
        return cs_clip_file_read(source, info, frames, sink, user, err);
    CS_TRY(cs_clip_folder_list(source->name, &folder, err));
    list = list_of(source, &folder);
    status = read_list(&list, info, frames, sink, user, err);
    cs_clip_folder_free(&folder);
    return status;
}
