/* What slots of a job's data take of the time of full ones. Plans count on slots that are filled to their budgets, with
 * one document: samples that are packed see rows of their own alone, and may bring fewer items than there is room
 * for. */
#ifndef CS_PLAN_COST_SLOT_FILL_H
#define CS_PLAN_COST_SLOT_FILL_H

#include "core/model/spec.h"
#include "core/plan/plan.h"

struct cs_slot_fill {
    double rows;                   /* of the LLM in a slot, all its samples together */
    double document;               /* rows of one sample, at most `rows` */
    double items[CS_MAX_ENCODERS]; /* of an encoder's budget of rows, the part that is there */
};

/* permille (plan->n_stages): thousandths of its time in a full slot that each stage takes, all passes together: what
 * operators and shortest slots take as well, rows in proportion, also those that go between the ranks of a stage, pairs of
 * attention by document. Measured where the spec
 * brings a profile. */
enum cs_status cs_slot_fill_permille(const struct cs_spec *spec, const struct cs_graph *graph,
                                     const struct cs_plan *plan,
                                     const struct cs_device_class *device,
                                     const struct cs_slot_fill *fill, int32_t *permille,
                                     struct cs_err *err) CS_NODISCARD;

#endif
