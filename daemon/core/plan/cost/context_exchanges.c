/* What goes between the ranks of a context around attention, and how much of it attention hides. */
#include "core/plan/cost/context_exchanges.h"

#include <math.h>

#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/links/links.h"

/* Bytes of the rank with most in exchanges that follow each other: towards attention, and behind it. */
struct exchanges {
    int64_t fwd[2], bwd[2];
};

/* Keys and values come, in the backward once more; their gradients go back. */
static struct exchanges exchange_keys(const struct cs_attention *a, int64_t row, int32_t tp)
{
    const int64_t keys = row * 2 * ((cs_attention_kv_width(a) + tp - 1) / tp);
    return (struct exchanges){
        {keys, 0   },
        {keys, keys}
    };
}

/* Queries, keys and values of heads go there, the output comes back; in the backward it goes along with its gradient,
 * and theirs come back. */
static struct exchanges exchange_heads(const struct cs_attention *a, int64_t row, int32_t ranks,
                                       int32_t tp)
{
    const int64_t o = row * a->head_dim * cs_over(a->n_heads, (int64_t)ranks * tp),
                  qkv = o + 2 * row * a->head_dim * cs_over(a->n_kv_heads, (int64_t)ranks * tp);
    return (struct exchanges){
        {qkv,         o  },
        {qkv + 2 * o, qkv}
    };
}

static struct exchanges exchanges_of(const struct cs_context_work *work,
                                     const struct cs_graph *graph, const struct cs_layer *layer,
                                     const struct cs_device_class *device, int32_t tp)
{
    const struct cs_attention *a = cs_layer_attention(graph, layer);
    if (a == NULL)
        return (struct exchanges){{0}, {0}};
    const int64_t row =
        work->moved[cs_layer_attention_id(graph, layer)] * cs_device_element_bytes(device);
    struct exchanges x =
        work->moves_heads ? exchange_heads(a, row, work->ranks, tp) : exchange_keys(a, row, tp);
    if (!layer->needs_input_grad && !layer->needs_weight_grad)
        x.bwd[0] = x.bwd[1] = 0;
    return x;
}

/* Bytes are what one rank sends: all but one part of the vector. */
static int64_t move_ns(const struct cs_device_class *device, int32_t ranks, int64_t bytes)
{
    return cs_exchange_ns(device, CS_LINK_ALL_TO_ALL, ranks, cs_scale(bytes, ranks, ranks - 1));
}

static void add_exchanges(const struct exchanges *x, const struct cs_device_class *device,
                          int32_t ranks, struct cs_layer_cost *cost, struct cs_layer_cost *fixed)
{
    const int64_t wait = cs_exchange_latency_ns(device, CS_LINK_ALL_TO_ALL, ranks);
    for (int i = 0; i < 2; i++) {
        cost->fwd_ns += move_ns(device, ranks, x->fwd[i]);
        cost->bwd_input_ns += move_ns(device, ranks, x->bwd[i]);
        fixed->fwd_ns += x->fwd[i] > 0 ? wait : 0;
        fixed->bwd_input_ns += x->bwd[i] > 0 ? wait : 0;
    }
}

/* ---- own keys first ---- */

/* exchanges that are waited for; what parts of attention take beside the whole, and what is made of partial results */
struct exposed {
    int64_t fwd, bwd[2], merge_fwd, merge_bwd;
};

static int64_t sum_of(const struct exposed *e)
{
    return e->fwd + e->bwd[0] + e->bwd[1] + e->merge_fwd + e->merge_bwd;
}

static int64_t left_of(int64_t ns, double hidden_ns)
{
    return ns > hidden_ns ? ns - (int64_t)hidden_ns : 0;
}

/* What attention over the own keys takes on the rank that has least of it. */
static double own_ns(const struct cs_context_work *w, int32_t id, const struct cs_time_parts *parts,
                     int64_t ns)
{
    double least = INFINITY;
    for (int32_t r = 0; r < w->ranks; r++)
        if (w->rows[r] > 0)
            least = fmin(least, w->pairs[id * w->ranks + r] * w->own[id * w->ranks + r]);
    return least < INFINITY ? least * parts->pairs * (double)ns : 0;
}

/* launches of a device beside those that attention has anyway: forward the own keys and merging, backward the own keys
 * twice and a sum */
enum { LAUNCHES_FWD = 2, LAUNCHES_BWD = 3, LAUNCH_NS = 5000 };

/* Two launches end twice with few blocks left: on H200 parts of attention were 5 to 10 % longer than the whole, forward
 * and backward (tests/bench/RESULTS.md). */
enum { TAILS = 12 };

static int64_t tails_ns(const struct cs_context_work *w, const struct cs_device_class *device,
                        int32_t id, const struct cs_time_parts *parts, int64_t ns)
{
    double most = 0;
    for (int32_t r = 0; r < w->ranks; r++)
        most = fmax(most, w->pairs[id * w->ranks + r]);
    return device->units > 0 ? (int64_t)(most * parts->pairs * (double)ns) / TAILS : 0;
}

static int64_t launch_ns(const struct cs_device_class *device, int launches)
{
    return device->units > 0 ? launches * LAUNCH_NS : 0;
}

