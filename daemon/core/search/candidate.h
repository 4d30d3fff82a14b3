/* Private to core/search: a layout on its way from the enumeration to the simulator. */
#ifndef CS_SEARCH_CANDIDATE_H
#define CS_SEARCH_CANDIDATE_H

#include "core/search/search.h"

struct cs_candidate {
    int64_t score_ns;
    int64_t order; /* of the enumeration: the last tie break */
    int32_t dp, n_ranks;
    int16_t option[CS_SEARCH_MAX_BRANCHES], pp[CS_SEARCH_MAX_BRANCHES];
    uint8_t modality;
    bool is_blind; /* cut and scored by blind costs */
};

struct cs_schedule_row {
    const char *name;
    unsigned modalities; /* bits that it orders */
    int32_t chunks;
};

extern const struct cs_schedule_row cs_search_schedules[CS_SEARCH_SCHEDULES];

/* the options with their defaults filled in */
struct cs_search_options cs_search_defaults(const struct cs_search_options *options);
int64_t cs_search_layer_ns(const struct cs_search_layer *layer, bool is_blind);

struct cs_enumeration {
    struct cs_candidate *best; /* ascending: score, ranks, order */
    int32_t n;
    int64_t n_scored, n_pruned;
    int64_t least_bytes; /* of what was pruned: the smallest average of a rank, 0: nothing was */
    int32_t least_branch, least_ranks;
};
/* The `keep` best layouts. */
enum cs_status cs_search_enumerate(const struct cs_search_problem *problem,
                                   const struct cs_search_options *options, bool is_blind,
                                   int32_t keep, struct cs_arena *arena, struct cs_enumeration *out,
                                   struct cs_err *err) CS_NODISCARD;
/* Cut, lower, simulate. CS_PLAN: does not fit in memory, or the schedule cannot order it;
 * nearest: bytes of the rank that needs most, when memory is the reason. */
enum cs_status cs_search_evaluate(const struct cs_search_problem *problem,
                                  const struct cs_search_options *options,
                                  const struct cs_candidate *candidate, int schedule,
                                  struct cs_arena *arena, struct cs_search_plan **out,
                                  int64_t *nearest, struct cs_err *err) CS_NODISCARD;

#endif
