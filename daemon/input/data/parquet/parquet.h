/* Parquet files: rows by number, as JSON, read page by page.
 *
 * Columns may be plain, lists and structs, one inside of another; pages of both kinds, plain, with
 * dictionaries or as differences; packed by nothing, snappy, gzip or zstd. What else there is (encryption,
 * other codecs, split bytes, columns in other files) is CS_UNSUPPORTED by name. The file is never whole in
 * memory: a page is what is read at once, and some are kept. Nothing in the file is trusted. Thread-safe but
 * for opening and closing.
 *
 * Source: the format's own description (apache/parquet-format, thrift and encodings). */
#ifndef CS_INPUT_DATA_PARQUET_H
#define CS_INPUT_DATA_PARQUET_H

#include "input/data/parquet/row.h"

struct cs_parquet;

/* fd: stays open and is the caller's; path: for messages, must outlive the file. */
enum cs_status cs_parquet_open(int fd, const char *path, struct cs_parquet **out,
                               struct cs_err *err) CS_NODISCARD;
void cs_parquet_close(struct cs_parquet *file); /* accepts NULL */
uint64_t cs_parquet_count(const struct cs_parquet *file);
/* xxh3 of the footer, which says where every page lies and how long it is, and of the file's size. */
const char *cs_parquet_hash(const struct cs_parquet *file);
/* row below the count. bytes: see row.h; the caller frees it in any case. */
enum cs_status cs_parquet_row(struct cs_parquet *file, uint64_t row, json_t **out,
                              struct cs_pq_bytes *bytes, struct cs_err *err) CS_NODISCARD;

#endif
