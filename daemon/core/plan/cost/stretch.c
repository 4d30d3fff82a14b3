/* Rows, halos and states of recurrent layers between the ranks of a context. */
#include "core/plan/cost/stretch.h"

#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/links/links.h"

enum { C = CS_RECURRENT_CHUNK };

/* Products of a row that both directions begin with: k k^T, q k^T and what the triangle makes of keys and of
 * values; then its part of the state that leaves, of the map, and of the gradient that is asked for. The first
 * rank is told nothing, so that it makes no map, and the last one tells nothing: between two ranks none has a
 * map. */
struct cs_stretch_states cs_stretch_states(const struct cs_recurrent *r, int64_t rows,
                                           int32_t ranks, bool is_back)
{
    const int64_t d = r->key_dim, e = r->value_dim, map = d * d, state = d * e;
    const int64_t begin = 2 * C * (3 * d + e) + C * C / 3, leaves = 4 * state,
                  asked = 2 * C * e + 6 * state;
    const bool has_map = ranks > 2;
    const int64_t tells = ranks - 1;
    struct cs_stretch_states s = {.joined = (ranks - 2) * 2 * map * e,
                                  .moved = tells * state + (tells - 1) * map};
    s.made = rows * (begin + leaves + (has_map ? 4 * map : 0));
    if (!is_back)
        return s;
    s.made = rows * (begin + (has_map ? leaves + 4 * map + asked : asked));
    s.moved = tells * (state + (has_map ? map : 0));
    return s;
}

/* What a layer has beside its own part of the rows: in all, and for the shortest slot. */
struct extra {
    int64_t all, fixed;
};

static void add(struct extra *x, int64_t fixed, int64_t by_rows)
{
    x->fixed += fixed;
    x->all += fixed + by_rows;
}

/* rows that change ranks before and behind the layer */
static void add_turns(const struct cs_stretch *s, int64_t rows, int64_t width, struct extra *x)
{
    const int64_t leave = rows * (s->ranks - 1) / s->ranks;
    const int64_t ns = cs_link_ns(s->device, leave * width * cs_device_element_bytes(s->device));
    const int64_t wait = ns > 0 ? s->device->link_latency_ns : 0;
    add(x, 2 * wait, 2 * (ns - wait));
}

/* the rows that the convolution reads before its own */
static void add_halo(const struct cs_stretch *s, const struct cs_recurrent *r, struct extra *x)
{
    const int64_t columns = cs_recurrent_conv_width(r) / s->tp;
    add(x, cs_link_ns(s->device, (r->taps - 1) * columns * cs_device_element_bytes(s->device)), 0);
}

/* At the speed of the layer: ns are those of so many FLOPs. */
static void add_states(const struct cs_stretch *s, const struct cs_recurrent *r, int64_t rows,
                       bool is_back, int64_t ns, int64_t flops, struct extra *x)
{
    const struct cs_stretch_states states = cs_stretch_states(r, rows, s->ranks, is_back);
    const int64_t heads = (r->n_heads + s->tp - 1) / s->tp;
    add(x,
        cs_scale(ns, r->n_heads * states.joined, flops) +
            cs_link_ns(s->device, heads * states.moved * (int64_t)sizeof(float)),
        cs_scale(ns, r->n_heads * states.made, flops));
}

/* fixed: which part of it is */
static int64_t part_of(int64_t ns, double fixed, int32_t n)
{
    return cs_share_beyond(ns, (int64_t)(fixed * (double)ns), 1, n);
}

void cs_stretch_cost(const struct cs_stretch *s, const struct cs_layer *layer,
                     const struct cs_layer_parts *parts, struct cs_layer_cost *cost,
                     struct cs_layer_cost *fixed)
{
    const struct cs_arch *arch = cs_layer_arch(s->graph, layer);
    const struct cs_recurrent *r = &arch->recurrent;
    const int32_t n = s->ranks;
    const int64_t rows = (s->n_rows + n - 1) / n,
                  own_ns = part_of(cost->fwd_ns, parts->fwd.fixed, n);
    const int64_t flops = cs_layer_fwd_flops(s->graph, layer, rows, 0, 0);
    struct extra fwd = {0}, bwd = {0};
    add_turns(s, rows, arch->width, &fwd);
    add_halo(s, r, &fwd);
    add_states(s, r, rows, false, own_ns, flops, &fwd);
    if (layer->needs_input_grad || layer->needs_weight_grad) {
        add_turns(s, rows, arch->width, &bwd);
        add_halo(s, r, &bwd); /* the convolution reads its rows again, and gives gradients back */
        add_halo(s, r, &bwd);
        add_states(s, r, rows, true, own_ns, flops, &bwd);
    }
    const struct cs_layer_cost whole = *cost;
    const double input = parts->bwd_input.fixed, weight = parts->bwd_weight.fixed;
    *cost =
        (struct cs_layer_cost){own_ns + fwd.all, part_of(whole.bwd_input_ns, input, n) + bwd.all,
                               part_of(whole.bwd_weight_ns, weight, n)};
    *fixed = (struct cs_layer_cost){fwd.fixed + (int64_t)(parts->fwd.fixed * (double)whole.fwd_ns),
                                    bwd.fixed + (int64_t)(input * (double)whole.bwd_input_ns),
                                    (int64_t)(weight * (double)whole.bwd_weight_ns)};
}
