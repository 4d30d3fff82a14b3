/* Operators of layers, part by part, as the worker's tape has them (tests/unit/test_worker_measure.c counts them). */
#include "core/plan/cost/basis/operators.h"

/* A layer of the kind has the part so many times; 0: it has not. */
struct part {
    enum cs_layer_kind kind;
    int32_t (*count)(const struct cs_graph *graph, const struct cs_layer *layer);
    struct cs_layer_operators each;
};

static const struct cs_arch *arch_of(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return cs_layer_arch(graph, layer);
}

/* ---- blocks ---- */

static int32_t once(const struct cs_graph *graph, const struct cs_layer *layer)
{
    (void)graph;
    (void)layer;
    return 1;
}

static bool attends(const struct cs_layer *layer)
{
    return layer->mixer == CS_MIXER_ATTENTION;
}

static int32_t attention(const struct cs_graph *graph, const struct cs_layer *layer)
{
    (void)graph;
    return attends(layer);
}

static int32_t rope(const struct cs_graph *graph, const struct cs_layer *layer)
{
    const struct cs_attention *a = cs_layer_attention(graph, layer);
    return attends(layer) && a != NULL && a->rope.kind != CS_ROPE_NONE;
}

static int32_t qk_norms(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return attends(layer) && arch_of(graph, layer)->qk_norm != CS_QK_NORM_NONE;
}

/* heads turn again before the gradient of what normed them */
static int32_t rope_again(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return qk_norms(graph, layer) * rope(graph, layer);
}

static int32_t v_norm(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return attends(layer) && arch_of(graph, layer)->has_v_norm;
}

static int32_t output_gate(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return attends(layer) && arch_of(graph, layer)->has_output_gate;
}

static int32_t delta(const struct cs_graph *graph, const struct cs_layer *layer)
{
    (void)graph;
    return layer->mixer == CS_MIXER_DELTA;
}

static int32_t mlp(const struct cs_graph *graph, const struct cs_layer *layer)
{
    (void)graph;
    return layer->ffn == CS_FFN_DENSE;
}

static int32_t gated(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return layer->ffn == CS_FFN_DENSE && arch_of(graph, layer)->is_gated_mlp;
}

static int32_t experts(const struct cs_graph *graph, const struct cs_layer *layer)
{
    (void)graph;
    return layer->ffn == CS_FFN_EXPERTS;
}

static int32_t post_norms(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return arch_of(graph, layer)->has_post_norms ? CS_BLOCK_HALVES : 0;
}

static int32_t layer_scales(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return arch_of(graph, layer)->has_layer_scale ? CS_BLOCK_HALVES : 0;
}

static int32_t layer_scalar(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return arch_of(graph, layer)->has_layer_scalar;
}

static int32_t adapters(const struct cs_graph *graph, const struct cs_layer *layer)
{
    (void)graph;
    return layer->n_adapters;
}

/* ---- what blocks begin with ---- */

static int32_t words(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return arch_of(graph, layer)->kind == CS_MODULE_LLM;
}

/* rows of encoders that are put over others */
static int32_t feeds(const struct cs_graph *graph, const struct cs_layer *layer)
{
    int32_t n = 0;
    for (int32_t f = 0; f < graph->n_feeds; f++)
        n += graph->feeds[f].to_layer == layer->id;
    return n;
}

static int32_t patches(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return arch_of(graph, layer)->front.stem == CS_STEM_PATCHES && !words(graph, layer);
}

static int32_t frames(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return arch_of(graph, layer)->front.stem == CS_STEM_FRAMES && !words(graph, layer);
}

static int32_t positions(const struct cs_graph *graph, const struct cs_layer *layer)
{
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++)
        if (graph->params[i].role == CS_PARAM_POSITION)
            return 1;
    return 0;
}

static int32_t class_row(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return patches(graph, layer) * arch_of(graph, layer)->front.has_class;
}

static int32_t front_norm(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return !words(graph, layer) && arch_of(graph, layer)->front.has_norm;
}

/* ---- chains ---- */

static const struct cs_chain *chain_of(const struct cs_graph *graph, const struct cs_layer *layer)
{
    const struct cs_arch *arch = arch_of(graph, layer);
    return layer->kind == CS_LAYER_TAP ? &arch->tap : &arch->chain;
}

static int32_t steps_of(const struct cs_chain *chain, enum cs_chain_op op)
{
    int32_t n = 0;
    for (int32_t i = 0; i < chain->n; i++)
        n += chain->op[i] == op;
    return n;
}

static int32_t products(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return steps_of(chain_of(graph, layer), CS_CHAIN_LINEAR);
}

/* Steps by themselves: activations are made with products, rows side by side lie so, a step that drops class rows is
 * one where there are any. */
static int32_t moves(const struct cs_graph *graph, const struct cs_layer *layer)
{
    const struct cs_chain *chain = chain_of(graph, layer);
    return chain->n - steps_of(chain, CS_CHAIN_LINEAR) - steps_of(chain, CS_CHAIN_ACT) -
           steps_of(chain, CS_CHAIN_CONCAT) - steps_of(chain, CS_CHAIN_DROP_CLASS);
}

