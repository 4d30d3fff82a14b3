/* Private to core/search: a context whose short slots are on few of its ranks (plan.context_rows). What a slot
 * costs the stages of the LLM where so many ranks split it, which ranks these are, and which number of
 * rows is worth it. */
#ifndef CS_SEARCH_DEGREES_H
#define CS_SEARCH_DEGREES_H

#include "core/search/problem/samples.h"
#include "core/search/trial.h"

enum { CS_DEGREES = 7 /* 1, 2, 4 ... 64 ranks */, CS_DEGREE_TRIES = 8 };

struct cs_degrees {
    int32_t cp;
    const struct cs_trial_part *of[CS_DEGREES]; /* (n_stages) of the LLM, over 2^i ranks */
    const struct cs_trial *trial;               /* what all cp ranks take is its own */
};

/* The trial is lowered. false: the LLM's rows are not split, or the problem does not say what fewer ranks take. */
bool cs_degrees_make(const struct cs_trial *trial, struct cs_degrees *out);
/* Between powers of two in proportion. */
struct cs_trial_part cs_degrees_part(const struct cs_degrees *degrees, int32_t stage,
                                     int32_t ranks);
/* of the slots of one replica, rows (slots) in the order in which they run: out (slots) */
void cs_degrees_groups(const struct cs_trial *trial, const int32_t *rows,
                       struct cs_context_group *out);
/* Rows that tell slots of the batches apart, ascending; with each of them the longest slot still has all ranks.
 * Returns how many: 0 where all slots are alike. loads (n) of one dealing. */
int32_t cs_degrees_tries(const struct cs_trial *trial, const struct cs_search_loads *loads,
                         int32_t n, struct cs_arena *scratch, int32_t tries[CS_DEGREE_TRIES]);

#endif
