/* The functions of ffmpeg's libraries that are used, and bytes they read through functions of ours. */
#ifndef CS_INPUT_MEDIA_VIDEO_FFMPEG_H
#define CS_INPUT_MEDIA_VIDEO_FFMPEG_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>

#include "input/media/video/clip.h"

/* clang-format off */
#define CS_AVFORMAT(X) X(avformat_alloc_context) X(avformat_open_input) X(avformat_find_stream_info) X(avformat_close_input) X(av_find_best_stream) X(av_read_frame) X(avio_alloc_context) X(avio_context_free)
#define CS_AVCODEC(X) X(avcodec_alloc_context3) X(avcodec_parameters_to_context) X(avcodec_open2) X(avcodec_send_packet) X(avcodec_receive_frame) X(avcodec_free_context) X(av_packet_alloc) X(av_packet_unref) X(av_packet_free) X(avcodec_get_name)
#define CS_AVUTIL(X) X(av_frame_alloc) X(av_frame_free) X(av_malloc) X(av_freep) X(av_dict_set) X(av_dict_free) X(av_log_set_level) X(av_strerror)
#define CS_SWSCALE(X) X(sws_getContext) X(sws_scale) X(sws_freeContext) X(sws_setColorspaceDetails) X(sws_getCoefficients)

/* clang-format on */

struct cs_ffmpeg {

#define X(f) __typeof__(f) *f;
    CS_AVFORMAT(X) CS_AVCODEC(X) CS_AVUTIL(X) CS_SWSCALE(X)
#undef X
};

enum cs_status cs_ffmpeg_open(struct cs_ffmpeg *out, struct cs_err *err) CS_NODISCARD;

/* A file or bytes in memory, as an input of a demuxer. */
struct cs_ffmpeg_input {
    const struct cs_ffmpeg *lib;
    struct cs_clip_source source;
    int fd; /* -1: bytes */
    int64_t at, n_bytes;
    struct cs_err failed; /* of reading */
    AVIOContext *io;
    AVFormatContext *format;
    AVStream *stream; /* the video's */
};

/* Opens the container and finds its video. */
enum cs_status cs_ffmpeg_input_open(const struct cs_ffmpeg *lib,
                                    const struct cs_clip_source *source,
                                    struct cs_ffmpeg_input *out, struct cs_err *err) CS_NODISCARD;
void cs_ffmpeg_input_close(struct cs_ffmpeg_input *input);
/* The video's next packet, the caller's to unref; *is_end: there is none. */
enum cs_status cs_ffmpeg_next(struct cs_ffmpeg_input *input, AVPacket *packet, bool *is_end,
                              struct cs_err *err) CS_NODISCARD;

#endif
