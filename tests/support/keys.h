/* The keys of samples for tests that have no job. */
#ifndef CS_TESTS_SUPPORT_KEYS_H
#define CS_TESTS_SUPPORT_KEYS_H

#include "input/data/record/record_keys.h"

/* Encoders called a, b ... with these placeholders. */
const struct cs_record_keys *test_keys(const char *const *tokens, int n, struct cs_arena *arena);

#endif
