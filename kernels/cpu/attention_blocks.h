/* Rows of queries of an attention mask cut into blocks, and which keys a block sees (attention.c).
 *
 * Where keys are others than the queries, or documents do not ascend, a document is every run of its rows, and its keys
 * lie in as many runs: right in any order, and as fast where runs are long. */
#ifndef CS_KERNELS_CPU_ATTENTION_BLOCKS_H
#define CS_KERNELS_CPU_ATTENTION_BLOCKS_H

#include <stddef.h>

#include "core/mask/plan.h"

enum {
    CS_QUERY_BLOCK = 64,
    CS_MOST_KEY_RUNS = 8 /* more are taken as one, with what lies between them */
};

enum cs_segment_mask {
    CS_SEGMENT_FULL,   /* every row sees every row */
    CS_SEGMENT_CAUSAL, /* row i sees the rows up to i */
    CS_SEGMENT_RULE,   /* ask cs_mask_allows, once for keys that are alike */
};

/* Keys that follow each other. */
struct cs_key_run {
    int32_t k0, n; /* absolute row */
    int32_t at;    /* column of matrices of a block; of a span its keys follow each other */
};

/* One block of query rows with the runs of keys that it sees; rows are absolute. */
struct cs_query_block {
    enum cs_segment_mask mask;
    int32_t q0, q1;
    struct cs_key_run run[CS_MOST_KEY_RUNS];
    int32_t n_runs, n;    /* keys of all of them: the columns */
    const uint8_t *allow; /* CS_SEGMENT_RULE: (q1 - q0, n), rows allow_stride apart */
    int32_t allow_stride;
    uint8_t sees[CS_QUERY_BLOCK]; /* does the row see anything */
};

/* Rows of queries and the keys that they can see at most. */
struct cs_query_span {
    int32_t q0, q1;
    struct cs_key_run run[CS_MOST_KEY_RUNS];
    int32_t n_runs, n;
    enum cs_segment_mask mask;
    int32_t next; /* segment, cs_query_span_next's */
};

static inline const struct cs_mask_plan *cs_mask_keys(const struct cs_mask_plan *mask)
{
    return mask->keys != NULL ? mask->keys : mask;
}

/* Is every document one segment, and does it hold all that its rows can see? */
bool cs_query_spans_in_order(const struct cs_mask_plan *mask);
/* keys of the longest span */
int32_t cs_query_span_longest(const struct cs_mask_plan *mask);
/* The rows behind those of the span, at first {0}; false: there are none. like (longest span): for cs_query_block. */
bool cs_query_span_next(const struct cs_mask_plan *plan, bool in_order, int32_t *like,
                        struct cs_query_span *span);
/* The rows of the span from q0 on. allow (CS_QUERY_BLOCK, longest span): what the block's points at. */
struct cs_query_block cs_query_block(const struct cs_mask_plan *plan,
                                     const struct cs_query_span *span, int32_t q0,
                                     const int32_t *like, uint8_t *allow);

#endif
