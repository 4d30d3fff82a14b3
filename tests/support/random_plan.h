/* Plans from numbers: random graphs of one to three encoders and an LLM, for tests of schedules. */
#ifndef CS_TESTS_SUPPORT_RANDOM_PLAN_H
#define CS_TESTS_SUPPORT_RANDOM_PLAN_H

#include "core/plan/plan.h"

enum { CS_TEST_MAX_STAGES = 24 };

/* plan points into the struct: do not copy it */
struct cs_test_random_plan {
    struct cs_plan plan;
    struct cs_stage stage[CS_TEST_MAX_STAGES];
    struct cs_edge edge[CS_TEST_MAX_STAGES];
    int first[4], count[4], n_branches; /* stages of every branch, the LLM last */
};

enum cs_test_placing { CS_TEST_OWN_RANKS, CS_TEST_COLOCATED, CS_TEST_ENCODERS_SHARE };

int cs_test_random(uint64_t *seed, int below); /* 0 .. below - 1 */
void cs_test_random_plan(struct cs_test_random_plan *out, uint64_t *seed,
                         enum cs_test_placing placing, const char *schedule);

#endif