static int32_t dropped(const struct cs_graph *graph, const struct cs_layer *layer)
{
    const struct cs_branch *branch = &graph->branches[graph->modules[layer->module].branch];
    const struct cs_arch *encoder =
        arch_of(graph, &graph->layers[branch->first_layer]); /* of a projector: what it is behind */
    return encoder->front.has_class ? steps_of(chain_of(graph, layer), CS_CHAIN_DROP_CLASS) : 0;
}

/* ---- all ---- */

static const struct part parts[] = {
    {CS_LAYER_BLOCK,     once,         {2, 2, 0} }, /* norms */
    {CS_LAYER_BLOCK,     attention,    {3, 3, 2} }, /* q, k and v; attention; o */
    {CS_LAYER_BLOCK,     rope,         {1, 1, 0} },
    {CS_LAYER_BLOCK,     qk_norms,     {2, 4, 0} }, /* made again for their gradients */
    {CS_LAYER_BLOCK,     rope_again,   {0, 1, 0} },
    {CS_LAYER_BLOCK,     v_norm,       {1, 2, 0} },
    {CS_LAYER_BLOCK,     output_gate,  {4, 4, 0} }, /* heads and their gates apart, and back */
    {CS_LAYER_BLOCK,     delta,        {8, 12, 2}},
    {CS_LAYER_BLOCK,     mlp,          {2, 2, 2} },
    {CS_LAYER_BLOCK,     gated,        {1, 1, 0} },
    {CS_LAYER_BLOCK,     experts,      {8, 10, 4}},
    {CS_LAYER_BLOCK,     post_norms,   {2, 1, 0} },
    {CS_LAYER_BLOCK,     layer_scales, {1, 1, 1} },
    {CS_LAYER_BLOCK,     layer_scalar, {1, 1, 0} },
    {CS_LAYER_BLOCK,     adapters,     {2, 2, 2} },
    {CS_LAYER_BLOCK,     feeds,        {1, 1, 0} },
    {CS_LAYER_EMBED,     words,        {1, 0, 1} },
    {CS_LAYER_EMBED,     feeds,        {1, 1, 0} },
    {CS_LAYER_EMBED,     patches,      {2, 0, 2} }, /* made again for the gradient */
    {CS_LAYER_EMBED,     frames,       {4, 0, 9} },
    {CS_LAYER_EMBED,     positions,    {1, 0, 1} },
    {CS_LAYER_EMBED,     class_row,    {3, 0, 2} },
    {CS_LAYER_EMBED,     front_norm,   {1, 0, 1} },
    {CS_LAYER_NORM,      products,     {1, 1, 1} },
    {CS_LAYER_NORM,      moves,        {1, 1, 0} },
    {CS_LAYER_NORM,      dropped,      {1, 2, 0} },
    {CS_LAYER_PROJECTOR, products,     {1, 1, 1} },
    {CS_LAYER_PROJECTOR, moves,        {1, 1, 0} },
    {CS_LAYER_PROJECTOR, dropped,      {1, 2, 0} },
    {CS_LAYER_PROJECTOR, adapters,     {2, 2, 2} },
    {CS_LAYER_TAP,       products,     {1, 1, 1} },
    {CS_LAYER_TAP,       moves,        {1, 1, 0} },
    {CS_LAYER_TAP,       dropped,      {1, 2, 0} },
    {CS_LAYER_TAP,       once,         {1, 1, 0} }, /* rows pass by */
    {CS_LAYER_HEAD,      once,         {3, 3, 0} }, /* the gradient of its weight is made forward */
};

struct cs_layer_operators cs_layer_operators(const struct cs_graph *graph,
                                             const struct cs_layer *layer)
{
    struct cs_layer_operators sum = {0, 0, 0};
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++) {
        const struct part *p = &parts[i];
        const int32_t n = p->kind == layer->kind ? p->count(graph, layer) : 0;
        sum.fwd += n * p->each.fwd;
        sum.bwd_input += n * p->each.bwd_input;
        sum.bwd_weight += n * p->each.bwd_weight;
    }
    return sum;
}

struct cs_layer_cost cs_operators_cost(const struct cs_graph *graph, const struct cs_layer *layer,
                                       const struct cs_device_class *device)
{
    const struct cs_layer_operators n = cs_layer_operators(graph, layer);
    const int64_t each = device->operator_ns;
    const bool passes = layer->needs_input_grad, trains = layer->needs_weight_grad;
    /* what trains with nothing trainable before it makes the gradients inside, but its input's */
    const int32_t inside = n.bwd_input > 0 ? n.bwd_input - 1 : 0;
    return (struct cs_layer_cost){.fwd_ns = n.fwd * each,
                                  .bwd_input_ns = (passes   ? n.bwd_input
                                                   : trains ? inside
                                                            : 0) *
                                                  each,
                                  .bwd_weight_ns = trains ? n.bwd_weight * each : 0};
}
