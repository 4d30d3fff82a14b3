/* The files of one sample in a tar archive, by the ends of their names: .json is the sample itself, .txt what is said of
 * it, the others are its media. Private to the files shard*.c. */
#ifndef CS_INPUT_DATA_TAR_SAMPLE_H
#define CS_INPUT_DATA_TAR_SAMPLE_H

#include "input/data/shard/shard_kinds.h"
#include "input/data/shard/tar.h"

/* members: (n), n > 0. out->bytes is the caller's to free, also after a failure. */
enum cs_status cs_tar_sample_read(const struct cs_shard_file *file,
                                  const struct cs_tar_member *members, size_t n,
                                  struct cs_shard_item *out, struct cs_err *err) CS_NODISCARD;

#endif
