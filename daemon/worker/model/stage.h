/* A stage as its rank runs it: layers bound to parameters, forward and backward over one slot.
 *
 * The backward stops at the lowest layer that needs a gradient. Layers below it, and every stage of
 * a frozen module with nothing trainable before it, run in inference mode and keep nothing. */
#ifndef CS_WORKER_MODEL_STAGE_H
#define CS_WORKER_MODEL_STAGE_H

#include "worker/layer/layers.h"

struct cs_stage_model {
    const struct cs_stage *stage;
    struct cs_layer_model *layer; /* (stage->n_layers) */
    int32_t encoder;              /* of its branch, -1: LLM */
    bool has_backward;
    int32_t lowest; /* first layer whose backward runs, n_layers: none */
    bool is_first;  /* begins with the embedding */
    bool is_last;   /* ends with the head */
    enum cs_recompute recompute;
};

enum cs_status cs_stage_new(const struct cs_graph *graph, const struct cs_plan *plan,
                            const struct cs_params *params, int32_t stage,
                            struct cs_stage_model **out, struct cs_err *err) CS_NODISCARD;
void cs_stage_free(struct cs_stage_model *stage); /* accepts NULL */

/* What a stage keeps of one slot between forward and backward. */
struct cs_saved {
    struct cs_scratch memory; /* of the forward */
    struct cs_scratch held;   /* of the input half of a split backward */
    struct cs_kept *kept;     /* (n_layers) */
    struct cs_later later;
    bool is_split; /* the input half of its backward has run, or is to run */
};

void cs_saved_free(struct cs_saved *saved); /* accepts NULL */

/* rows that leave the stage, and enter it, in a slot */
int32_t cs_stage_rows_in(const struct cs_stage_model *stage, const struct cs_input *input);
int32_t cs_stage_rows(const struct cs_stage_model *stage, const struct cs_input *input);

/* x: rows from the stage before (NULL for the first stage of a branch); ends->fill: rows of
 * encoders for the layers that take them in. y: where the last layer's rows go (NULL for the head).
 * saved NULL: evaluation, or nothing of this stage needs a backward. */
void cs_stage_fwd(const struct cs_stage_model *stage, struct cs_run *run, const void *x,
                  const struct cs_layer_ends *ends, void *y, struct cs_saved *saved);
/* dy: gradient of y (NULL for the head); dx: gradient of x, NULL where none is needed.
 * saved->is_split: the input half only, what the weight half reads stays in saved. */
void cs_stage_bwd(const struct cs_stage_model *stage, struct cs_run *run, const void *dy, void *dx,
                  const struct cs_layer_ends *ends, struct cs_saved *saved);
/* The weight half of a split backward; saved NULL: the slot has none, who watches is told all the
 * same, so that replicas with other slots do the same in the same order. */
void cs_stage_bwd_weight(const struct cs_stage_model *stage, struct cs_run *run,
                         struct cs_saved *saved);

#endif
