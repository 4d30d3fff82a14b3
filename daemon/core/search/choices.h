/* Private to core/search: the ways one branch can be laid out, before they are combined. */
#ifndef CS_SEARCH_CHOICES_H
#define CS_SEARCH_CHOICES_H

#include "core/search/candidate.h"
#include "core/search/problem/widths.h"

struct cs_choice {
    int16_t option, pp;
    uint8_t place;
    struct cs_search_ratio ratio; /* own ranks: dp over that of the LLM */
    int32_t ranks, block;         /* of one replica: tp * cp * pp, tp * cp */
    int64_t room;                 /* own ranks for one replica of the LLM, in 1/240 */
    int64_t worst_ns, total_ns;
    int64_t weight_bytes, grad_bytes, optim_bytes, saved_bytes; /* of one replica, all stages */
    bool has_backward;
    bool is_light; /* fits with room to spare whatever the others do: bytes need no comparison */
};

struct cs_choices {
    struct cs_choice *at;
    int32_t n;
};

/* (n_branches). is_small: few enough that nothing was dropped but what cannot be. CS_PLAN: a
 * branch has none. */
enum cs_status cs_choices_make(const struct cs_search_problem *problem,
                               const struct cs_search_options *options, struct cs_arena *arena,
                               struct cs_choices *out, bool *is_small,
                               struct cs_err *err) CS_NODISCARD;

#endif
