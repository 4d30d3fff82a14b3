/* A recurrent layer over a part of a document's rows: what comes from the ranks with the rows before
 * and behind (worker/slot/split.h, rows in order). Where rows are not split nothing is.
 *
 * The convolution reads the last rows of the rank before, whose gradients go back there. Of the rule
 * every rank makes an affine map of the state that enters its rows, those of a document's ranks meet,
 * and each composes those before it, in their order: nobody waits for another one's scan. The
 * gradients of states go the other way by the transposed maps. A rank that a document begins on needs
 * nothing, and sends no map. */
#ifndef CS_WORKER_MODEL_DELTA_PART_H
#define CS_WORKER_MODEL_DELTA_PART_H

#include "worker/layer/layers.h"

/* Rows that the convolution reads: halo of them before the own ones. */
struct cs_delta_rows {
    const void *x; /* (halo + rows, columns), rows ld apart */
    int64_t ld;
    int32_t halo;
    const struct cs_mask_plan *mask; /* their documents */
};

/* product (rows, columns), ld apart */
struct cs_delta_rows cs_delta_widen(struct cs_run *run, int64_t rows, int64_t columns,
                                    void *product, int64_t ld);
/* Where their gradients go, like x. */
void *cs_delta_wide_grads(struct cs_run *run, const struct cs_delta_rows *wide, int64_t rows,
                          int64_t columns, void *dproduct);
/* ... and then to the ranks that have the rows: dproduct (rows, columns), ld apart */
void cs_delta_narrow(struct cs_run *run, const struct cs_delta_rows *wide, int64_t rows,
                     int64_t columns, void *d_wide, void *dproduct, int64_t ld);

/* documents of the own rows */
const struct cs_mask_plan *cs_delta_mask(const struct cs_run *run);

/* What enters the own rows, and the gradient of what leaves them: (heads, key_dim, value_dim), NULL:
 * zeros. */
struct cs_delta_ends {
    float *state, *d_state;
};

/* d_o (rows, heads, value_dim), NULL: forward, out->d_state is NULL */
void cs_delta_ends(struct cs_run *run, const struct cs_delta_shape *shape,
                   const struct cs_delta_in *in, const void *d_o, struct cs_delta_ends *out);

#endif
