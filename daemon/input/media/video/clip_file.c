/* Video files: counted packet by packet, decoded from the beginning to the last frame that is wanted. */
#include <stdlib.h>

#include "input/media/video/clip_parts.h"
#include "input/media/video/ffmpeg.h"
#include "input/picture/image.h"

enum { FRAMES_MAX = 10 * 1000 * 1000 };

bool cs_clip_has_files(void)
{
    return true;
}

static enum cs_status count_frames(struct cs_ffmpeg_input *in, int64_t *out, struct cs_err *err)
{
    AVPacket *packet = in->lib->av_packet_alloc();
    enum cs_status status = CS_OK;
    bool is_end = false;

    *out = 0;
    if (packet == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory for its frames", in->source.name);
    while (status == CS_OK && !is_end && *out <= FRAMES_MAX) {
        status = cs_ffmpeg_next(in, packet, &is_end, err);
        if (status == CS_OK && !is_end)
            *out += (packet->flags & AV_PKT_FLAG_DISCARD) == 0;
        in->lib->av_packet_unref(packet);
    }
    in->lib->av_packet_free(&packet);
    if (status == CS_OK && *out > FRAMES_MAX)
        return cs_fail(err, CS_LIMIT, "%s: more than %d frames", in->source.name, FRAMES_MAX);
    if (status == CS_OK && *out == 0)
        return cs_fail(err, CS_INVALID, "%s: a video without frames", in->source.name);
    return status;
}

static int64_t limit_of(const struct cs_clip_source *source)
{
    return source->max_pixels > 0 ? source->max_pixels : CS_IMAGE_MAX_PIXELS;
}

static enum cs_status check_size(const struct cs_clip_source *source, int width, int height,
                                 struct cs_err *err)
{
    if (width < 1 || height < 1)
        return cs_fail(err, CS_CORRUPT, "%s: frames of %d x %d pixels", source->name, width,
                       height);
    if ((int64_t)width * height > limit_of(source))
        return cs_fail(err, CS_LIMIT,
                       "%s: frames of %d x %d pixels are over the limit of %lld, "
                       "max_picture_pixels of the data",
                       source->name, width, height, (long long)limit_of(source));
    return CS_OK;
}

enum cs_status cs_clip_file_probe(const struct cs_clip_source *source, struct cs_video_info *out,
                                  struct cs_err *err)
{
    struct cs_ffmpeg lib;
    struct cs_ffmpeg_input in;

    *out = (struct cs_video_info){0};
    CS_TRY(cs_ffmpeg_open(&lib, err));
    CS_TRY(cs_ffmpeg_input_open(&lib, source, &in, err));
    const AVCodecParameters *codec = in.stream->codecpar;
    const AVRational rate = in.stream->avg_frame_rate;
    enum cs_status status = check_size(source, codec->width, codec->height, err);
    if (status == CS_OK)
        status = count_frames(&in, &out->n_frames, err);
    out->width = codec->width;
    out->height = codec->height;
    out->fps = rate.num > 0 && rate.den > 0 ? (double)rate.num / rate.den : 0;
    cs_ffmpeg_input_close(&in);
    return status;
}

/* A file that is being read. */
struct reading {
    const struct cs_ffmpeg *lib;
    struct cs_ffmpeg_input in;
    const struct cs_video_info *info;
    const struct cs_video_frames *frames;
    cs_clip_sink *sink;
    void *user;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *scale;
    enum AVPixelFormat scale_from;
    uint8_t *rgb;
    int64_t n_decoded;
    int32_t next; /* of the frames that are taken */
};

static enum cs_status open_decoder(struct reading *r, struct cs_err *err)
{
    const AVCodecParameters *p = r->in.stream->codecpar;
    const AVCodec *codec = NULL;

    (void)r->lib->av_find_best_stream(r->in.format, AVMEDIA_TYPE_VIDEO, r->in.stream->index, -1,
                                      &codec, 0);
    if (codec == NULL)
        return cs_fail(err, CS_UNSUPPORTED, "%s: video of %s, for which ffmpeg has no decoder here",
                       r->in.source.name, r->lib->avcodec_get_name(p->codec_id));
    r->decoder = r->lib->avcodec_alloc_context3(codec);
    r->packet = r->lib->av_packet_alloc();
    r->frame = r->lib->av_frame_alloc();
    r->rgb = malloc((size_t)r->info->width * (size_t)r->info->height * 3);
    if (r->decoder == NULL || r->packet == NULL || r->frame == NULL || r->rgb == NULL ||
        r->lib->avcodec_parameters_to_context(r->decoder, p) < 0)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory for frames of %d x %d pixels",
                       r->in.source.name, r->info->width, r->info->height);
    r->decoder->thread_count = 1; /* whoever reads many files has threads of its own */
    r->decoder->max_pixels = limit_of(&r->in.source);
    r->decoder->pkt_timebase = r->in.stream->time_base;
    if (r->lib->avcodec_open2(r->decoder, codec, NULL) < 0)
        return cs_fail(err, CS_UNSUPPORTED, "%s: the decoder of %s does not take this video",
                       r->in.source.name, codec->name);
    return CS_OK;
}

