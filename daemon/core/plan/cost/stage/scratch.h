/* Memory of a rank beside what its stages keep: scratch of the largest action, what a split
 * backward holds, rows on their way. The worker plans its own exactly (worker/memory/plan.h); this
 * is what it comes to, within a few percent. */
#ifndef CS_PLAN_COST_SCRATCH_H
#define CS_PLAN_COST_SCRATCH_H

#include "core/model/keeps.h"
#include "core/plan/context.h"

/* What the ranks of a context exchange of a slot. Those of an encoder share items, and exchange nothing. */
struct cs_slot_exchange {
    struct cs_context_degrees degrees;
    int64_t seq;                 /* rows of a slot */
    bool moves_heads, own_first; /* as a plan's moves_heads, keys_own_first */
};

/* What a layer takes for that while it runs, with rows of its own; 0 where one rank has them all. */
int64_t cs_layer_context_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                               const struct cs_slot_exchange *exchange, int64_t rows, int element);
/* Scratch bytes of a layer, as a rank has it (cs_tp_view), with rows of its own; not what a context exchanges. */
int64_t cs_layer_scratch_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                               int64_t rows, enum cs_recompute recompute, int element);
/* What it keeps of a slot beside saved_bytes between the halves of a split backward. */
int64_t cs_layer_held_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                            int64_t rows, enum cs_recompute recompute, int element);
/* Scratch bytes of the largest action of a stage, beside what is kept and what ZeRO makes whole meanwhile (zero.h).
 * element: bytes of a weight or activation element (cs_device_element_bytes). */
int64_t cs_stage_scratch_bytes(const struct cs_graph *graph, const struct cs_plan *plan,
                               int32_t stage, int element);
/* What a slot keeps beside saved_bytes between the halves of a split backward. */
int64_t cs_stage_held_bytes(const struct cs_graph *graph, const struct cs_plan *plan, int32_t stage,
                            int element);
/* Rows and gradients on their way between a rank's stages and to others, and the gradient of a tied
 * embedding that comes from its other rank. n_buffers: (n_edges, 2)
 * of the rank that sends the edge's rows, and of the one that receives them */
int64_t cs_rank_boundary_bytes(const struct cs_plan *plan, int32_t rank, const int32_t *n_buffers,
                               int element);

#endif
