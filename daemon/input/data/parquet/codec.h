/* Unpacks what a page was packed with. */
#ifndef CS_INPUT_DATA_PARQUET_CODEC_H
#define CS_INPUT_DATA_PARQUET_CODEC_H

#include <stddef.h>

#include "core/base/status.h"

/* Exactly n_out bytes must come. CS_UNSUPPORTED: another codec, or its library is not installed. Snappy and
 * zstd are opened when the first page needs them. */
enum cs_status cs_pq_unpack(int codec, const void *in, size_t n_in, void *out, size_t n_out,
                            struct cs_err *err) CS_NODISCARD;

#endif
