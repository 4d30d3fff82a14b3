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
#include <stdlib.h>

#include "core/plan/cost/beside.h"
#include "core/plan/cost/round.h"
#include "core/plan/cost/stage/zero.h"

/* One rank. */
struct rank {
    const struct cs_graph *graph;
    const struct cs_device_class *device;
    const struct cs_layer_cost *cost;
    struct cs_plan *plan;
    int32_t rank, holders, turns;
    bool is_split;
    bool has_slot;   /* gradients are added to those of a slot before */
    bool is_charged; /* stages pay for what is run now */
    struct cs_lanes lanes;
    int32_t holds[CS_ZERO_TURNS]; /* the layer whose weights are whole, -1 */
    int64_t come[CS_ZERO_TURNS];  /* exchanges, 0: none */
    int64_t *bytes, *at,
        *sum; /* (graph->n_layers) of gradients, where they lie, the last exchange of them */
};

/* Passes of a slot, and what of a stage's and a layer's times they are. */
enum pass { FORWARD, BACKWARD, INPUT_HALF, WEIGHT_HALF };

static int64_t part_of(enum pass pass, int64_t fwd, int64_t input, int64_t weight)
{
    const int64_t parts[] = {fwd, input + weight, input, weight};
    return parts[pass];
}

static int64_t works_of(const struct cs_stage *s, enum pass pass)
{
    return part_of(pass, s->fwd_ns, s->bwd_input_ns, s->bwd_weight_ns);
}

static int64_t layer_ns(const struct rank *x, int32_t layer, enum pass pass)
{
    const struct cs_layer_cost *c = &x->cost[layer];
    return part_of(pass, c->fwd_ns, c->bwd_input_ns, c->bwd_weight_ns);
}

/* What is whole of a layer's weights only while it runs; of layers that the rank does not have nothing. */
static int64_t weights_of(const struct rank *x, int32_t layer)
{
    for (int32_t i = 0; i < x->plan->n_stages; i++) {
        const struct cs_stage *s = &x->plan->stages[i];
        if (s->rank == x->rank && layer >= s->first_layer && layer < s->first_layer + s->n_layers)
            return s->zero >= 3 ? cs_zero_divided(x->graph, &x->graph->layers[layer]).weights : 0;
    }
    return 0;
}

static int64_t exchange(struct rank *x, struct cs_beside one)
{
    const int64_t number = cs_lanes_exchange(&x->lanes, one);
    if (x->turns == 1)
        cs_lanes_await(&x->lanes, number);
    return number;
}

static void start_weights(struct rank *x, int32_t layer)
{
    const int32_t turn = layer % x->turns;
    const int64_t n = weights_of(x, layer);
    if (n == 0 || x->holds[turn] == layer)
        return;
    x->holds[turn] = layer;
    x->come[turn] = exchange(x, cs_exchange_beside(x->device, CS_LINK_ALL_GATHER, x->holders,
                                                   n * cs_device_element_bytes(x->device)));
}

/* A reduce-scatter, then on the same stream the addition: two numbers read, one written. */
static void start_sum(struct rank *x, int32_t layer)
{
    const int64_t bytes = x->bytes[layer];
    if (bytes == 0)
        return;
    struct cs_beside sum = cs_exchange_beside(x->device, CS_LINK_REDUCE_SCATTER, x->holders, bytes);
    const int64_t add = x->has_slot ? cs_divide_up((cs_u128)(3 * bytes / x->holders) * 1000000000u,
                                                   x->device->bytes_per_s)
                                    : 0;
    sum.alone_ns += add;
    sum.beside_ns += add;
    x->sum[layer] = exchange(x, sum);
}

static bool is_run(const struct rank *x, int32_t layer, enum pass pass)
{
    if (layer < 0 || layer >= x->graph->n_layers)
        return false;
    const struct cs_layer *l = &x->graph->layers[layer];
    return pass == FORWARD || l->needs_input_grad || l->needs_weight_grad;
}

static bool makes_in(const struct cs_layer *layer, enum pass pass)
{
    if (layer->kind == CS_LAYER_HEAD) /* its loss does */
        return pass == FORWARD;
    return pass == BACKWARD || pass == WEIGHT_HALF;
}

/* Gradients of other layers that read where it writes. */
static void await_sums(struct rank *x, int32_t layer)
{
    for (int32_t i = 0; i < x->graph->n_layers; i++)
        if (x->at[i] < x->at[layer] + x->bytes[layer] && x->at[layer] < x->at[i] + x->bytes[i])
            cs_lanes_await(&x->lanes, x->sum[i]);
}

