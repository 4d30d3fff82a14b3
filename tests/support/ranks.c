/* Ranks as threads, as the worker's own test runs them. */
#include "support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/need.h"
#include "worker/selftest/ranks.h"

void cs_test_run_ranks(int n, cs_test_rank_fn run, void *user)
{
    struct cs_err err = {.text = ""};
    assert_in_range(n, 1, CS_TEST_MAX_RANKS);
    need(cs_selftest_run_ranks(n, run, user, &err), &err);
}
