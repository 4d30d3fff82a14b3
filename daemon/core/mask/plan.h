/* A mask plan: what attention kernels see of a mask. Built once per slot, used by all layers and
 * heads, both ways. CPU twin: the list of documents (rows [begin, end) that may see each other);
 * tile lists for GPUs (core/mask/cells.h) are made from it. All arrays are borrowed. */
#ifndef CS_MASK_PLAN_H
#define CS_MASK_PLAN_H

#include "core/mask/rule.h"

struct cs_mask_cells;

struct cs_mask_plan {
    struct cs_mask_rule rule;
    int32_t n_tokens;
    const int32_t *doc;   /* (n_tokens) */
    const int32_t *pos;   /* (n_tokens) */
    const int32_t *item;  /* (n_tokens), NULL: all -1 */
    const uint64_t *word; /* (n_tokens), NULL: all text */
    int32_t n_segments;
    const int32_t
        *segment; /* (n_segments + 1) first row of every document, ascending; last = n_tokens */
    /* Keys, where they are not the queries (context parallelism): the same fields of the key rows,
     * rule and segments ignored. NULL: keys are the queries. */
    const struct cs_mask_plan *keys;
    const struct cs_mask_cells *cells; /* core/mask/cells.h; NULL: not built (CPU, portable) */
};

static inline struct cs_mask_token cs_mask_token_at(const struct cs_mask_plan *plan, int32_t row)
{
    struct cs_mask_token t = {plan->word ? plan->word[row] : CS_MASK_TEXT, plan->doc[row],
                              plan->pos[row], plan->item ? plan->item[row] : -1};
    return t;
}

/* Fill segment (room for n_tokens + 1) from doc; returns the number of segments. Rows of one
 * document are contiguous. */
int32_t cs_mask_segments(const int32_t *doc, int32_t n_tokens, int32_t *segment);

#endif
