/* What follows from the stages of a plan. The planner fills it in; the reader of a plan makes it
 * again and demands equality. */
#ifndef CS_PLAN_DERIVE_H
#define CS_PLAN_DERIVE_H

#include "core/plan/plan.h"

/* Fills edges, has_backward, needs_input_grad and the tied stages from stages, graph and
 * budgets. */
void cs_plan_derive(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan);

/* What goes over an edge behind a layer, of a slot and of all ranks of a context; feed -1: to the next layer of its
 * branch. is_read_whole: no rank is content with the rows of its part. */
struct cs_layer_rows {
    int64_t rows;
    int32_t width; /* elements per row */
    int64_t load_bytes;
    bool is_inner, is_read_whole;
};

struct cs_layer_rows cs_layer_rows(const struct cs_graph *graph,
                                   const struct cs_slot_budget *budget, int32_t layer,
                                   int32_t feed);
/* Of ranks that split the rows of a block at an end of their stage each reads its own ones alone, unless all
 * are put in another order for it (worker/model/stage_rows.c). */
bool cs_layer_reads_own_rows(const struct cs_layer *layer, bool splits_rows, int32_t cp);

/* Of n elements of a tied table those that each of so many replicas updates: equal parts of whole units, the last of
 * which are shorter or empty (worker/params/params.c). */
int64_t cs_tied_part(int64_t n, int32_t holders);

#endif
