/* Ends of PNG files that were cut: a copy, a download or a full disk often loses the last bytes only,
 * after the pixels. */
#ifndef CS_INPUT_PICTURE_PNG_MEND_H
#define CS_INPUT_PICTURE_PNG_MEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

/* *is_mended true when the file ends before its IEND, and *out is then a copy with an end: a cut IDAT is as long
 * as what is there, a missing checksum is computed. Whether the pixels are whole is for the decoder to
 * find out. False: the file has its end, or ends inside a chunk that cannot be shortened. */
enum cs_status cs_png_mend(const uint8_t *bytes, size_t n_bytes, struct cs_buf *out,
                           bool *is_mended, struct cs_err *err) CS_NODISCARD;

/* A copy of the file without its pixels: all its other chunks, those behind the pixels too, up to an empty
 * IDAT. Chunks end where one of them is cut. */
enum cs_status cs_png_strip(const uint8_t *bytes, size_t n_bytes, struct cs_buf *out,
                            struct cs_err *err) CS_NODISCARD;

#endif
