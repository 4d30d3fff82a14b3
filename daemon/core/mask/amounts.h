/* Allowed pairs of a document of which only amounts are known: how many tokens, and how many rows of
 * each modality, in items of which size. What planners count with before there is a sample.
 *
 * T tokens, X of them text; modality m has items of r rows, R = sum r:
 *   causal          T (T + 1) / 2                       full    T^2
 *   window w        causal without (T - w)(T - w + 1) / 2, where T > w
 *   prefix p        causal + p (p - 1) / 2, p <= T
 *   image_bidir     causal + sum r (r - 1) / 2
 *   modality_bidir  causal + sum R (R - 1) / 2
 *   image_bidir_window  window + sum (r^2 - what the window has of r rows), items taken to be alike
 *   image_window        window + sum r (r - 1) / 2
 *   item            X (T + 1) / 2 + sum r^2
 *   cornstarch      X (T + 1) / 2 + sum R^2
 * Exact, but for the last two, where text is taken to stand at T / 2 on the average. Text sees all
 * modalities of its document. */
#ifndef CS_MASK_AMOUNTS_H
#define CS_MASK_AMOUNTS_H

#include "core/mask/rule.h"

enum { CS_MASK_AMOUNTS = 8 }; /* modalities */

struct cs_mask_amounts {
    int64_t tokens; /* with the rows of items, at most 2^31 */
    int n;

    struct {
        int64_t rows,
            squares; /* of all items: the sum of their rows, and of the squares of these */
    } modality[CS_MASK_AMOUNTS];
};

/* Items of so many rows each, more than there are. */
static inline void cs_mask_amounts_add(struct cs_mask_amounts *amounts, int modality, int64_t items,
                                       int64_t rows)
{
    amounts->modality[modality].rows += items * rows;
    amounts->modality[modality].squares += items * rows * rows;
}

/* More rows of items than tokens: there is no text. Never more than tokens^2. */
int64_t cs_mask_amounts_pairs(struct cs_mask_rule rule, const struct cs_mask_amounts *amounts);

#endif
