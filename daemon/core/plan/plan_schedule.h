/* The schedules that a plan may have, and what each asks of it. The orders themselves are made in
 * core/sched. */
#ifndef CS_PLAN_PLAN_SCHEDULE_H
#define CS_PLAN_PLAN_SCHEDULE_H

#include "core/plan/plan.h"

/* how the schedule wants the stages placed */
enum cs_schedule_layout {
    CS_LAYOUT_STAGES,   /* as the modality says */
    CS_LAYOUT_CHUNKS,   /* stage i of the LLM on its rank i % p; encoders on ranks of their own */
    CS_LAYOUT_COLOCATED /* a whole copy of every encoder on each rank of the LLM, which share the
                           slots */
};

struct cs_schedule_info {
    const char *name;
    enum cs_schedule_layout layout;
    bool splits_backward; /* its programs have BWD_INPUT and BWD_WEIGHT */
    const char *help;     /* one sentence */
};

/* chunks of an LLM stage under interleaved; groups of slots that anchors encode ahead */
enum { CS_PLAN_CHUNKS = 2, CS_ANCHOR_WINDOW = 2 };

const struct cs_schedule_info *cs_plan_schedule(int i); /* NULL: past the end */
/* The names of the schedules that programs can be made for; CS_PLAN lists them. */
enum cs_status cs_plan_check_schedule(const char *name, struct cs_err *err) CS_NODISCARD;
/* CS_PLAN lists the names. out NULL: only checked. */
enum cs_status cs_plan_schedule_find(const char *name, const struct cs_schedule_info **out,
                                     struct cs_err *err) CS_NODISCARD;

/* The plan's stages against its schedule. CS_PLAN: they do not fit, with what would. */
enum cs_status cs_plan_check_fits(const struct cs_plan *plan, struct cs_err *err) CS_NODISCARD;

/* CS_UNSUPPORTED: a plan that is simulated and verified, but that workers do not run: copies of
 * encoders. */
enum cs_status cs_plan_check_runs(const struct cs_plan *plan, struct cs_err *err) CS_NODISCARD;

#endif
