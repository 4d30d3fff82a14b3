/* Loads ffmpeg's libraries and opens containers with them, of a list of kinds, from our own reader only. */
#include "input/media/video/ffmpeg.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "core/base/system/library.h"

#define TEXT(x)            #x
#define FILE_NAME(name, v) "lib" name ".so." TEXT(v)
#define SYMBOL(f)          {#f, offsetof(struct cs_ffmpeg, f)},

static const struct cs_symbol format_symbols[] = {CS_AVFORMAT(SYMBOL)};
static const struct cs_symbol codec_symbols[] = {CS_AVCODEC(SYMBOL)};
static const struct cs_symbol util_symbols[] = {CS_AVUTIL(SYMBOL)};
static const struct cs_symbol scale_symbols[] = {CS_SWSCALE(SYMBOL)};

#define LIBRARY(name, v, package, symbols)                                                         \
    {                                                                                              \
        FILE_NAME(name, v), package, "video files", symbols, (int)CS_ARRAY_LEN(symbols)            \
    }

/* structs of these versions are compiled in */
static const struct cs_library libraries[] = {
    LIBRARY("avutil", LIBAVUTIL_VERSION_MAJOR, "libavutil57", util_symbols),
    LIBRARY("avcodec", LIBAVCODEC_VERSION_MAJOR, "libavcodec59", codec_symbols),
    LIBRARY("avformat", LIBAVFORMAT_VERSION_MAJOR, "libavformat59", format_symbols),
    LIBRARY("swscale", LIBSWSCALE_VERSION_MAJOR, "libswscale6", scale_symbols),
};

enum cs_status cs_ffmpeg_open(struct cs_ffmpeg *out, struct cs_err *err)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(libraries); i++)
        CS_TRY(cs_library_open(&libraries[i], out, err));
    out->av_log_set_level(AV_LOG_QUIET);
    return CS_OK;
}

/* Containers that hold their frames themselves: none that names other files. */
#define CONTAINERS                                                                                 \
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,ogg,asf,gif,m4v,h264,"    \
    "hevc"

enum { IO_BYTES = 65536, PROBE_BYTES = 5 * 1024 * 1024 };

static int read_next(void *user, uint8_t *to, int n)
{
    struct cs_ffmpeg_input *in = user;
    size_t got = 0;

    if (n <= 0 || in->at >= in->n_bytes)
        return AVERROR_EOF;
    if (n > in->n_bytes - in->at)
        n = (int)(in->n_bytes - in->at);
    if (in->fd < 0) {
        memcpy(to, (const char *)in->source.bytes + in->at, (size_t)n);
        got = (size_t)n;
    } else if (cs_read_at(in->fd, in->source.name, to, (size_t)n, (uint64_t)in->at, &got,
                          &in->failed) != CS_OK) {
        return AVERROR(EIO);
    }
    in->at += (int64_t)got;
    return got > 0 ? (int)got : AVERROR_EOF;
}

static int64_t seek_to(void *user, int64_t offset, int whence)
{
    struct cs_ffmpeg_input *in = user;

    if ((whence & AVSEEK_SIZE) != 0)
        return in->n_bytes;
    whence &= ~AVSEEK_FORCE;
    const int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? in->at : in->n_bytes;
    if (offset < -from || offset > in->n_bytes - from)
        return AVERROR(EINVAL);
    in->at = from + offset;
    return in->at;
}

static enum cs_status refuse(const struct cs_ffmpeg_input *in, const char *what, int code,
                             struct cs_err *err)
{
    char reason[AV_ERROR_MAX_STRING_SIZE] = "";

    if (in->failed.status != CS_OK)
        return cs_fail(err, in->failed.status, "%s", in->failed.text);
    (void)in->lib->av_strerror(code, reason, sizeof reason);
    return cs_fail(err, CS_CORRUPT, "%s: %s: %s", in->source.name, what, reason);
}

static enum cs_status open_container(struct cs_ffmpeg_input *in, struct cs_err *err)
{
    const struct cs_ffmpeg *lib = in->lib;
    AVDictionary *options = NULL;
    uint8_t *buffer = lib->av_malloc(IO_BYTES);
    int code = 0;

    in->format = lib->avformat_alloc_context();
    if (buffer != NULL)
        in->io = lib->avio_alloc_context(buffer, IO_BYTES, 0, in, read_next, NULL, seek_to);
    if (in->io == NULL)
        lib->av_freep(&buffer);
    if (in->format == NULL || in->io == NULL ||
        lib->av_dict_set(&options, "format_whitelist", CONTAINERS, 0) < 0 ||
        lib->av_dict_set(&options, "protocol_whitelist", "none", 0) < 0) {
        lib->av_dict_free(&options);
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory to open it", in->source.name);
    }
    in->format->pb = in->io;
    in->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    in->format->probesize = PROBE_BYTES;
    code = lib->avformat_open_input(&in->format, NULL, NULL, &options); /* frees it on failure */
    lib->av_dict_free(&options);
    if (code < 0)
        return refuse(in,
                      "no video file that is read (MP4, Matroska, WebM, AVI, MPEG, FLV, Ogg, "
                      "GIF)",
                      code, err);
    code = lib->avformat_find_stream_info(in->format, NULL);
    return code < 0 ? refuse(in, "the container is damaged", code, err) : CS_OK;
}

static enum cs_status find_video(struct cs_ffmpeg_input *in, struct cs_err *err)
{
    const int which = in->lib->av_find_best_stream(in->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);

    if (which < 0)
        return cs_fail(err, CS_INVALID, "%s: there is no video in it", in->source.name);
    in->stream = in->format->streams[which];
    for (unsigned i = 0; i < in->format->nb_streams; i++)
        if ((int)i != which)
            in->format->streams[i]->discard = AVDISCARD_ALL;
    return CS_OK;
}

enum cs_status cs_ffmpeg_input_open(const struct cs_ffmpeg *lib,
                                    const struct cs_clip_source *source,
                                    struct cs_ffmpeg_input *out, struct cs_err *err)
{
    uint64_t bytes = source->n_bytes;
    enum cs_status status = CS_OK;

    *out = (struct cs_ffmpeg_input){.lib = lib, .source = *source, .fd = -1};
    if (source->bytes == NULL)
        status = cs_open_regular(source->name, &out->fd, &bytes, err);
    out->n_bytes = (int64_t)bytes;
    if (status == CS_OK && bytes == 0)
        status = cs_fail(err, CS_CORRUPT, "%s: an empty file, no video", source->name);
    if (status == CS_OK)
        status = open_container(out, err);
    if (status == CS_OK)
        status = find_video(out, err);
    if (status != CS_OK)
        cs_ffmpeg_input_close(out);
    return status;
}

void cs_ffmpeg_input_close(struct cs_ffmpeg_input *in)
{
    if (in->format != NULL)
        in->lib->avformat_close_input(&in->format);
    if (in->io != NULL) {
        in->lib->av_freep(&in->io->buffer);
        in->lib->avio_context_free(&in->io);
    }
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
}

enum cs_status cs_ffmpeg_next(struct cs_ffmpeg_input *in, AVPacket *packet, bool *is_end,
                              struct cs_err *err)
{
    int code = 0;

    *is_end = false;
    while ((code = in->lib->av_read_frame(in->format, packet)) >= 0) {
        if (packet->stream_index == in->stream->index)
            return CS_OK;
        in->lib->av_packet_unref(packet);
    }
    *is_end = true;
    if (in->failed.status != CS_OK)
        return cs_fail(err, in->failed.status, "%s", in->failed.text);
    return code == AVERROR_EOF ? CS_OK : refuse(in, "damaged", code, err);
}
