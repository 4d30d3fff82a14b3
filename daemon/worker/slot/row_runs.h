/* Rows that go from rank to rank of a context; part of splitting a slot (split.h). */
#ifndef CS_WORKER_SLOT_ROW_RUNS_H
#define CS_WORKER_SLOT_ROW_RUNS_H

#include "worker/slot/split.h"

/* Runs of n rows whose owners are owner[at[i]], or owner[i] where at is NULL; owner NULL: all are one
 * rank's. */
struct cs_row_runs cs_row_runs_make(struct cs_input *in, const int32_t *owner, const int32_t *at,
                                    int32_t n);
/* in->split->need of the LLM's masks, while these are still of all rows. */
void cs_row_needs_make(struct cs_input *in, const int32_t *owner);

#endif
