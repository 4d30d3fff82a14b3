/* Schedules as plans see them: the rows of the table (core/model/schedules.h), and the plans that
 * fit each. */
#ifndef CS_PLAN_PLAN_SCHEDULE_H
#define CS_PLAN_PLAN_SCHEDULE_H

#include "core/model/schedules.h"
#include "core/plan/layout.h"
#include "core/plan/plan.h"

/* Slots of a stage that are live together at most: p ranks or stages on the longest path to the
 * loss, d of them behind the stage. Interleaved chunks and copies of encoders have rules of their
 * own. */
enum cs_schedule_live {
    CS_LIVE_DEPTH,      /* d + 1: what 1F1B keeps */
    CS_LIVE_ALL,        /* all slots of the step */
    CS_LIVE_PATH,       /* p, everywhere */
    CS_LIVE_TWICE,      /* 2 d + 2: 2 d + 1 before the first backward, one more with it */
    CS_LIVE_TWICE_PATH, /* 2 p - 1, everywhere */
};

/* Placements of encoders that the search tries a schedule with: bits of enum cs_placement. */
enum cs_schedule_takes {
    CS_TAKES_NONE = 0, /* not searched */
    CS_TAKES_OWN = 1 << CS_PLACE_OWN,
    CS_TAKES_APART = CS_TAKES_OWN | 1 << CS_PLACE_REPLICATED,
    CS_TAKES_SHARED = 1 << CS_PLACE_COLOCATED | 1 << CS_PLACE_REPLICATED,
    CS_TAKES_ANY = CS_TAKES_APART | CS_TAKES_SHARED
};

/* clang-format off */
enum cs_schedule_id {
#define X(id, name, layout, live, splits, encodes_all, takes, is_usual, help) CS_SCHEDULE_##id,
    CS_SCHEDULES_TABLE(X)
#undef X
    CS_SCHEDULES
};

/* clang-format on */

struct cs_schedule_info {
    enum cs_schedule_id id;
    const char *name;
    enum cs_schedule_layout layout;
    enum cs_schedule_live live;
    bool splits_backward, encodes_all;
    unsigned takes; /* bits of enum cs_placement */
    bool is_usual;
    const char *help; /* one sentence */
};

/* chunks of an LLM stage under interleaved; groups of slots that anchors encode ahead */
enum { CS_PLAN_CHUNKS = 2, CS_ANCHOR_WINDOW = 2 };

/* Live slots of a stage with depth ranks behind it, on a path of `path`, of a step of `slots`. */
int64_t cs_schedule_live_slots(const struct cs_schedule_info *schedule, int64_t depth, int64_t path,
                               int64_t slots);
/* ... of them those between the halves of their backward; 0: it is not split. */
int64_t cs_schedule_held_slots(const struct cs_schedule_info *schedule, int64_t depth, int64_t path,
                               int64_t slots);
const struct cs_schedule_info *cs_plan_schedule(int i); /* NULL: past the end */
/* The names of the schedules that programs can be made for; CS_PLAN lists them. */
enum cs_status cs_plan_check_schedule(const char *name, struct cs_err *err) CS_NODISCARD;
/* CS_PLAN lists the names. out NULL: only checked. */
enum cs_status cs_plan_schedule_find(const char *name, const struct cs_schedule_info **out,
                                     struct cs_err *err) CS_NODISCARD;

/* The plan's stages against its schedule. CS_PLAN: they do not fit, with what would. */
enum cs_status cs_plan_check_fits(const struct cs_plan *plan, struct cs_err *err) CS_NODISCARD;

/* CS_UNSUPPORTED: a plan that is simulated and verified, but that workers do not run: experts over several
 * ranks, shapes that differ within a branch or on a rank. */
enum cs_status cs_plan_check_runs(const struct cs_plan *plan, struct cs_err *err) CS_NODISCARD;

#endif
