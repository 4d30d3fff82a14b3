/* One file of a data set: JSON, Parquet or a tar of files; samples by number. */
#ifndef CS_INPUT_DATA_SHARD_H
#define CS_INPUT_DATA_SHARD_H

#include "input/data/record/record.h"

struct cs_shard;

/* What kind of file it is is told by its first bytes. max_items: as of cs_index_make. */
enum cs_status cs_shard_open(const char *path, uint64_t max_items, struct cs_shard **out,
                             struct cs_err *err) CS_NODISCARD;
void cs_shard_close(struct cs_shard *shard); /* accepts NULL */
uint64_t cs_shard_count(const struct cs_shard *shard);
/* Of its bytes, or of what says where they lie (Parquet's footer, the headers of a tar); "": not all of it was
 * looked at. */
const char *cs_shard_hash(const struct cs_shard *shard);
/* May be called from several threads. findings: as of cs_record_read. */
enum cs_status cs_shard_read(const struct cs_shard *shard, uint64_t index,
                             const struct cs_record_keys *keys, struct cs_findings *findings,
                             struct cs_record **out, struct cs_err *err) CS_NODISCARD;

#endif
