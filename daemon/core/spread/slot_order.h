/* The order of a step's slots, searched on the simulator: the plan's own program runs with the work
 * that every slot really carries, and what takes less time is kept.
 *
 * The order decides in which order gradients are added. It depends on the layout, because the
 * program does; so two layouts of a job with a searched order agree within rounding, not in every
 * bit. Messages take no time here: what is compared is how the work of the slots interlocks. */
#ifndef CS_SPREAD_SLOT_ORDER_H
#define CS_SPREAD_SLOT_ORDER_H

#include "core/model/graph.h"
#include "core/plan/plan.h"

struct cs_slot_order;

/* Simulated actions of one search, at most: what bounds its time, the same on every machine. */
enum { CS_SLOT_ORDER_ACTIONS = 1 << 17 };

/* plan and graph must outlive it; graph NULL: a plan made from numbers. */
struct cs_slot_order *cs_slot_order_new(const struct cs_plan *plan, const struct cs_graph *graph);
void cs_slot_order_free(struct cs_slot_order *s); /* accepts NULL */

/* share (n_branches, n_slots): work of the slot over that of a slot filled to its budgets. order
 * (n_slots) receives the slot of every place; *before and *after (may be NULL) the simulated times
 * in nanoseconds, after <= before. A step too large for one round stays as it is. CS_PLAN: as
 * cs_program_make and cs_simulate. */
enum cs_status cs_slot_order_search(struct cs_slot_order *s, const double *share, int n_slots,
                                    uint64_t seed, int32_t *order, double *before, double *after,
                                    struct cs_err *err) CS_NODISCARD;

#endif