/* Two partial outputs are read and one is written; the same of gradients of queries. */
static int64_t merge_ns(const struct cs_context_work *w, const struct cs_attention *a,
                        const struct cs_device_class *device, int32_t tp)
{
    const int64_t columns = cs_over(cs_attention_q_width(a), tp);
    const double bytes =
        3.0 * (double)w->most_rows * (double)columns * (double)cs_device_element_bytes(device);
    return device->bytes_per_s > 0 ? (int64_t)(bytes * 1e9 / (double)device->bytes_per_s) : 0;
}

/* Half of the own tiles of the backward run while keys come, half while gradients go back. cost: of a whole slot on
 * one rank. */
static struct exposed exposed_of(const struct cs_context_work *w, const struct cs_graph *graph,
                                 const struct cs_layer *layer, const struct cs_layer_parts *parts,
                                 const struct cs_device_class *device, int32_t tp,
                                 const struct cs_layer_cost *cost, const struct exchanges *x)
{
    const int32_t id = cs_layer_attention_id(graph, layer);
    const bool is_beside = device->units > 0; /* a host moves keys itself */
    const double fwd = is_beside ? own_ns(w, id, &parts->fwd, cost->fwd_ns) : 0,
                 bwd = is_beside ? own_ns(w, id, &parts->bwd_input, cost->bwd_input_ns) : 0;
    struct exposed e = {.fwd = left_of(move_ns(device, w->ranks, x->fwd[0]), fwd)};
    for (int i = 0; i < 2; i++)
        e.bwd[i] = left_of(move_ns(device, w->ranks, x->bwd[i]), bwd / 2);
    const int64_t merge = merge_ns(w, cs_layer_attention(graph, layer), device, tp);
    if (x->fwd[0] > 0)
        e.merge_fwd = merge + launch_ns(device, LAUNCHES_FWD) +
                      tails_ns(w, device, id, &parts->fwd, cost->fwd_ns);
    if (x->bwd[0] > 0)
        e.merge_bwd = merge + launch_ns(device, LAUNCHES_BWD) +
                      tails_ns(w, device, id, &parts->bwd_input, cost->bwd_input_ns);
    return e;
}

int64_t cs_context_own_first_ns(const struct cs_context_work *work, const struct cs_graph *graph,
                                const struct cs_layer *layer, const struct cs_layer_parts *parts,
                                const struct cs_device_class *device, int32_t tp,
                                const struct cs_layer_cost *cost)
{
    if (work->moves_heads || cs_layer_attention(graph, layer) == NULL ||
        cs_context_is_stretched(layer))
        return 0;
    const struct exchanges x = exchanges_of(work, graph, layer, device, tp);
    const struct exposed e = exposed_of(work, graph, layer, parts, device, tp, cost, &x);
    const int64_t keys = cs_scale(x.fwd[0], work->ranks, work->ranks - 1),
                  worth = (int64_t)CS_CONTEXT_GROUPS_AHEAD * CS_CONTEXT_GROUP_BYTES;
    const int32_t groups = device->units > 0 && keys >= worth ? CS_CONTEXT_GROUPS_AHEAD : 1;
    const int64_t at_once = move_ns(device, work->ranks, x.fwd[0]) +
                            move_ns(device, work->ranks, x.bwd[0]) +
                            move_ns(device, work->ranks, x.bwd[1]);
    return at_once / groups - sum_of(&e);
}

/* In a shorter slot less is hidden, in the shortest nothing: fixed is as without. */
static void add_exposed(const struct exposed *e, const struct exchanges *x,
                        const struct cs_device_class *device, int32_t ranks,
                        struct cs_layer_cost *cost, struct cs_layer_cost *fixed)
{
    struct cs_layer_cost waits = {0, 0, 0};
    add_exchanges(x, device, ranks, &waits, fixed);
    cost->fwd_ns += e->fwd + e->merge_fwd;
    cost->bwd_input_ns += e->bwd[0] + e->bwd[1] + e->merge_bwd;
}

void cs_context_exchange_cost(const struct cs_context_work *work, const struct cs_graph *graph,
                              const struct cs_layer *layer, const struct cs_layer_parts *parts,
                              const struct cs_device_class *device, int32_t tp,
                              const struct cs_layer_cost *whole, struct cs_layer_cost *cost,
                              struct cs_layer_cost *fixed)
{
    const struct exchanges x = exchanges_of(work, graph, layer, device, tp);
    if (!work->own_first || cs_layer_attention(graph, layer) == NULL) {
        add_exchanges(&x, device, work->ranks, cost, fixed);
        return;
    }
    const struct exposed e = exposed_of(work, graph, layer, parts, device, tp, whole, &x);
    add_exposed(&e, &x, device, work->ranks, cost, fixed);
}

int64_t cs_context_layer_bytes(const struct cs_context_work *work, const struct cs_graph *graph,
                               const struct cs_layer *layer, const struct cs_device_class *device,
                               int32_t tp)
{
    const struct exchanges x = exchanges_of(work, graph, layer, device, tp);
    return x.fwd[0] + x.fwd[1] + x.bwd[0] + x.bwd[1];
}
