/* What a step's time was made of and how well it was used, in its row: "parts", "mfu", "modules",
 * "mem_bytes". */
#ifndef CS_RUNNER_PARTS_H
#define CS_RUNNER_PARTS_H

#include "core/trace/span.h"
#include "runner/state/state.h"

/* From the spans of a training step. Model FLOPs are those of the rows that the step had, forward and
 * what its backward must do, without anything computed twice; attention as in slots that are full. A
 * module is a branch of the model (an encoder with its projector, the LLM), its ranks those that
 * computed for it. */
void cs_parts_set(const struct cs_runner *r, const struct cs_step_report *report,
                  const struct cs_span_step *spans, json_t *msg);
/* Bytes that the rank holds that holds most: of its GPU's memory, else of its process; read now and
 * then, in between as it was last. */
void cs_memory_set(struct cs_runner *r, json_t *msg);

#endif
