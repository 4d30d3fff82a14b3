/* All keys in which two documents differ, such as the specifications of two jobs. */
#ifndef CS_CONSOLE_STORE_SPEC_DIFF_H
#define CS_CONSOLE_STORE_SPEC_DIFF_H

#include "core/model/spec.h"

/* Paths with both values as JSON, "-" where one lacks the key, in the order of the keys' names; at
 * most cap. Returns how many there are in all. */
int cs_spec_diff(const json_t *a, const json_t *b, struct cs_spec_difference *out, int cap);

#endif