/* The head's loss writes what its backward does not: it waits before its forward alone. ns: of the layer in this pass */
static void run_layer(struct rank *x, const struct cs_stage *s, int32_t layer, enum pass pass,
                      int64_t ns)
{
    const int32_t turn = layer % x->turns, step = pass == FORWARD ? 1 : -1;
    const bool is_head = x->graph->layers[layer].kind == CS_LAYER_HEAD;
    if (pass != WEIGHT_HALF)
        start_weights(x, layer);
    if (x->holds[turn] == layer)
        cs_lanes_await(&x->lanes, x->come[turn]);
    if (s->zero >= 2 && is_head == (pass == FORWARD))
        await_sums(x, layer);
    if (x->turns > 1 && pass != WEIGHT_HALF && is_run(x, layer + step, pass))
        start_weights(x, layer + step);
    cs_lanes_compute(&x->lanes, ns);
    if (makes_in(&x->graph->layers[layer], pass))
        start_sum(x, layer);
}

/* The stage's times are its layers', and more: recomputing, shares of the device. */
static int64_t scaled(int64_t ns, int64_t of, int64_t whole)
{
    return of > 0 ? (int64_t)((double)ns * ((double)whole / (double)of)) : 0;
}

/* Returns what the pass takes longer than its work. */
static int64_t run_pass(struct rank *x, const struct cs_stage *s, enum pass pass)
{
    const int64_t whole = works_of(s, pass);
    const double begin = x->lanes.now_ns;
    int64_t all = 0;
    for (int32_t i = 0; i < s->n_layers; i++)
        all += layer_ns(x, s->first_layer + i, pass);
    for (int32_t i = 0; i < s->n_layers; i++) {
        const int32_t layer = s->first_layer + (pass == FORWARD ? i : s->n_layers - 1 - i);
        if (is_run(x, layer, pass))
            run_layer(x, s, layer, pass, scaled(layer_ns(x, layer, pass), all, whole));
    }
    const int64_t more = llround(x->lanes.now_ns - begin) - whole;
    return more > 0 ? more : 0;
}

/* Times are whole when a stage is charged: it has no further pass of this kind. */
static void run_back(struct rank *x, struct cs_stage *s)
{
    const bool has_halves = x->is_split && s->needs_input_grad;
    int64_t input = run_pass(x, s, has_halves ? INPUT_HALF : BACKWARD);
    int64_t weight = has_halves ? run_pass(x, s, WEIGHT_HALF) : 0;
    if (!has_halves && s->bwd_input_ns == 0) {
        weight = input;
        input = 0;
    }
    s->bwd_input_ns += x->is_charged ? input : 0;
    s->bwd_weight_ns += x->is_charged ? weight : 0;
}

/* A slot through all stages of the rank and back. */
static void run_slot(struct rank *x)
{
    struct cs_stage *stage = x->plan->stages;
    for (int32_t s = 0; s < x->plan->n_stages; s++) {
        if (stage[s].rank != x->rank)
            continue;
        const int64_t more = run_pass(x, &stage[s], FORWARD);
        stage[s].fwd_ns += x->is_charged ? more : 0;
    }
    for (int32_t s = x->plan->n_stages - 1; s >= 0; s--)
        if (stage[s].rank == x->rank && stage[s].has_backward)
            run_back(x, &stage[s]);
}

static bool divides(const struct cs_plan *plan, int32_t rank)
{
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == rank && plan->stages[s].zero >= 2)
            return cs_plan_holders(plan, rank) > 1;
    return false;
}

/* Where gradients of the rank's layers lie that are whole for a while. */
static void place_gradients(struct rank *x)
{
    const int64_t size = cs_state_bytes(x->graph->keeps_bf16, x->device).grad;
    const int32_t n = x->graph->n_layers;
    for (int32_t i = 0; i < x->plan->n_stages; i++) {
        const struct cs_stage *s = &x->plan->stages[i];
        for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++)
            if (s->rank == x->rank && s->zero >= 2)
                x->bytes[l] = cs_zero_divided(x->graph, &x->graph->layers[l]).trained * size;
    }
    cs_zero_places(x->bytes, n, cs_zero_room(x->bytes, n, x->turns), x->at);
}

/* The first slot has no sums before it, nor weights that a slot has left; from the third on they are alike. */
static void run_rank(struct rank *x, int slots)
{
    const size_t n = (size_t)x->graph->n_layers;
    int64_t *const room = calloc(3 * n, sizeof *room);
    CS_ASSERT(room != NULL);
    x->bytes = room;
    x->at = room + n;
    x->sum = room + 2 * n;
    place_gradients(x);
    for (int i = 0; i < slots; i++) {
        x->has_slot = i > 0;
        x->is_charged = i == slots - 1;
        run_slot(x);
    }
    free(room);
}

void cs_zero_times(const struct cs_graph *graph, const struct cs_device_class *device,
                   const struct cs_layer_cost *cost, bool is_split, struct cs_plan *plan)
{
    const int own = cs_plan_own_slots(plan, plan->slots), slots = own < 3 ? own : 3;
    for (int32_t rank = 0; rank < plan->n_ranks; rank++) {
        struct rank x = {
            .graph = graph,
            .device = device,
            .cost = cost,
            .plan = plan,
            .rank = rank,
            .holders = cs_plan_holders(plan, rank),
            .turns = cs_zero_turns(cs_device_element_bytes(device)),
            .is_split = is_split,
            .holds = {-1, -1}
        };
        if (divides(plan, rank))
            run_rank(&x, slots);
    }
}
