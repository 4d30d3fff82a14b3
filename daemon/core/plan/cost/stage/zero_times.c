/* What the traffic of levels 2 and 3 of ZeRO adds to the passes of a slot: its layers and their exchanges in the order
 * in which worker/comm/divided.c runs them, on two streams.
 *
 * Before a layer its weights are awaited, and before it writes gradients that the sums have read which lie there; then
 * the weights of the layer that comes next begin, into a buffer that nobody reads any more. Behind what makes gradients
 * of a layer their sum begins, and its part is added to the slots' before. So with room for two layers a sum has the
 * next layer to hide behind, or several that are small, weights the layer before, if only that of the rank's stage
 * before; a slot begins with weights that nothing hides, unless the last one has left them. With room for one (CPU
 * ranks) everything is awaited where it begins. */
#include <math.h>

#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/links/beside.h"
#include "core/plan/cost/stage/zero.h"

/* One rank. */
struct rank {
    const struct cs_zero_rank *of;
    bool has_slot; /* gradients are added to those of a slot before */
    double part;   /* of all slots those like this one */
    struct cs_lanes lanes;
    int32_t holds[CS_ZERO_TURNS]; /* the layer whose weights are whole, -1 */
    int64_t come[CS_ZERO_TURNS];  /* exchanges, 0: none */
    int64_t *at, *sum;            /* (n_layers) where gradients lie, the last exchange of them */
};

/* Passes of a slot, and what of a stage's and a layer's times they are. */
enum pass { FORWARD, BACKWARD, INPUT_HALF, WEIGHT_HALF };

static int64_t part_of(enum pass pass, int64_t fwd, int64_t input, int64_t weight)
{
    const int64_t parts[] = {fwd, input + weight, input, weight};
    return parts[pass];
}

static int64_t layer_ns(const struct cs_zero_layer *l, enum pass pass)
{
    return part_of(pass, l->cost.fwd_ns, l->cost.bwd_input_ns, l->cost.bwd_weight_ns);
}

static int64_t exchange(struct rank *x, struct cs_beside one)
{
    const int64_t number = cs_lanes_exchange(&x->lanes, one);
    if (x->of->turns == 1)
        cs_lanes_await(&x->lanes, number);
    return number;
}

static void start_weights(struct rank *x, int32_t layer)
{
    const int32_t turn = layer % x->of->turns;
    const int64_t bytes = x->of->layer[layer].weights;
    if (bytes == 0 || x->holds[turn] == layer)
        return;
    x->holds[turn] = layer;
    x->come[turn] =
        exchange(x, cs_exchange_beside(x->of->device, CS_LINK_ALL_GATHER, x->of->holders, bytes));
}

/* A reduce-scatter, then on the same stream the addition: two numbers read, one written. */
static void start_sum(struct rank *x, int32_t layer)
{
    const struct cs_device_class *device = x->of->device;
    const int64_t bytes = x->of->layer[layer].grads, own = bytes / x->of->holders;
    if (bytes == 0)
        return;
    struct cs_beside sum =
        cs_exchange_beside(device, CS_LINK_REDUCE_SCATTER, x->of->holders, bytes);
    const int64_t add = x->has_slot && device->bytes_per_s > 0
                            ? cs_divide_up((cs_u128)(3 * own) * 1000000000u, device->bytes_per_s)
                            : 0;
    sum.alone_ns += add;
    sum.beside_ns += add;
    x->sum[layer] = exchange(x, sum);
}

static bool is_run(const struct cs_zero_rank *of, int32_t layer, enum pass pass)
{
    return layer >= 0 && layer < of->n_layers && (pass == FORWARD || of->layer[layer].has_backward);
}

static bool makes_in(const struct cs_zero_layer *layer, enum pass pass)
{
    if (layer->is_head) /* its loss does */
        return pass == FORWARD;
    return pass == BACKWARD || pass == WEIGHT_HALF;
}

/* Gradients of other layers that read where it writes. */
static void await_sums(struct rank *x, int32_t layer)
{
    const struct cs_zero_layer *of = x->of->layer;
    for (int32_t i = 0; i < x->of->n_layers; i++)
        if (x->at[i] < x->at[layer] + of[layer].grads && x->at[layer] < x->at[i] + of[i].grads)
            cs_lanes_await(&x->lanes, x->sum[i]);
}

/* Who makes gradients waits before it does, so the head before its forward, and of halves the one with the weights (what
 * the other makes is small). Returns what the layer takes in
 * this pass, with its waits. */
