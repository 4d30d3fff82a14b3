/* What two layouts of a job have to agree in. */
#ifndef CS_TESTS_SUPPORT_LAYOUT_COMPARE_H
#define CS_TESTS_SUPPORT_LAYOUT_COMPARE_H

#include "support/layout_run.h"

/* All bits: losses, norms and weights. */
void layout_assert_same(const struct layout_outcome *a, const struct layout_outcome *b);
/* Within the rounding of sums in another order. options: of `many`; both have their values. */
void layout_assert_near(const struct cs_test_spec *options, const struct layout_outcome *one,
                        const struct layout_outcome *many);

/* A rule of the LLM's mask. */
struct layout_mask {
    const char *name;
    int window, prefix;
    int like; /* rules of one number are the same here: a sample has one item of an encoder */
};

enum { LAYOUT_MASKS = 10 };

extern const struct layout_mask layout_masks[LAYOUT_MASKS];
struct cs_test_spec layout_with_mask(const struct layout_mask *mask);

#endif
