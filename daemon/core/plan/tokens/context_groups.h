/* Which ranks of a context split which slot of a step (hybrid context parallelism): a pure function of the
 * slots' rows and a rule, so that every rank that sees the step knows it.
 *
 * A short slot costs more to split than it saves: few ranks have it, and the others work on other slots
 * meanwhile. A slot that all ranks split is where they wait for each other; between two such slots those
 * with most work are placed first, each on the neighbours that have least to do. */
#ifndef CS_PLAN_TOKENS_CONTEXT_GROUPS_H
#define CS_PLAN_TOKENS_CONTEXT_GROUPS_H

#include "core/plan/context.h"

struct cs_context_group {
    int32_t first, n; /* ranks of the context: first .. first + n - 1 */
};

/* What a slot of n rows costs: per_row n + per_pair n (n + 1) / 2. */
struct cs_context_rule {
    struct cs_context_degrees degrees;
    double per_row, per_pair;
};

/* n_rows (n_slots): of the slots in the order in which they run. out (n_slots); busy (ranks): what each rank
 * has to do in all. */
void cs_context_groups(const struct cs_context_rule *rule, const int32_t *n_rows, int32_t n_slots,
                       struct cs_context_group *out, double *busy);

#endif
