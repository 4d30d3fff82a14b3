/* A slot whose rows are split, for people: what its rows are, where its work lies, and what every rule
 * would make of it. Nothing that trains looks at it. */
#ifndef CS_PLAN_TOKENS_CONTEXT_VIEW_H
#define CS_PLAN_TOKENS_CONTEXT_VIEW_H

#include "core/plan/tokens/context_map.h"

enum { CS_CONTEXT_CELLS = 128 };

struct cs_context_view {
    int32_t n_rows, block, n_docs, ranks;
    int32_t
        n_cells; /* of as many blocks each, but for rounding: one for each block where they are few */
    /* What most rows of a cell are: t text, a, b .. the first, second encoder's; a capital letter where
     * a document begins. Ends with NUL. */
    char what[CS_CONTEXT_CELLS + 1];
    double work[CS_CONTEXT_CELLS]; /* of the cell that has most: 1 */
    double even; /* work of a rank if all had the same, in the unit of the costs */
    double *load[CS_BALANCE_HOWS]; /* (ranks) of an even share: 1 is even */
};

/* Arguments as of cs_context_map. encoder (n_rows): whose row it is, below 26, -1 text; NULL: all are
 * text. Loads in the arena. */
enum cs_status cs_context_view_make(const struct cs_mask_plan *masks, int32_t n_masks,
                                    const struct cs_context_cost *cost, int32_t ranks,
                                    const int8_t *encoder, struct cs_arena *arena,
                                    struct cs_context_view *out, struct cs_err *err) CS_NODISCARD;

#endif
