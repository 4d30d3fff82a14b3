/* Rows, halos and states of recurrent layers between the ranks of a context. */
#include "core/plan/cost/stretch.h"

#include "core/plan/cost/bytes.h"
#include "core/plan/cost/links.h"
#include "core/plan/cost/round.h"

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

/* At the speed of the layer: fwd_ns is that of so many FLOPs. */
static int64_t states_ns(const struct cs_stretch *s, const struct cs_recurrent *r, int64_t rows,
                         bool is_back, int64_t fwd_ns, int64_t flops)
{
    const struct cs_stretch_states x = cs_stretch_states(r, rows, s->ranks, is_back);
    const int64_t heads = (r->n_heads + s->tp - 1) / s->tp;
    return cs_scale(fwd_ns, r->n_heads * (x.made + x.joined), flops) +
           cs_link_ns(s->device, heads * x.moved * (int64_t)sizeof(float));
}

/* the rows that the convolution reads before its own */
static int64_t halo_ns(const struct cs_stretch *s, const struct cs_recurrent *r)
{
    return cs_link_ns(s->device, (r->taps - 1) * cs_recurrent_conv_width(r) / s->tp *
                                     cs_device_element_bytes(s->device));
}

void cs_stretch_cost(const struct cs_stretch *s, const struct cs_layer *layer,
                     struct cs_layer_cost *cost)
{
    const struct cs_arch *arch = cs_layer_arch(s->graph, layer);
    const struct cs_recurrent *r = &arch->recurrent;
    const int32_t n = s->ranks;
    const int64_t rows = (s->n_rows + n - 1) / n, leave = rows * (n - 1) / n;
    const int64_t turn_ns =
        2 * cs_link_ns(s->device, leave * arch->width * cs_device_element_bytes(s->device));
    const int64_t flops = cs_layer_fwd_flops(s->graph, layer, rows, 0, 0);
    const bool has_backward = layer->needs_input_grad || layer->needs_weight_grad;
    const int64_t own_ns = (cost->fwd_ns + n - 1) / n;
    cost->fwd_ns = own_ns + turn_ns + halo_ns(s, r) + states_ns(s, r, rows, false, own_ns, flops);
    cost->bwd_input_ns = (cost->bwd_input_ns + n - 1) / n;
    cost->bwd_weight_ns = (cost->bwd_weight_ns + n - 1) / n;
    if (has_backward) /* the convolution reads its rows again, and gives gradients back */
        cost->bwd_input_ns +=
            turn_ns + 2 * halo_ns(s, r) + states_ns(s, r, rows, true, own_ns, flops);
}
