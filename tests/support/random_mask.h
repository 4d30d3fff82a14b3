/* Random numbers from a seed, and slots of packed documents with items, modalities, tokens that see
 * nothing, and a rule, for properties of attention. */
#ifndef CS_TESTS_SUPPORT_RANDOM_MASK_H
#define CS_TESTS_SUPPORT_RANDOM_MASK_H

#include <stdint.h>

#include "core/mask/plan.h"

enum { CS_TEST_MASK_TOKENS = 400 };

struct cs_test_mask {
    struct cs_mask_plan plan; /* of the arrays that follow: it must not be copied */
    int32_t doc[CS_TEST_MASK_TOKENS], pos[CS_TEST_MASK_TOKENS], item[CS_TEST_MASK_TOKENS];
    int32_t segment[CS_TEST_MASK_TOKENS + 1];
    uint64_t word[CS_TEST_MASK_TOKENS];
};

struct cs_test_mask_options {
    int most_docs, longest; /* documents; tokens of one, as many as there is room for */
    bool has_short;         /* a third of the documents has at most five tokens */
    int blind_of;           /* one of so many tokens has no modality */
};

uint32_t cs_test_random_bits(uint64_t *seed); /* 31 of them */
int cs_test_random_between(uint64_t *seed, int lo, int hi);
void cs_test_random_mask(uint64_t *seed, const struct cs_test_mask_options *options,
                         struct cs_test_mask *out);

#endif
