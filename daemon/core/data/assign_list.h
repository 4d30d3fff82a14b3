/* List scheduling: items, heaviest first, to the bin that is best after insertion. The one loop
 * behind every policy of assign.h. */
#ifndef CS_DATA_ASSIGN_LIST_H
#define CS_DATA_ASSIGN_LIST_H

#include <stdint.h>

#include "core/base/arena.h"

enum { CS_LIST_DIMS = 3 };

/* Item i of a list stands for sample index[i] everywhere below. */
struct cs_list {
    int32_t n;
    const int32_t *index;            /* (n) samples, ascending */
    int32_t n_dims;                  /* 1..CS_LIST_DIMS */
    const double *dim[CS_LIST_DIMS]; /* by sample */
    int32_t bins, cap;               /* cap: most items of a bin, 0: none */
    int32_t *bin;                    /* out, by sample */
};

/* One dimension: longest processing time first. Ties: the earlier sample, the lower bin. */
void cs_list_lpt(const struct cs_list *list, struct cs_arena *arena);
/* Several: every dimension is divided by its sum; least maximum over the dimensions after
 * insertion, then least sum, then the lower bin. */
void cs_list_balance(const struct cs_list *list, struct cs_arena *arena);

/* Samples by key descending, then second descending (may be NULL), then index: sorted in place. */
void cs_list_sort(int32_t *index, int32_t n, const double *key, const double *second,
                  struct cs_arena *arena);

#endif