/* Frames in RGB, by the matrix and the range that the frame says. */
static enum cs_status convert(struct reading *r, struct cs_err *err)
{
    const AVFrame *f = r->frame;
    uint8_t *const to[4] = {r->rgb};
    const int stride[4] = {f->width * 3};

    if (f->width != r->info->width || f->height != r->info->height)
        return cs_fail(err, CS_CORRUPT, "%s: frame %lld has %d x %d pixels, the video %d x %d",
                       r->in.source.name, (long long)r->n_decoded, f->width, f->height,
                       r->info->width, r->info->height);
    if (r->scale == NULL || r->scale_from != f->format) {
        r->lib->sws_freeContext(r->scale);
        r->scale = r->lib->sws_getContext(f->width, f->height, f->format, f->width, f->height,
                                          AV_PIX_FMT_RGB24, SWS_BILINEAR, NULL, NULL, NULL);
        r->scale_from = f->format;
        if (r->scale == NULL)
            return cs_fail(err, CS_UNSUPPORTED, "%s: its colours (format %d) cannot be made RGB",
                           r->in.source.name, f->format);
        (void)r->lib->sws_setColorspaceDetails(r->scale, r->lib->sws_getCoefficients(f->colorspace),
                                               f->color_range == AVCOL_RANGE_JPEG,
                                               r->lib->sws_getCoefficients(SWS_CS_DEFAULT), 1, 0,
                                               1 << 16, 1 << 16);
    }
    if (r->lib->sws_scale(r->scale, (const uint8_t *const *)f->data, f->linesize, 0, f->height, to,
                          stride) != f->height)
        return cs_fail(err, CS_CORRUPT, "%s: frame %lld cannot be made RGB", r->in.source.name,
                       (long long)r->n_decoded);
    return CS_OK;
}

/* A decoded frame goes wherever it is taken. */
static enum cs_status give(struct reading *r, struct cs_err *err)
{
    if (r->next < r->frames->n && r->frames->index[r->next] == r->n_decoded)
        CS_TRY(convert(r, err));
    for (; r->next < r->frames->n && r->frames->index[r->next] == r->n_decoded; r->next++)
        CS_TRY(r->sink(r->user, r->next, r->rgb, r->info->width, r->info->height, err));
    r->n_decoded++;
    return CS_OK;
}

static enum cs_status drain(struct reading *r, struct cs_err *err)
{
    int code = 0;

    while (r->next < r->frames->n &&
           (code = r->lib->avcodec_receive_frame(r->decoder, r->frame)) >= 0)
        CS_TRY(give(r, err));
    if (code < 0 && code != AVERROR(EAGAIN) && code != AVERROR_EOF)
        return cs_fail(err, CS_CORRUPT, "%s: frame %lld cannot be decoded", r->in.source.name,
                       (long long)r->n_decoded);
    return CS_OK;
}

static enum cs_status decode(struct reading *r, struct cs_err *err)
{
    bool is_end = false;

    while (!is_end && r->next < r->frames->n) {
        CS_TRY(cs_ffmpeg_next(&r->in, r->packet, &is_end, err));
        const int code = r->lib->avcodec_send_packet(r->decoder, is_end ? NULL : r->packet);
        r->lib->av_packet_unref(r->packet);
        if (code < 0)
            return cs_fail(err, CS_CORRUPT, "%s: frame %lld cannot be decoded", r->in.source.name,
                           (long long)r->n_decoded);
        CS_TRY(drain(r, err));
    }
    if (r->next < r->frames->n)
        return cs_fail(err, CS_CORRUPT, "%s: %lld of %lld frames can be decoded: was it cut?",
                       r->in.source.name, (long long)r->n_decoded, (long long)r->info->n_frames);
    return CS_OK;
}

static void close_reading(struct reading *r)
{
    r->lib->sws_freeContext(r->scale);
    if (r->frame != NULL)
        r->lib->av_frame_free(&r->frame);
    if (r->packet != NULL)
        r->lib->av_packet_free(&r->packet);
    if (r->decoder != NULL)
        r->lib->avcodec_free_context(&r->decoder);
    cs_ffmpeg_input_close(&r->in);
    free(r->rgb);
}

enum cs_status cs_clip_file_read(const struct cs_clip_source *source,
                                 const struct cs_video_info *info,
                                 const struct cs_video_frames *frames, cs_clip_sink *sink,
                                 void *user, struct cs_err *err)
{
    struct cs_ffmpeg lib;
    struct reading r = {.lib = &lib, .info = info, .frames = frames, .sink = sink, .user = user};
    enum cs_status status = CS_OK;

    CS_TRY(cs_ffmpeg_open(&lib, err));
    CS_TRY(cs_ffmpeg_input_open(&lib, source, &r.in, err));
    status = check_size(source, info->width, info->height, err);
    if (status == CS_OK)
        status = open_decoder(&r, err);
    if (status == CS_OK)
        status = decode(&r, err);
    close_reading(&r);
    return status;
}
