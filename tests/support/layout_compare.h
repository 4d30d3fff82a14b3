/* What two layouts of a job have to agree in. */
#ifndef CS_TESTS_SUPPORT_LAYOUT_COMPARE_H
#define CS_TESTS_SUPPORT_LAYOUT_COMPARE_H

#include "support/layout_run.h"

/* All bits: losses, norms and weights. */
void layout_assert_same(const struct layout_outcome *a, const struct layout_outcome *b);
/* Within the rounding of sums in another order. options: of `many`; both have their values. */
void layout_assert_near(const struct cs_test_spec *options, const struct layout_outcome *one,
                        const struct layout_outcome *many);

/* Rows of a slot, matrices, experts or items on several ranks do within rounding what one rank does; so many
 * ranks run it. is_lazy: on devices (support/lazy_device.h). */
void layout_agrees_on(bool is_lazy, struct cs_test_spec options, int ranks);
void layout_agrees(struct cs_test_spec options, int ranks); /* on hosts */
/* Devices do what hosts do in the same layout. */
void layout_agrees_with_hosts(struct cs_test_spec options, int ranks);

struct layout_row {
    struct cs_test_spec options;
    int ranks;
};

/* All of a table, with so many slots; seed: of the first, where it has none. */
void layout_all_agree(const struct layout_row *row, size_t n, int seed, int slots);
/* The same on devices, whose pieces are launched as graphs in every other row. */
void layout_all_agree_on_devices(const struct layout_row *row, size_t n, int seed, int slots);

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
