/* One row of a row group as JSON. Private to parquet/. */
#ifndef CS_INPUT_DATA_PARQUET_ROW_H
#define CS_INPUT_DATA_PARQUET_ROW_H

#include <jansson.h>

#include "input/data/parquet/chunk.h"

/* Bytes that are no text, in the order in which the row's JSON has their numbers. Zero-initialise. */
struct cs_pq_blob {
    const void *data;
    size_t n;
};

struct cs_pq_bytes {
    struct cs_pq_blob *items; /* (n) malloc'ed, copies */
    int n, cap;
};

void cs_pq_bytes_free(struct cs_pq_bytes *bytes);

/* row: within the group. Lists become arrays, structs objects, texts strings; other bytes {"bytes": number},
 * in a struct the number alone. */
enum cs_status cs_pq_row(struct cs_pq_pages *pages, const struct cs_pq_meta *meta, int64_t group,
                         int64_t row, json_t **out, struct cs_pq_bytes *bytes,
                         struct cs_err *err) CS_NODISCARD;

#endif
