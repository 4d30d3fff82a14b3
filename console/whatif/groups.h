/* Who shares the stages of a plan, as text. */
#ifndef CS_CONSOLE_WHATIF_GROUPS_H
#define CS_CONSOLE_WHATIF_GROUPS_H

#include <stddef.h>

#include "core/plan/plan.h"

/* "2 replicas, vision cp 2, llm tp 2 cp 2 zero 3"; "" where every stage is on one rank */
void cs_groups_text(const struct cs_plan *plan, const struct cs_graph *graph, char *out,
                    size_t cap);
/* A rank of programs as ranks of the job's first replica: "3", or "4-7" where several run it. */
void cs_groups_ranks(const struct cs_plan *plan, int32_t rank, char *out, size_t cap);
/* The same of those that have a stage. */
void cs_groups_of_stage(const struct cs_plan *plan, int32_t stage, char *out, size_t cap);

#endif
