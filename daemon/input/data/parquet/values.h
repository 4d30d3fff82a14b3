/* Values of one page, however they were encoded: each a piece of bytes. Private to parquet/. */
#ifndef CS_INPUT_DATA_PARQUET_VALUES_H
#define CS_INPUT_DATA_PARQUET_VALUES_H

#include "input/data/parquet/meta.h"

enum { CS_PQ_VALUES_MAX = 1 << 24 }; /* of a page */

/* Value i is len[i] bytes from base + at[i] on: numbers as they are stored, booleans one byte. */
struct cs_pq_values {
    size_t n;
    const uint8_t *base;
    uint32_t *at, *len; /* (n) malloc'ed */
    uint8_t *own;       /* what base points into, where it is not the page; malloc'ed */
};

/* n values of a leaf in these bytes, which must stay. dictionary: of the column chunk, NULL: it has none.
 * CS_CORRUPT, CS_UNSUPPORTED (an encoding), CS_NO_MEMORY. */
enum cs_status cs_pq_values_read(const struct cs_pq_node *leaf, int encoding, const uint8_t *bytes,
                                 size_t n_bytes, size_t n, const struct cs_pq_values *dictionary,
                                 struct cs_pq_values *out, struct cs_err *err) CS_NODISCARD;
void cs_pq_values_free(struct cs_pq_values *values);

/* hybrid.c: zero bits and bytes, repeated numbers and packed ones in turn. false: broken. out (count) */
bool cs_pq_hybrid(const uint8_t *bytes, size_t n, int width, uint32_t *out, size_t count);
/* How many bits numbers up to max take. */
int cs_pq_width(int max);
/* delta.c: numbers as differences; *used: how many bytes they take. */
bool cs_pq_delta(const uint8_t *bytes, size_t n, int64_t *out, size_t count, size_t *used);

#endif
