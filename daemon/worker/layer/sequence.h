/* Sequence parallelism in a layer (Korthikanti et al. 2022): between the products of a block each of the
 * ranks that share its matrices has a part of the rows, which norms and sums look at one by one. In front
 * of a first product all rows are put together (all-gather); what a second one makes in parts is summed
 * where its rows belong (reduce-scatter). Parts differ by a row at most and may be empty. Ranks and how
 * they meet: worker/layer/tensors.h, which also has the products; how rows move beside them:
 * worker/layer/sequence_moves.h. Where rows are not split, the own ones are all.
 *
 * rows: all of the layer; width: elements of a row, acts. */
#ifndef CS_WORKER_LAYER_SEQUENCE_H
#define CS_WORKER_LAYER_SEQUENCE_H

#include "worker/layer/sequence_moves.h"

int64_t cs_sequence_rows(const struct cs_run *run, int64_t rows); /* the own ones */
/* the own ones of all, where they lie */
const void *cs_sequence_own(const struct cs_run *run, int64_t rows, int64_t width, const void *all);
/* all (rows, width) from everybody's own */
void cs_sequence_gather(struct cs_run *run, int64_t rows, int64_t width, const void *own,
                        void *all);
/* The same in memory that gradients of weights may be held in (cs_run_hold); own itself where it is all. */
const void *cs_sequence_whole(struct cs_run *run, int64_t rows, int64_t width, const void *own);

/* Memory for this rank's part of a sum (rows, width) of which `own` rows are wanted: own itself, or
 * scratch. */
void *cs_sequence_part(struct cs_run *run, int64_t rows, int64_t width, void *own);
/* What is added to that part: a residual of the own rows is, by the first rank, where rows are not split. */
const void *cs_sequence_residual(const struct cs_run *run, const void *residual);
/* own = the sum of everybody's part, + residual (own rows, NULL: 0) where it is not in one yet */
void cs_sequence_sum(struct cs_run *run, int64_t rows, int64_t width, void *part,
                     const void *residual, void *own);

#endif