static double run_layer(struct rank *x, int32_t layer, enum pass pass)
{
    const struct cs_zero_layer *of = &x->of->layer[layer];
    const int32_t turn = layer % x->of->turns, step = pass == FORWARD ? 1 : -1;
    const double begin = x->lanes.now_ns;
    if (pass != WEIGHT_HALF)
        start_weights(x, layer);
    if (x->holds[turn] == layer)
        cs_lanes_await(&x->lanes, x->come[turn]);
    if (of->grads > 0 && makes_in(of, pass))
        await_sums(x, layer);
    if (x->of->turns > 1 && pass != WEIGHT_HALF && is_run(x->of, layer + step, pass))
        start_weights(x, layer + step);
    cs_lanes_compute(&x->lanes, layer_ns(of, pass));
    if (makes_in(of, pass))
        start_sum(x, layer);
    return x->lanes.now_ns - begin;
}

/* more: (n_layers) grows by what layers take longer than their work */
static void run_pass(struct rank *x, const struct cs_zero_part *part, enum pass pass, double *more)
{
    for (int32_t i = 0; i < part->n_layers; i++) {
        const int32_t layer = part->first_layer + (pass == FORWARD ? i : part->n_layers - 1 - i);
        if (!is_run(x->of, layer, pass))
            continue;
        const double ns = run_layer(x, layer, pass);
        more[layer] += x->part * (ns - (double)layer_ns(&x->of->layer[layer], pass));
    }
}

/* A slot through all parts of the rank and back. */
static void run_slot(struct rank *x, struct cs_zero_more *more)
{
    for (int32_t i = 0; i < x->of->n_parts; i++)
        run_pass(x, &x->of->part[i], FORWARD, more->fwd_ns);
    for (int32_t i = x->of->n_parts - 1; i >= 0; i--) {
        const struct cs_zero_part *part = &x->of->part[i];
        if (!part->has_backward)
            continue;
        run_pass(x, part, part->has_halves ? INPUT_HALF : BACKWARD, more->bwd_input_ns);
        if (part->has_halves)
            run_pass(x, part, WEIGHT_HALF, more->bwd_weight_ns);
    }
}

/* Where gradients of the rank's layers lie that are whole for a while. */
static void place_gradients(const struct cs_zero_rank *of, int64_t *bytes, int64_t *at)
{
    for (int32_t i = 0; i < of->n_layers; i++)
        bytes[i] = of->layer[i].grads;
    cs_zero_places(bytes, of->n_layers, cs_zero_room(bytes, of->n_layers, of->turns), at);
}

/* The first slot has no sums before it, nor weights that a slot has left; from the third on they are alike. What the
 * last one leaves is not theirs: the step waits for it (core/sched/sim/overlap.c). */
void cs_zero_rank_times(const struct cs_zero_rank *of, struct cs_arena *arena,
                        struct cs_zero_more *more)
{
    const int32_t n = of->n_layers, all = of->slots > 1 ? of->slots : 1;
    int64_t *bytes = CS_NEW_ARRAY(arena, int64_t, n + 1);
    struct rank x = {
        .of = of,
        .at = CS_NEW_ARRAY(arena, int64_t, n + 1),
        .sum = CS_NEW_ARRAY(arena, int64_t, n + 1),
        .holds = {-1, -1}
    };
    *more = (struct cs_zero_more){.fwd_ns = CS_NEW_ARRAY(arena, double, n + 1),
                                  .bwd_input_ns = CS_NEW_ARRAY(arena, double, n + 1),
                                  .bwd_weight_ns = CS_NEW_ARRAY(arena, double, n + 1)};
    place_gradients(of, bytes, x.at);
    for (int32_t i = 0; i < 3 && i < all; i++) {
        x.has_slot = i > 0;
        x.part = (double)(i < 2 ? 1 : all - 2) / (double)all;
        run_slot(&x, more);
    }
}

/* ---- of a plan ---- */

static bool divides(const struct cs_plan *plan, int32_t rank)
{
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == rank && plan->stages[s].zero >= 2)
            return cs_plan_holders(plan, rank) > 1;
    return false;
}

/* The stage's times are its layers', and more: recomputing, shares of the device. */
static int64_t scaled(int64_t ns, int64_t of, int64_t whole)
{
    return of > 0 ? (int64_t)((double)ns * ((double)whole / (double)of)) : 0;
}

/* Of one rank, by layers of the whole model: those of others have nothing that is divided. */
static void take_layers(const struct cs_graph *graph, const struct cs_device_class *device,
                        const struct cs_stage *s, struct cs_zero_layer *layer)
{
    const int64_t grad = cs_state_bytes(graph->keeps_bf16, device).grad,
                  weight = cs_device_element_bytes(device);
    for (int32_t i = s->first_layer; i < s->first_layer + s->n_layers; i++) {
        const struct cs_zero_parts parts = cs_zero_divided(graph, &graph->layers[i]);
        layer[i].weights = s->zero >= 3 ? parts.weights * weight : 0;
        layer[i].grads = s->zero >= 2 ? parts.trained * grad : 0;
    }
}

