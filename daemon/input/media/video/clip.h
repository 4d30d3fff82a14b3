/* Videos as they come: a file, a folder of pictures, a list of pictures. A probe tells size, number of frames and rate;
 * reading hands over the frames that are wanted, as RGB.
 *
 * Files are decoded with ffmpeg's libraries where the program was built with them and they are installed
 * (core/base/system/library.h); otherwise a file is refused by name and frames as pictures are what there is. What a file
 * may be is a list of containers, and nothing that a file names is opened. Frames are as the decoder gives them,
 * which is what PyAV hands to transformers: converted by swscale, not turned.
 *
 * Of a folder, pictures are frames in the order of their names, numbers by value ("f2.png" before "f10.png"). All
 * frames of a video must have one size. Thread-safe: no state. */
#ifndef CS_INPUT_MEDIA_VIDEO_CLIP_H
#define CS_INPUT_MEDIA_VIDEO_CLIP_H

#include "input/media/video/frames.h"

/* A frame: a file, or bytes in memory. */
struct cs_clip_picture {
    const char *name; /* the path where bytes is NULL */
    const void *bytes;
    size_t n_bytes;
};

struct cs_clip_source {
    const char
        *name; /* path of a file or folder; only for messages where bytes or pictures are given */
    const void *bytes; /* a file that lies in memory, or NULL */
    size_t n_bytes;
    const struct cs_clip_picture *pictures; /* a list, or NULL */
    int32_t n_pictures;
    int64_t max_pixels; /* of a frame, 0: CS_IMAGE_MAX_PIXELS */
    double fps;         /* of pictures, as the sample says; 0: not known */
};

/* CS_CORRUPT, CS_LIMIT, CS_UNSUPPORTED (a container or codec, or no library) name the file. The frames of a file
 * are counted, not decoded. */
enum cs_status cs_clip_probe(const struct cs_clip_source *source, struct cs_video_info *out,
                             struct cs_err *err) CS_NODISCARD;

/* The pictures of a folder, with their paths. */
struct cs_clip_folder {
    struct cs_clip_picture *pictures;
    int32_t n;
};

enum cs_status cs_clip_folder_list(const char *path, struct cs_clip_folder *out,
                                   struct cs_err *err) CS_NODISCARD;
void cs_clip_folder_free(struct cs_clip_folder *folder);

/* k: which of the frames that are taken; rgb (height, width, 3) is gone after the call */
typedef enum cs_status cs_clip_sink(void *user, int32_t k, const uint8_t *rgb, int32_t width,
                                    int32_t height, struct cs_err *err);

/* All frames that are taken, in order; one that is taken twice comes twice. info: of the probe; a video that has
 * another size or fewer frames now is CS_CORRUPT. */
enum cs_status cs_clip_read(const struct cs_clip_source *source, const struct cs_video_info *info,
                            const struct cs_video_frames *frames, cs_clip_sink *sink, void *user,
                            struct cs_err *err) CS_NODISCARD;

/* Was the program built with ffmpeg's headers? */
bool cs_clip_has_files(void);

#endif
