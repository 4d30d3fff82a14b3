/* Plan to program: the way that every process takes, and the one of experiments. */
#ifndef CS_SCHED_LOWER_LOWER_H
#define CS_SCHED_LOWER_LOWER_H

#include "core/sched/program.h"

/* What processes run: lower a plan for n_slots slots (>= 1): generator of the plan's schedule, then
 * messages, then the verifier. is_eval: forward only, no NORM/STEP. graph NULL: no
 * exchange of a tied embedding (plans made from numbers). CS_PLAN: unknown schedule, over the
 * limits of an action's fields. CS_UNSUPPORTED: workers do not run such plans (cs_plan_check_runs);
 * those are lowered by cs_program_make_with, to be simulated. */
enum cs_status cs_program_make(const struct cs_plan *plan, const struct cs_graph *graph,
                               int n_slots, bool is_eval, struct cs_arena *arena,
                               struct cs_program **out, struct cs_err *err) CS_NODISCARD;

/* The same with all options, for every schedule of the table. zb-h1 and zb-h2: any plan.
 * interleaved: the branch of the head has its stage i on rank i % p of its ranks. three-phase and
 * anchors: encoders on the ranks of the head's branch, shared by slot. CS_PLAN: the plan does not
 * fit the schedule, more leading slots than slots, leading slots without a fully frozen encoder. */
enum cs_status cs_program_make_with(const struct cs_plan *plan, const struct cs_graph *graph,
                                    const struct cs_program_options *options,
                                    struct cs_arena *arena, struct cs_program **out,
                                    struct cs_err *err) CS_NODISCARD;

#endif
