/* The limit that every decoder keeps to. */
#include "input/picture/decoders.h"

enum cs_status cs_picture_check_size(const struct cs_picture_file *file, int64_t width,
                                     int64_t height, struct cs_err *err)
{
    if (width < 1 || height < 1)
        return cs_fail(err, CS_CORRUPT, "%s: a picture of %lld x %lld pixels", file->name,
                       (long long)width, (long long)height);
    return width <= file->max_pixels / height
               ? CS_OK
               : cs_fail(err, CS_LIMIT,
                         "%s: %lld x %lld pixels are over the limit of %lld, max_picture_pixels of "
                         "the data",
                         file->name, (long long)width, (long long)height,
                         (long long)file->max_pixels);
}
