/* The bytes of a medium, wherever they lie (struct cs_media_file of chat/conversation.h). */
#ifndef CS_INPUT_DATA_MEDIA_FILE_H
#define CS_INPUT_DATA_MEDIA_FILE_H

#include "core/base/buf.h"
#include "input/data/dataset.h"

/* Zero-initialise; free with cs_media_bytes_free. */
struct cs_media_bytes {
    const void *data;
    size_t n;
    struct cs_buf held; /* of those that were read */
};

/* Its path, the path of what holds it and the place there, or the hash of its bytes: what a cache may know
 * it by. CS_NOT_FOUND and CS_REFUSED as of cs_dataset_resolve. */
enum cs_status cs_media_file_key(const struct cs_dataset *set, const struct cs_media_file *file,
                                 char out[CS_PATH_CAP], struct cs_err *err) CS_NODISCARD;
/* What tells its bytes apart also later and from other files: place, size and when it was changed last, or the hash
 * of bytes in memory. "": not known, of a list or folder of frames. */
enum cs_status cs_media_file_stamp(const struct cs_dataset *set, const struct cs_media_file *file,
                                   char out[CS_PATH_CAP], struct cs_err *err) CS_NODISCARD;
/* At most CS_IMAGE_MAX_FILE_BYTES, else CS_LIMIT. */
enum cs_status cs_media_bytes_read(const struct cs_dataset *set, const struct cs_media_file *file,
                                   struct cs_media_bytes *out, struct cs_err *err) CS_NODISCARD;
/* A file of its own stays where it is: *path gets its real path. Of any other the bytes are read into `out`, and path
 * is "". */
enum cs_status cs_media_file_locate(const struct cs_dataset *set, const struct cs_media_file *file,
                                    char path[CS_PATH_CAP], struct cs_media_bytes *out,
                                    struct cs_err *err) CS_NODISCARD;
void cs_media_bytes_free(struct cs_media_bytes *bytes);
/* With its texts and bytes in this arena. */
struct cs_media_file cs_media_file_copy(const struct cs_media_file *file, struct cs_arena *arena);

#endif
