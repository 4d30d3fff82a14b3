/* Pairwise deferral (Entrain): part of the samples of a slot with much LLM work are encoded with it
 * but consumed by the LLM pass of its partner, one slot later. Whole samples only; each pair is
 * adjacent in the new order, so that deferred features are kept for one slot. */
#ifndef CS_SPREAD_DEFER_H
#define CS_SPREAD_DEFER_H

#include "core/spread/slot_policies.h"

enum { CS_DEFER_BUCKETS = 256 /* resolution of the subset sums */, CS_DEFER_SLOTS = 1024 };

/* Changes slot, llm_slot and the sums of *result, replica by replica: slots become heavy, light, heavy,
 * light ... and samples move from a heavy one to the light one behind it. The largest LLM sum of a
 * replica never grows. Starts from a result without deferral (llm_slot equal to slot).
 * CS_LIMIT: more than CS_DEFER_SLOTS slots. */
enum cs_status cs_defer(const struct cs_assign_samples *samples, struct cs_arena *arena,
                        struct cs_assign_result *result, struct cs_err *err) CS_NODISCARD;

#endif
