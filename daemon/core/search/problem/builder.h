/* Private to core/search/problem: what options are made of. */
#ifndef CS_SEARCH_PROBLEM_BUILDER_H
#define CS_SEARCH_PROBLEM_BUILDER_H

#include "core/model/keeps.h"
#include "core/plan/cost/context_work.h"
#include "core/plan/cost/cost.h"
#include "core/search/problem/problem.h"
#include "core/search/problem/widths.h"

enum { CS_PROBLEM_CUTS = 2 * CS_SEARCH_WIDEST * CS_SEARCH_WIDEST };

/* Graphs as ranks have them, made once; those of one branch at a time. */
struct cs_problem_cuts {
    struct cs_problem_cut {
        int32_t tp, ep;
        bool sp;
        const struct cs_graph *graph;
    } cut[CS_PROBLEM_CUTS];

    int32_t n, branch;
};

struct cs_problem_builder {
    const struct cs_graph *graph; /* as a rank has it that shares experts with others */
    const struct cs_graph *whole;
    const struct cs_device_class *device;
    const struct cs_profile *profile;
    struct cs_slot_budget budget;
    struct cs_layer_cost *cost; /* (n_layers) of tp = cp = 1: measured where a profile has it */
    int32_t node, widest;       /* ranks of a node; of a tp * cp group */
    const struct cs_spec *spec;
    int32_t n_widths, width[CS_SEARCH_WIDEST]; /* tp, cp and ep that are tried */
    struct cs_context_work *keys, *own_keys,
        *heads; /* (n_widths) of as many ranks, as what moves; own keys first */
    struct cs_problem_cuts *cuts;
    const struct cs_graph *
        spread[CS_SEARCH_WIDEST]; /* (n_widths) with as many ranks of experts; NULL: it cannot be */
    struct cs_arena *arena;
};

struct cs_problem_at { /* one layer under one layout */
    int32_t tp, cp, ep;
    bool sp;
    enum cs_recompute recompute;
    struct cs_layer_work work;
    int64_t rows;                          /* that one rank has room for */
    const struct cs_context_work *context; /* of the LLM; NULL: rows are not split, or evenly */
    const struct cs_context_work
        *other; /* what else could move in it (cs_search_option), or NULL */
};

/* what so many bytes take; no time where the speed is not known */
static inline int64_t cs_problem_bytes_ns(int64_t bytes, int64_t bytes_per_s)
{
    return bytes_per_s > 0 ? (int64_t)((double)bytes * 1e9 / (double)bytes_per_s) : 0;
}

/* numbers that a layer keeps of a row and its level of recompute does not */
int64_t cs_problem_dropped(const struct cs_problem_builder *b, const struct cs_layer *layer,
                           const struct cs_problem_at *at, enum cs_keep_share share);
/* The graph as a rank has it that shares matrices and experts of a branch with others. */
const struct cs_graph *cs_problem_cut(const struct cs_problem_builder *b, int32_t branch,
                                      const struct cs_problem_at *at);
/* saved_bytes, held_bytes and work_bytes of the layer */
void cs_problem_count_saved(const struct cs_problem_builder *b, const struct cs_layer *layer,
                            const struct cs_problem_at *at, struct cs_search_layer *out);
/* of a slot's backward: what is made again, given what its forward takes */
int64_t cs_problem_redo_ns(const struct cs_problem_builder *b, const struct cs_layer *layer,
                           const struct cs_problem_at *at, int64_t fwd_ns);

#endif
