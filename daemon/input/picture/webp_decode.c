/* WebP by libwebp: a picture, or the first frame of an animation on an empty canvas, as Pillow shows
 * it. */
#include "input/picture/decoders.h"

#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "input/picture/exif.h"

static enum cs_status broken(const struct cs_picture_file *file, const char *why,
                             struct cs_err *err)
{
    return cs_fail(err, CS_CORRUPT, "%s: broken WebP: %s", file->name, why);
}

/* Exif counts before XMP. */
static enum cs_status find_orientation(const WebPDemuxer *demuxer, int *out, struct cs_err *err)
{
    WebPChunkIterator chunk;
    enum cs_status status = CS_OK;

    *out = CS_ORIENTATION_NONE;
    if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) {
        status = cs_exif_orientation(chunk.chunk.bytes, chunk.chunk.size, out, err);
        WebPDemuxReleaseChunkIterator(&chunk);
    }
    if (status == CS_OK && *out == CS_ORIENTATION_NONE &&
        WebPDemuxGetChunk(demuxer, "XMP ", 1, &chunk)) {
        *out = cs_xmp_orientation((const char *)chunk.chunk.bytes, chunk.chunk.size);
        WebPDemuxReleaseChunkIterator(&chunk);
    }
    return status;
}

static enum cs_status read_head(const struct cs_picture_file *file, const WebPDemuxer *demuxer,
                                struct cs_picture_head *head, struct cs_err *err)
{
    const uint32_t width = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH);
    const uint32_t height = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);

    CS_TRY(cs_picture_check_size(file, width, height, err));
    *head = (struct cs_picture_head){.width = (int32_t)width, .height = (int32_t)height};
    enum cs_status status = find_orientation(demuxer, &head->orientation, err);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "%s", file->name);
}

static enum cs_status read_frame(const struct cs_picture_file *file, const WebPIterator *frame,
                                 const struct cs_picture_head *head, uint8_t *rgb,
                                 struct cs_err *err)
{
    const int64_t line = (int64_t)head->width * CS_IMAGE_CHANNELS;
    uint8_t *first = rgb + frame->y_offset * line + (int64_t)frame->x_offset * CS_IMAGE_CHANNELS;
    const int64_t room = line * head->height - (first - rgb);
    int width = 0, height = 0;

    if (frame->x_offset < 0 || frame->y_offset < 0 ||
        frame->x_offset + frame->width > head->width ||
        frame->y_offset + frame->height > head->height)
        return broken(file, "its first frame lies outside of it", err);
    if (!WebPGetInfo(frame->fragment.bytes, frame->fragment.size, &width, &height) ||
        width != frame->width || height != frame->height)
        return broken(file, "its first frame is not of the size that is said", err);
    if (WebPDecodeRGBInto(frame->fragment.bytes, frame->fragment.size, first, (size_t)room,
                          (int)line) == NULL)
        return broken(file, frame->complete ? "its pixels cannot be read" : "it ends too early",
                      err);
    return CS_OK;
}

static enum cs_status read_pixels(const struct cs_picture_file *file, const WebPDemuxer *demuxer,
                                  const struct cs_picture_head *head, struct cs_image *out,
                                  struct cs_err *err)
{
    WebPIterator frame;

    if (!WebPDemuxGetFrame(demuxer, 1, &frame))
        return broken(file, "it has no frame", err);
    out->rgb = calloc((size_t)head->width * (size_t)head->height, CS_IMAGE_CHANNELS);
    enum cs_status status =
        out->rgb != NULL ? read_frame(file, &frame, head, out->rgb, err)
                         : cs_fail(err, CS_NO_MEMORY, "%s: no memory for the pixels", file->name);
    WebPDemuxReleaseIterator(&frame);
    return status;
}

/* out NULL: the head alone */
static enum cs_status run(const struct cs_picture_file *file, struct cs_picture_head *head,
                          struct cs_image *out, struct cs_err *err)
{
    const WebPData data = {file->bytes, file->n};
    WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
    WebPDemuxer *demuxer = WebPDemuxPartial(&data, &state);
    enum cs_status status = CS_OK;

    if (demuxer == NULL || state == WEBP_DEMUX_PARSE_ERROR || state != WEBP_DEMUX_DONE)
        status = broken(file,
                        state == WEBP_DEMUX_PARSE_ERROR ? "it cannot be parsed"
                                                        : "the file ends too early",
                        err);
    if (status == CS_OK)
        status = read_head(file, demuxer, head, err);
    if (status == CS_OK && out != NULL)
        status = read_pixels(file, demuxer, head, out, err);
    WebPDemuxDelete(demuxer);
    return status;
}

enum cs_status cs_webp_decode(const struct cs_picture_file *file, struct cs_picture_head *head,
                              struct cs_image *out, struct cs_err *err)
{
    return run(file, head, out, err);
}

enum cs_status cs_webp_probe(const struct cs_picture_file *file, struct cs_picture_head *head,
                             struct cs_err *err)
{
    return run(file, head, NULL, err);
}