void cs_zero_take_times(const struct cs_layer_cost *cost, const struct cs_stage *s, bool has_halves,
                        struct cs_zero_layer *layer)
{
    struct cs_layer_cost all = {0};
    const int32_t end = s->first_layer + s->n_layers;
    for (int32_t i = s->first_layer; i < end; i++) {
        all.fwd_ns += cost[i].fwd_ns;
        all.bwd_input_ns += cost[i].bwd_input_ns;
        all.bwd_weight_ns += cost[i].bwd_weight_ns;
    }
    for (int32_t i = s->first_layer; i < end; i++) {
        struct cs_layer_cost *own = &layer[i].cost;
        own->fwd_ns = scaled(cost[i].fwd_ns, all.fwd_ns, s->fwd_ns);
        own->bwd_input_ns =
            has_halves
                ? scaled(cost[i].bwd_input_ns, all.bwd_input_ns, s->bwd_input_ns)
                : scaled(cost[i].bwd_input_ns + cost[i].bwd_weight_ns,
                         all.bwd_input_ns + all.bwd_weight_ns, s->bwd_input_ns + s->bwd_weight_ns);
        own->bwd_weight_ns =
            has_halves ? scaled(cost[i].bwd_weight_ns, all.bwd_weight_ns, s->bwd_weight_ns) : 0;
    }
}

static int64_t sum_of(const double *more, const struct cs_stage *s)
{
    double ns = 0;
    for (int32_t i = s->first_layer; i < s->first_layer + s->n_layers; i++)
        ns += more[i];
    return llround(ns);
}

void cs_zero_charge(const struct cs_zero_more *more, struct cs_stage *s)
{
    const int64_t input = sum_of(more->bwd_input_ns, s);
    int64_t *back = s->bwd_input_ns == 0 ? &s->bwd_weight_ns : &s->bwd_input_ns;
    s->fwd_ns += sum_of(more->fwd_ns, s);
    *back += input;
    s->bwd_weight_ns += sum_of(more->bwd_weight_ns, s);
}

/* What a rank runs, into room for it. */
static void take_rank(const struct cs_graph *graph, const struct cs_layer_cost *cost, bool is_split,
                      const struct cs_plan *plan, int32_t rank, struct cs_zero_layer *layer,
                      struct cs_zero_part *part, struct cs_zero_rank *out)
{
    for (int32_t i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *l = &graph->layers[i];
        layer[i] =
            (struct cs_zero_layer){.has_backward = l->needs_input_grad || l->needs_weight_grad,
                                   .is_head = l->kind == CS_LAYER_HEAD};
    }
    for (int32_t i = 0; i < plan->n_stages; i++) {
        const struct cs_stage *s = &plan->stages[i];
        const bool has_halves = is_split && s->needs_input_grad;
        if (s->rank != rank)
            continue;
        take_layers(graph, out->device, s, layer);
        cs_zero_take_times(cost, s, has_halves, layer);
        part[out->n_parts++] =
            (struct cs_zero_part){s->first_layer, s->n_layers, s->has_backward, has_halves};
    }
}

void cs_zero_times(const struct cs_graph *graph, const struct cs_device_class *device,
                   const struct cs_layer_cost *cost, bool is_split, struct cs_plan *plan)
{
    struct cs_arena *arena = cs_arena_new(0);
    const int32_t n = graph->n_layers;
    struct cs_zero_layer *layer = CS_NEW_ARRAY(arena, struct cs_zero_layer, n + 1);
    struct cs_zero_part *part = CS_NEW_ARRAY(arena, struct cs_zero_part, plan->n_stages + 1);
    for (int32_t rank = 0; rank < plan->n_ranks; rank++) {
        struct cs_zero_rank of = {.device = device,
                                  .layer = layer,
                                  .part = part,
                                  .n_layers = n,
                                  .holders = cs_plan_holders(plan, rank),
                                  .turns = cs_zero_turns(cs_device_element_bytes(device)),
                                  .slots = cs_plan_own_slots(plan, plan->slots)};
        if (!divides(plan, rank))
            continue;
        struct cs_zero_more more;
        take_rank(graph, cost, is_split, plan, rank, layer, part, &of);
        cs_zero_rank_times(&of, arena, &more);
        for (int32_t s = 0; s < plan->n_stages; s++)
            if (plan->stages[s].rank == rank)
                cs_zero_charge(&more, &plan->stages[s]);
    }
    cs_arena_free(arena);
}
