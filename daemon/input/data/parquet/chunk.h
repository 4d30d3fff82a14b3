/* The pages of a column of a row group: found once, read when a row of them is wanted. Private to
 * parquet/. */
#ifndef CS_INPUT_DATA_PARQUET_CHUNK_H
#define CS_INPUT_DATA_PARQUET_CHUNK_H

#include "input/data/parquet/page.h"

/* The file that is read, and what is kept of it. Thread-safe. */
struct cs_pq_pages;

struct cs_pq_pages *cs_pq_pages_new(int fd, const char *path, const struct cs_pq_meta *meta,
                                    size_t max_bytes); /* NULL: no memory */
void cs_pq_pages_free(struct cs_pq_pages *pages);      /* accepts NULL */

/* A page that nobody takes away until it is given back. */
struct cs_pq_held;
const struct cs_pq_page *cs_pq_held_page(const struct cs_pq_held *held);
void cs_pq_release(struct cs_pq_pages *pages, struct cs_pq_held *held); /* accepts NULL */

/* Where a row begins: the page, and its entry and value there. */
struct cs_pq_place {
    int64_t page;
    size_t entry, value;
};

/* row: within the group. *out is held. */
enum cs_status cs_pq_find(struct cs_pq_pages *pages, int64_t group, int column, int64_t row,
                          struct cs_pq_place *place, struct cs_pq_held **out,
                          struct cs_err *err) CS_NODISCARD;
/* The page behind; *out NULL: there is none. */
enum cs_status cs_pq_follow(struct cs_pq_pages *pages, int64_t group, int column, int64_t page,
                            struct cs_pq_held **out, struct cs_err *err) CS_NODISCARD;

#endif
