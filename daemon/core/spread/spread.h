/* Spreading: the samples that a step holds, over its slots, so that every slot carries alike work
 * in every module.
 *
 * Packing (pack.h) decides which samples the step holds; spreading only moves them between slots.
 * So a step is the same whatever the policy, and what is carried is, too. Everything depends on
 * samples, budget, work and key alone: equal inputs give equal slots on every machine and layout. */
#ifndef CS_SPREAD_SPREAD_H
#define CS_SPREAD_SPREAD_H

#include "core/spread/first_fit.h"
#include "core/spread/slot_policies.h"

struct cs_spread {
    bool is_kept;           /* stream order: leave them where packing put them */
    enum cs_assign_how how; /* otherwise */
    uint64_t key;           /* of CS_ASSIGN_RANDOM: job and step */
    int32_t slots; /* at least so many where there are as many samples, 0: what packing used */
    int32_t n_encoders;
    const double *enc[CS_MAX_ENCODERS]; /* (n) work of every encoder, for every sample; one unit */
    const double *llm;                  /* (n) */
};

/* sample[].slot holds what cs_pack left, n_slots its result. Samples with a slot get a new one;
 * returns the number of slots, none of them empty, at most max_slots. Where the policy cannot keep
 * the budgets in as many slots as packing used it gets some more, and after CS_SPREAD_TRIES the
 * samples stay where they were: first-fit fills slots more tightly than any policy that looks at
 * work. *is_spread (may be NULL): false when they stayed.
 * CS_INVALID: as cs_assign. O(n log n + n * slots) a try. */
enum { CS_SPREAD_TRIES = 4 };

enum cs_status cs_spread(const struct cs_slot_budget *budget, const struct cs_spread *spread,
                         int max_slots, struct cs_pack_sample *sample, int n, int *n_slots,
                         bool *is_spread, struct cs_err *err) CS_NODISCARD;

/* Work of the largest slot as a share of all: at least 1 / slots, which is perfect; 0 when there is
 * no work. What a pipeline waits for at both ends of a step. work (n) of samples. */
double cs_spread_largest(const struct cs_pack_sample *sample, int n, const double *work);

/* Moves slot order[i] to place i; order (n_slots) is a permutation. */
void cs_spread_reorder(struct cs_pack_sample *sample, int n, const int32_t *order, int n_slots);

/* "stream", or the name of a policy that works under budgets: list2d, lpt, entrain, random. */
bool cs_spread_from_name(const char *name, struct cs_spread *spread);

#endif
