/* What a Parquet file says of itself: its columns as a tree, its row groups, where their columns lie.
 * Private to parquet/. */
#ifndef CS_INPUT_DATA_PARQUET_META_H
#define CS_INPUT_DATA_PARQUET_META_H

#include "core/base/arena.h"
#include "core/base/status.h"
#include "input/data/parquet/thrift.h"

enum cs_pq_type {
    CS_PQ_BOOLEAN,
    CS_PQ_INT32,
    CS_PQ_INT64,
    CS_PQ_INT96,
    CS_PQ_FLOAT,
    CS_PQ_DOUBLE,
    CS_PQ_BYTES,
    CS_PQ_FIXED
};

enum cs_pq_repetition { CS_PQ_REQUIRED, CS_PQ_OPTIONAL, CS_PQ_REPEATED };

/* What bytes of a leaf are. */
enum cs_pq_meaning { CS_PQ_PLAIN, CS_PQ_TEXT };

struct cs_pq_node {
    const char *name;
    enum cs_pq_repetition repetition;
    bool is_list; /* a group that holds one repeated group: a list */
    int max_def, max_rep, depth;
    int n_children;
    struct cs_pq_node *child; /* first; next: its sibling */
    struct cs_pq_node *next;
    /* leaves */
    int leaf; /* index of the column, -1: a group */
    enum cs_pq_type type;
    enum cs_pq_meaning meaning;
    int type_bytes; /* FIXED */
};

/* One column of one row group. */
struct cs_pq_chunk {
    int codec;
    int64_t n_values, offset, n_bytes; /* of its pages, from the first on */
};

struct cs_pq_group {
    int64_t first_row, n_rows;
    struct cs_pq_chunk *chunks; /* (n_leaves) */
};

struct cs_pq_meta {
    struct cs_pq_node *root;
    struct cs_pq_node **leaves;
    int n_leaves;
    struct cs_pq_group *groups;
    int64_t n_groups, n_rows;
};

/* bytes: the footer; file_bytes: of the whole file. CS_CORRUPT, CS_UNSUPPORTED. */
enum cs_status cs_pq_meta_read(const void *bytes, size_t n, uint64_t file_bytes,
                               struct cs_arena *arena, struct cs_pq_meta *out,
                               struct cs_err *err) CS_NODISCARD;

#endif
