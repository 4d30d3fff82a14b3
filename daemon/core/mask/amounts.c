/* Allowed pairs of a document by closed forms of the amounts that are known of it. */
#include "core/mask/amounts.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* rows 1 + 2 + ... + n */
static int64_t triangle(int64_t n)
{
    return n > 0 ? n * (n + 1) / 2 : 0;
}

/* causal pairs of n rows of which none is further away than the window */
static int64_t near(int64_t n, int64_t window)
{
    return triangle(n) - triangle(n - window);
}

/* Pairs that spans have under the rule beside, or instead of, what a causal document has. */
struct spans {
    int64_t rows;                     /* of all items */
    int64_t in_items, in_kinds;       /* all pairs inside of items, and of modalities */
    int64_t later_items, later_kinds; /* those of them that causality forbids */
};

/* Pairs inside of items that a window alone would not have; of a modality whose items differ, as if
 * they were alike. */
static int64_t beyond_window(const struct cs_mask_amounts *a, int64_t window)
{
    int64_t sum = 0;
    for (int m = 0; m < a->n; m++) {
        const int64_t all = least(a->modality[m].rows, a->tokens);
        const int64_t rows = all > 0 ? least(a->modality[m].squares / a->modality[m].rows, all) : 0;
        if (rows > 0)
            sum += all / rows * (rows * rows - near(rows, window));
    }
    return sum;
}

static struct spans sum_spans(const struct cs_mask_amounts *a)
{
    struct spans s = {0};
    for (int m = 0; m < a->n; m++) {
        const int64_t rows = a->modality[m].rows, squares = a->modality[m].squares;
        const int64_t all = least(rows, a->tokens);
        s.rows += all;
        s.in_items += least(squares, all * a->tokens);
        s.later_items += least((squares - rows) / 2, triangle(all - 1));
        s.in_kinds += all * all;
        s.later_kinds += triangle(all - 1);
    }
    return s;
}

int64_t cs_mask_amounts_pairs(struct cs_mask_rule rule, const struct cs_mask_amounts *amounts)
{
    const int64_t t = amounts->tokens, all = t * t, causal = triangle(t);
    const struct spans s = sum_spans(amounts);
    const int64_t text = (t > s.rows ? t - s.rows : 0) * (t + 1) / 2;
    switch (rule.kind) {
    case CS_MASK_CAUSAL:
        return causal;
    case CS_MASK_FULL:
        return all;
    case CS_MASK_CORNSTARCH:
        return least(text + s.in_kinds, all);
    case CS_MASK_IMAGE_BIDIR:
        return least(causal + s.later_items, all);
    case CS_MASK_WINDOW:
        return near(t, rule.window);
    case CS_MASK_IMAGE_BIDIR_WINDOW:
        return least(near(t, rule.window) + beyond_window(amounts, rule.window), all);
    case CS_MASK_IMAGE_WINDOW:
        return least(near(t, rule.window) + s.later_items, all);
    case CS_MASK_PREFIX:
        return causal + triangle(least(rule.prefix, t) - 1);
    case CS_MASK_ITEM:
        return least(text + s.in_items, all);
    case CS_MASK_MODALITY_BIDIR:
        return least(causal + s.later_kinds, all);
    case CS_MASK_KINDS:
        break;
    }
    return causal;
}
