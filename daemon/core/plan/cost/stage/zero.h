/* Ranks with the same weights divide among them the optimizer's state (level 1), gradients too (2),
 * weights too (3; ZeRO, Rajbhandari et al. 2020): what a rank keeps of a layer, and what the traffic of
 * levels 2 and 3 adds to a slot. Gradients are summed whenever the backward of a slot has passed a
 * layer, so that only the own part stays; weights come before a layer, forward and backward, and are
 * dropped behind it. The table of a tied embedding stays whole: two layers, perhaps of two ranks, read
 * it. */
#ifndef CS_PLAN_COST_ZERO_H
#define CS_PLAN_COST_ZERO_H

#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/profile.h"
#include "core/plan/plan.h"

/* Layers that have room for what is whole while they run: on a GPU one's comes or goes while the other works, weights
 * in two buffers in turn, gradients where cs_zero_places puts them; a CPU rank has one. */
enum { CS_ZERO_TURNS = 2 };

static inline int32_t cs_zero_turns(int element)
{
    return element == 4 ? 1 : CS_ZERO_TURNS;
}

/* Of bytes that n ranks divide what one keeps. */
static inline int64_t cs_zero_part(int64_t bytes, int64_t n)
{
    return n > 1 ? bytes / n : bytes;
}

/* Elements of a layer that are divided: all but a tied table, which is listed with the embedding. */
struct cs_zero_parts {
    int64_t weights, trained;
};
struct cs_zero_parts cs_zero_divided(const struct cs_graph *graph, const struct cs_layer *layer);
/* Bytes of whole gradients while layers run: of the largest two that take turns; of a CPU rank, one. bytes (n): of
 * every layer of the model, 0 for those that a rank does not have or not divide. */
int64_t cs_zero_room(const int64_t *bytes, int32_t n, int32_t turns);
/* Where each layer's lie in so many bytes, at (n). A backward runs from the last to the first, and who writes where a
 * gradient was waits until it is summed: so a layer is placed where what it shares bytes with was run as long before
 * as can be. Two equal layers take turns; small ones lie beside each other, so that none waits for a large one. */
void cs_zero_places(const int64_t *bytes, int32_t n, int64_t capacity, int64_t *at);
/* cs_layer_bytes of one of `holders` ranks that have the layer, every ep-th with the same experts */
struct cs_layer_bytes cs_replica_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                                       const struct cs_slot_budget *budget,
                                       const struct cs_device_class *device, int32_t zero,
                                       int32_t holders, int32_t ep);

/* Bytes for what is whole while layers of a rank run: of each turn the largest weights and, apart from them, the
 * largest gradients (worker/params/arrange.c), whichever of its stages has the layers. */
struct cs_zero_whole {
    int64_t weights[CS_ZERO_TURNS], grads[CS_ZERO_TURNS];
};

/* layer: its number among all of the model; turns: cs_zero_turns */
void cs_zero_whole_add(struct cs_zero_whole *whole, int32_t layer, int32_t turns, int64_t weights,
                       int64_t grads);
int64_t cs_zero_whole_bytes(const struct cs_zero_whole *whole);
/* of a rank of programs */
int64_t cs_rank_zero_bytes(const struct cs_graph *graph, const struct cs_plan *plan, int32_t rank,
                           int element);

/* What a rank runs in a slot. A layer with its times in it, bytes of weights that come before it and of gradients that
 * are summed behind it, 0: none; has_backward: it is run backward. A part is a stage of the rank: layers that follow
 * each other; has_halves: its backward is two passes, else bwd_input_ns and bwd_weight_ns are of one. */
struct cs_zero_layer {
    struct cs_layer_cost cost;
    int64_t weights, grads;
    bool has_backward, is_head;
};

struct cs_zero_part {
    int32_t first_layer, n_layers;
    bool has_backward, has_halves;
};

struct cs_zero_rank {
    const struct cs_device_class *device; /* its link is that of the holders */
    const struct cs_zero_layer *layer;    /* (n_layers) */
    const struct cs_zero_part *part;      /* (n_parts) */
    int32_t n_layers, n_parts, holders, turns, slots;
};

/* (n_layers) what layers take longer for their exchanges, in the mean of all slots: their waits, and computing beside
 * them. Of a part without halves all of its backward is in bwd_input_ns. */
struct cs_zero_more {
    double *fwd_ns, *bwd_input_ns, *bwd_weight_ns;
};

void cs_zero_rank_times(const struct cs_zero_rank *rank, struct cs_arena *arena,
                        struct cs_zero_more *more);
/* Times of the stage's layers into the rank's (of all layers, as cost): in proportion to their own those of the stage,
 * which has more beside them. has_halves: a backward has two passes; else all of it is in the one. */
void cs_zero_take_times(const struct cs_layer_cost *cost, const struct cs_stage *stage,
                        bool has_halves, struct cs_zero_layer *layer);
/* The stage takes as much longer as its layers do. */
void cs_zero_charge(const struct cs_zero_more *more, struct cs_stage *stage);
/* Times of stages grow by what their ranks wait for these exchanges, and by what computing takes longer beside them
 * (zero_times.c); is_split: the schedule splits backwards. After all else that changes the times of layers. */
void cs_zero_times(const struct cs_graph *graph, const struct cs_device_class *device,
                   const struct cs_layer_cost *cost, bool is_split, struct cs_plan *plan);

#endif
