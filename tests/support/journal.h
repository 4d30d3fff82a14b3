/* Journals of jobs that never ran: rows of steps with everything that a row can have, evaluations,
 * a spike, a step that diverged. The same on every machine: made with + - * / alone. */
#ifndef CS_TESTS_SUPPORT_JOURNAL_H
#define CS_TESTS_SUPPORT_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

/* the row of a step (0-based) of so many; the caller's reference */
json_t *cs_test_step_row(int64_t step, int64_t steps, bool is_eval);
/* lines of runner.step, an evaluation after every 1/8 of the steps */
void cs_test_journal(int64_t steps, struct cs_buf *out);

#endif
