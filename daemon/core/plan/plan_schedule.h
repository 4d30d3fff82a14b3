/* The table of schedules: what each asks of a plan, what it keeps, what the search tries it with.
 * A new schedule is a row here and one file of core/sched/orders that makes its orders
 * (cs_generator_<id>). */
#ifndef CS_PLAN_PLAN_SCHEDULE_H
#define CS_PLAN_PLAN_SCHEDULE_H

#include "core/plan/layout.h"
#include "core/plan/plan.h"

/* how the schedule wants the stages placed */
enum cs_schedule_layout {
    CS_LAYOUT_STAGES,   /* as the modality says */
    CS_LAYOUT_CHUNKS,   /* stage i of the LLM on its rank i % p; encoders on ranks of their own */
    CS_LAYOUT_COLOCATED /* a whole copy of every encoder on each rank of the LLM, which share the
                           slots */
};

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

/* X(id, name, layout, live, splits, encodes_all, takes, is_usual, help)
 *
 * id           of its generator: core/sched/orders defines cs_generator_<id>
 * splits       its programs have BWD_INPUT and BWD_WEIGHT instead of BWD
 * encodes_all  encoders see all slots of the step before the first backward
 * is_usual     searched unless a script says otherwise */
/* clang-format off */
#define CS_SCHEDULES_TABLE(X)                                                                      \
    X(1f1b,        "1f1b",        STAGES,    DEPTH,      false, false, ANY,    true,               \
      "one forward, one backward, over the graph of stages")                                       \
    X(gpipe,       "gpipe",       STAGES,    ALL,        false, false, APART,  false,              \
      "all forwards, then all backwards")                                                          \
    X(interleaved, "interleaved", CHUNKS,    DEPTH,      false, false, OWN,    true,               \
      "1F1B over chunks: a rank of the LLM has several stages")                                    \
    X(zb_h1,       "zb-h1",       STAGES,    PATH,       true,  false, APART,  true,               \
      "weight gradients fill bubbles, memory of 1F1B")                                             \
    X(zb_h2,       "zb-h2",       STAGES,    TWICE,      true,  false, APART,  false,              \
      "no bubble between first and last work, twice the live slots")                               \
    X(zb_h2_late,  "zb-h2-late",  STAGES,    TWICE_PATH, true,  false, NONE,   false,              \
      "zb-h2 with weight gradients as late as memory allows")                                      \
    X(three_phase, "three-phase", COLOCATED, DEPTH,      false, true,  SHARED, false,              \
      "encoders of all slots, then the LLM, then the encoders' backwards")                         \
    X(anchors,     "anchors",     COLOCATED, DEPTH,      false, false, SHARED, true,               \
      "encoders a few groups of slots ahead of the LLM")

/* clang-format on */

enum cs_schedule_id {

#define X(id, name, layout, live, splits, encodes_all, takes, is_usual, help) CS_SCHEDULE_##id,
    CS_SCHEDULES_TABLE(X)
#undef X
        CS_SCHEDULES
};

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
