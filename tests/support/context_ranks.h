/* Attention over the ranks of a context, as layers of a job run it (worker/model/halves/context.h), beside the same on
 * one rank: on the host, ranks are threads of this process. Exchanges happen when they are awaited, until then
 * what comes is NaN: who reads too early, or writes over what goes, gets wrong numbers. */
#ifndef CS_TESTS_SUPPORT_CONTEXT_RANKS_H
#define CS_TESTS_SUPPORT_CONTEXT_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mask/plan.h"

enum { CS_TEST_CONTEXT_DIM = 4, CS_TEST_CONTEXT_RANKS = 6, CS_TEST_CONTEXT_HEADS = 12 };

/* keys move, and attention waits for them; or it looks at the own ones first; or heads move */
enum cs_test_context_way { CS_TEST_KEYS, CS_TEST_OWN_FIRST, CS_TEST_HEADS, CS_TEST_CONTEXT_WAYS };

enum cs_test_array {
    CS_TEST_Q,
    CS_TEST_K,
    CS_TEST_V,
    CS_TEST_D_O,
    CS_TEST_O, /* from here on they are made */
    CS_TEST_DQ,
    CS_TEST_DK,
    CS_TEST_DV,
    CS_TEST_ARRAYS
};

struct cs_test_context {
    int ranks, heads, kv_heads, groups;
    int first, n; /* where heads move: ranks that split the slot, as many as can; n 0: all */
    enum cs_test_context_way way;
    bool has_sinks;
    bool stays_unsorted; /* keys stay as they come, as on a GPU */
    float softcap;
    const struct cs_mask_plan *mask;
    const int32_t *owner; /* (n_tokens) where keys move: alike in blocks (core/plan/context.h) */
    /* (n_tokens, heads or kv_heads, dim): what goes in and what one rank makes; what all ranks make */
    float *one[CS_TEST_ARRAYS], *many[CS_TEST_ARRAYS];
    float sink[CS_TEST_CONTEXT_HEADS], dsink[CS_TEST_CONTEXT_HEADS],
        many_dsink[CS_TEST_CONTEXT_HEADS]; /* summed over the ranks */
    int64_t came; /* elements that ranks got; set by cs_test_context_many */
};

/* Fields above the arrays are set. Arrays that go in, and sinks, are filled at random. */
void cs_test_context_open(struct cs_test_context *c, uint64_t *seed);
void cs_test_context_close(struct cs_test_context *c);
int cs_test_context_columns(const struct cs_test_context *c, enum cs_test_array array);
void cs_test_context_one(struct cs_test_context *c);
void cs_test_context_many(struct cs_test_context *c);
/* Everything that all ranks made is what one made; else the test fails, saying where. NaN is never equal. */
void cs_test_context_check(const struct cs_test_context *c, const char *what);

#endif
