/* Pages: heads, levels and values. Private to parquet/. */
#ifndef CS_INPUT_DATA_PARQUET_PAGE_H
#define CS_INPUT_DATA_PARQUET_PAGE_H

#include "input/data/parquet/values.h"

enum { CS_PQ_HEAD_MAX = 1 << 20, CS_PQ_PAGE_MAX = 1 << 30 };

enum cs_pq_page_kind { CS_PQ_DATA = 0, CS_PQ_INDEX = 1, CS_PQ_DICTIONARY = 2, CS_PQ_DATA_2 = 3 };

struct cs_pq_head {
    enum cs_pq_page_kind kind;
    int64_t n_bytes, n_packed;    /* unpacked, and as it lies in the file */
    int64_t n_values;             /* and nulls, and empty lists */
    int64_t n_rows;               /* -1: it does not say */
    int64_t rep_bytes, def_bytes; /* DATA_2 */
    int encoding;
    bool is_packed;
};

/* *used: bytes that the head takes. false: broken, or it does not end in these bytes. */
bool cs_pq_head_read(const uint8_t *bytes, size_t n, struct cs_pq_head *out, size_t *used);

/* Entry i is a value, a null or an empty list; its levels say which. values has those that are there. */
struct cs_pq_page {
    size_t n;
    uint8_t *rep, *def; /* (n) malloc'ed; NULL: all 0, all the leaf's max_def */
    struct cs_pq_values values;
    uint8_t *bytes; /* the unpacked page, malloc'ed */
    size_t held;    /* bytes of memory, for caches */
};

/* packed: (head->n_packed). CS_CORRUPT, CS_UNSUPPORTED, CS_LIMIT, CS_NO_MEMORY. */
enum cs_status cs_pq_page_read(const struct cs_pq_node *leaf, int codec,
                               const struct cs_pq_head *head, const uint8_t *packed,
                               const struct cs_pq_values *dictionary, struct cs_pq_page *out,
                               struct cs_err *err) CS_NODISCARD;
void cs_pq_page_free(struct cs_pq_page *page);

#endif
