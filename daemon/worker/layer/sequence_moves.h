/* Rows between the ranks that split them (worker/layer/sequence.h), moved beside products: all rows come
 * to where a first product reads them, those of one rank after the other, and each is worked on as it
 * comes; parts of a sum go to where their rows belong as they are made, and the own rows are made last. So
 * what travels is beside what is computed on a device; on a host a move is over when it has begun.
 *
 * Turns: in turn k every rank sends to the k-th behind it and receives from the k-th before it; in turn 0
 * are the own rows. Where rows are not split turn 0 is the only one, and has all. A sum is of the own
 * part and then those of the others by turn: in one order, whatever comes first. */
#ifndef CS_WORKER_LAYER_SEQUENCE_MOVES_H
#define CS_WORKER_LAYER_SEQUENCE_MOVES_H

#include "core/model/tensor_parallel.h"
#include "worker/layer/exchange.h"
#include "worker/layer/layers.h"

static inline bool cs_sequence_is_split(const struct cs_run *run)
{
    return run->tensors != NULL && run->splits_rows;
}

int cs_sequence_turns(const struct cs_run *run);

/* Rows of a rank: `at` is the first. In a rehearsal as many as any rank can have. */
struct cs_sequence_rows {
    int64_t at, n;
};

/* of whom rows come from, or go to, in a turn; rows: all */
struct cs_sequence_rows cs_sequence_from(const struct cs_run *run, int64_t rows, int turn);
struct cs_sequence_rows cs_sequence_to(const struct cs_run *run, int64_t rows, int turn);

struct cs_sequence_gather {
    struct cs_run *run;
    int64_t rows, width;
    const void *own;
    void *all;
    struct cs_exchange turn[CS_TP_MOST];
};

/* everybody's own rows begin to come; all (rows, width): the own ones too (is_whole, else they are not
 * written). Where rows are not split own is all. */
void cs_sequence_gather_start(struct cs_run *run, int64_t rows, int64_t width, const void *own,
                              void *all, bool is_whole, struct cs_sequence_gather *gather);
/* the rows of cs_sequence_from, which are there for what is run from here on; turns come in order, once */
const void *cs_sequence_gather_next(const struct cs_sequence_gather *gather, int turn);
/* all turns */
void cs_sequence_gather_finish(const struct cs_sequence_gather *gather);

struct cs_sequence_sum {
    struct cs_run *run;
    int64_t rows, width;
    char *theirs; /* of the own rows, by turn */
    struct cs_exchange turn[CS_TP_MOST];
};

/* takes scratch for what comes */
void cs_sequence_sum_start(struct cs_run *run, int64_t rows, int64_t width,
                           struct cs_sequence_sum *sum);
/* this rank's part of the rows of cs_sequence_to goes; it stays as it is until the end */
void cs_sequence_sum_send(struct cs_sequence_sum *sum, int turn, void *part);
/* own, this rank's part of its own rows, += those of the others */
void cs_sequence_sum_finish(const struct cs_sequence_sum *sum, void *own);

#endif
