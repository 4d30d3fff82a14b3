/* Makespan of one replica: a chain of encoder and LLM stages under 1F1B whose slots have different
 * costs. The recurrence behind reordering and its measurements: a step of a search costs
 * microseconds here. Communication, memory and graphs are the business of core/sched; a test keeps
 * both equal on chains. */
#ifndef CS_SPREAD_ASSIGN_PIPE_H
#define CS_SPREAD_ASSIGN_PIPE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"

struct cs_pipe {
    int32_t enc_stages, llm_stages;    /* a module's work is spread evenly over its stages */
    double enc_backward, llm_backward; /* backward time over forward time, e.g. 2; 0: frozen */
};

/* Work of the slots (see struct cs_assign_result); enc_back NULL: enc. */
struct cs_pipe_slots {
    int32_t n;
    const double *enc, *enc_back, *llm; /* (n) */
};

/* doubles of scratch that cs_pipe_run needs */
size_t cs_pipe_scratch(const struct cs_pipe *pipe, int32_t slots);

/* Runs slots in the given order (n; NULL: as they are) and returns the end of the last action.
 * first_back (2 * n, may be NULL): start and end of every backward on stage 0, by place in the
 * order. */
double cs_pipe_run(const struct cs_pipe *pipe, const struct cs_pipe_slots *slots,
                   const int32_t *order, double *scratch, double *first_back);
/* The same with every slot at the mean: what perfect balance would take. */
double cs_pipe_even(const struct cs_pipe *pipe, int32_t slots, double enc_sum, double llm_sum,
                    struct cs_arena *arena);

#endif
