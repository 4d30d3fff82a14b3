/* List scheduling: items, heaviest first, to the bin that is best after insertion. The one loop
 * behind every policy of assign.h. */
#ifndef CS_SPREAD_ASSIGN_LIST_H
#define CS_SPREAD_ASSIGN_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"

enum { CS_LIST_DIMS = 6, CS_LIST_ROOMS = 18 };

/* What a bin has room for, in whole units (rows, items, samples): hard limits. */
struct cs_list_room {
    int32_t n;
    const int32_t *size[CS_LIST_ROOMS]; /* by sample, >= 0; NULL: 1 each */
    int32_t limit[CS_LIST_ROOMS];       /* of a bin, the same for all */
};

/* What the bins hold so far; make one, ask, put. */
struct cs_list_fill {
    const struct cs_list_room *room;
    int64_t *used; /* (bins, room->n) */
};

struct cs_list_fill cs_list_fill_make(const struct cs_list_room *room, int32_t bins,
                                      struct cs_arena *arena); /* room NULL: everything fits */
bool cs_list_fits(const struct cs_list_fill *fill, int32_t sample, int32_t bin);
void cs_list_put(const struct cs_list_fill *fill, int32_t sample, int32_t bin);

/* Item i of a list stands for sample index[i] everywhere below. */
struct cs_list {
    int32_t n;
    const int32_t *index;            /* (n) samples, ascending */
    int32_t n_dims;                  /* 1..CS_LIST_DIMS */
    const double *dim[CS_LIST_DIMS]; /* by sample */
    int32_t bins, cap;               /* cap: most items of a bin, 0: none */
    int32_t *bin;                    /* out, by sample; -1: no bin has room */
    const struct cs_list_room *room; /* NULL: no limits */
};

/* One dimension: longest processing time first. Ties: the earlier sample, the lower bin. Both
 * return how many samples found no room. */
int32_t cs_list_lpt(const struct cs_list *list, struct cs_arena *arena);
/* Several: every dimension is divided by its sum; least maximum over the dimensions after
 * insertion, then least sum, then the lower bin. */
int32_t cs_list_balance(const struct cs_list *list, struct cs_arena *arena);

/* Samples by key descending, then second descending (may be NULL), then index: sorted in place. */
void cs_list_sort(int32_t *index, int32_t n, const double *key, const double *second,
                  struct cs_arena *arena);

#endif
