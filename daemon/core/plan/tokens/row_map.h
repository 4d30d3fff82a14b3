/* The boundary between an encoder and the LLM as a map of row intervals: which rows that a part of the one
 * makes go where in which part of the other. Parts are ranks that have different rows (lanes, and the parts
 * of a context in them); the ranks of a part that share its matrices all have the same rows.
 *
 * The map follows from what every rank knows of a step: nobody asks for shapes. Each row is made once and
 * goes to one place, so the way back of gradients is the same map read from the other end: a rank that
 * had rows sends their gradients, and there is nothing to add. What that asks of both ends is one rule of
 * who meets whom (cs_row_map_pieces), for rows and for gradients. Source: heterogeneity, boundaries. */
#ifndef CS_PLAN_TOKENS_ROW_MAP_H
#define CS_PLAN_TOKENS_ROW_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* n rows of a part that begin at from_row are those of another that begin at to_row. */
struct cs_row_interval {
    int32_t from, from_row, to, to_row, n;
};

/* Intervals in the order of the rows as they are made, the parts that make them in turn: rows of every pair
 * of parts ascend at both ends. */
struct cs_row_map {
    int32_t n_from, n_to, n;
    const struct cs_row_interval *interval; /* (n) */
    const int32_t *from_rows, *to_rows;     /* (n_from), (n_to) rows of each part */
};

/* Rows 0 .. n - 1, of which part p makes begin[p] .. begin[p + 1], each for part to[row] (NULL: for part 0),
 * where they come in this order. interval: room for n; from_rows (n_from), to_rows (n_to). */
void cs_row_map_make(const int32_t *begin, int32_t n_from, const int32_t *to, int32_t n_to,
                     struct cs_row_interval *interval, int32_t *from_rows, int32_t *to_rows,
                     struct cs_row_map *out);

/* One end of a message: a rank of a part, with the ranks that share it here and there. */
struct cs_row_end {
    bool is_maker;       /* of the rows; else it takes them */
    bool is_send;        /* a maker sends rows and receives gradients */
    int32_t part;        /* its own */
    int32_t sharer;      /* of its part, */
    int32_t here, there; /* of as many, and of as many in every part of the other end */
    /* Of those that receive each is sent its share of the rows of its part alone (cs_tp_share); where more
     * send than receive, they have that in turn shares of it. */
    bool is_cut;
    /* The ranks of both ends are the same, in the same order: what one has of what it is to receive is no
     * piece (cs_row_map_is_own). */
    bool is_same;
};

/* Rows of this rank that go to a rank of the other end, or come from there. */
struct cs_row_piece {
    int32_t part, sharer; /* the other one */
    int32_t row, n;       /* here */
};

/* The pieces of a message of rows, or of their gradients: between two ranks they are the same ones in the
 * same order at both ends. Of ranks that share a part and have the same rows, the k-th of those who
 * receive is sent to by the k-th of those who send, in turn. Returns how many there are; piece
 * NULL: they are only counted. */
int32_t cs_row_map_pieces(const struct cs_row_map *map, const struct cs_row_end *end,
                          struct cs_row_piece *piece);

/* The sharers of the other end that this rank meets: first, first + step ... below there. */
struct cs_row_meets {
    int32_t first, step;
};

struct cs_row_meets cs_row_meets(const struct cs_row_end *end);

/* Of both ends on the same ranks: a rank that receives rows of the interval has them. */
bool cs_row_map_is_own(const struct cs_row_end *end, const struct cs_row_interval *interval,
                       int32_t receiver);

/* This rank exchanges rows with that sharer of a part of the other end. */
bool cs_row_map_joins(const struct cs_row_map *map, const struct cs_row_end *end, int32_t part,
                      int32_t sharer);

#endif
