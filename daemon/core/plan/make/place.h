/* From cuts to stages: names, layers, ranks and shares. */
#ifndef CS_PLAN_MAKE_PLACE_H
#define CS_PLAN_MAKE_PLACE_H

#include "core/plan/plan_schedule.h"

enum { CS_MAX_BRANCHES = CS_MAX_ENCODERS + 1 };

struct cs_cuts {
    int32_t n_stages[CS_MAX_BRANCHES]; /* of every branch */
    int *sizes[CS_MAX_BRANCHES];       /* layers per stage */
};

struct cs_placing {
    const struct cs_placement_info *usual;                  /* of encoders that say nothing else */
    const struct cs_placement_info *place[CS_MAX_BRANCHES]; /* the LLM's: own */
    /* whole on every rank of the LLM; these take turns at the slots */
    bool copies[CS_MAX_BRANCHES], shares[CS_MAX_BRANCHES];
    const struct cs_schedule_info *schedule;
    int32_t n_branches, llm;
    int32_t chunks;              /* of an LLM stage, 1: it is not cut further */
    int32_t cp;                  /* ranks of an LLM stage that split the rows of a slot */
    int32_t ep;                  /* ranks that share the experts of an LLM layer */
    int32_t tp[CS_MAX_BRANCHES]; /* ranks of a branch's stages that share its matrices */
    bool sp[CS_MAX_BRANCHES];    /* these split rows between products */
    /* ranks of a branch's stages: those of the LLM split its rows (cp), those of an encoder share its items */
    int32_t branch_cp[CS_MAX_BRANCHES];
    int32_t dp[CS_MAX_BRANCHES]; /* replicas of a branch */
};

/* Where the spec puts every branch under its schedule, in how many chunks the LLM. CS_PLAN: not a modality, or
 * not one that the schedule has, with the one that it has; chunks that it does not have. */
enum cs_status cs_placing_make(const struct cs_spec *spec, const struct cs_graph *graph,
                               struct cs_placing *out, struct cs_err *err) CS_NODISCARD;
/* any encoder is copied to the ranks of the LLM; its cut is one stage */
bool cs_placing_has_copies(const struct cs_placing *placing);

/* Which key puts a branch where it is, as what, and what would give it ranks of its own: for errors. */
struct cs_placing_words {
    const char *key, *word, *own;
};

struct cs_placing_words cs_placing_words(const struct cs_placing *placing, int32_t branch);

/* stages in dataflow order, names, ids, layers, ranks and shares, see make/planner.h; the LLM's cut
 * has chunks times its ranks. CS_PLAN when the counts do not allow it. */
enum cs_status cs_place_stages(const struct cs_graph *graph, const struct cs_placing *placing,
                               const struct cs_cuts *cuts, struct cs_arena *arena,
                               struct cs_plan *plan, struct cs_err *err) CS_NODISCARD;
/* longest chain of stages after this one; index: of the stage in its branch */
int32_t cs_place_depth(const struct cs_graph *graph, const struct cs_cuts *cuts, int32_t branch,
                       int32_t index);

#endif
