/* FLOPs of a layer by the formulas in graph.h; its architecture and its attention. */
#include "core/model/graph.h"

struct sizes {
    int64_t h, q, made, f, patch, vocab;
};

static struct sizes sizes_of(const struct cs_graph *graph, const struct cs_layer *layer)
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    const struct cs_attention *attention =
        &arch->attention[layer->attention > 0 ? layer->attention : 0];
    return (struct sizes){
        .h = arch->width,
        .q = cs_attention_q_width(attention),
        .made = cs_attention_made_width(attention),
        .f = arch->ffn_width,
        .patch = arch->front.stem == CS_STEM_FRAMES
                     ? 2 * 3 * (int64_t)arch->channels + 3 * (int64_t)arch->width
                 : arch->kind == CS_MODULE_ENCODER ? cs_front_values(arch)
                                                   : 0,
        .vocab = arch->vocab,
    };
}

const struct cs_arch *cs_layer_arch(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return &graph->modules[layer->module].arch;
}

const struct cs_attention *cs_layer_attention(const struct cs_graph *graph,
                                              const struct cs_layer *layer)
{
    return layer->attention < 0 ? NULL : &cs_layer_arch(graph, layer)->attention[layer->attention];
}

bool cs_layer_is_inner(const struct cs_graph *graph, const struct cs_layer *layer)
{
    const struct cs_module *module = &graph->modules[layer->module];
    return module->kind == CS_MODULE_ENCODER &&
           !(layer->kind == CS_LAYER_NORM && cs_chain_joins(&module->arch.chain));
}

int32_t cs_layer_attention_id(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return layer->attention < 0 ? -1
                                : graph->modules[layer->module].first_attention + layer->attention;
}

int32_t cs_layer_variant(const struct cs_layer *layer)
{
    const int32_t mixer = layer->attention > 0 ? layer->attention : 0;
    return layer->kind != CS_LAYER_BLOCK
               ? 0
               : mixer + CS_ATTENTIONS *
                             ((int32_t)layer->mixer + (int32_t)CS_MIXERS * (int32_t)layer->ffn);
}

/* a row of the table of halves: FLOPs of `tokens` rows that see each other in `pairs` pairs */
typedef int64_t half_flops(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                           int64_t pairs);

static int64_t attention_flops(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                               int64_t pairs)
{
    const int64_t gate = arch->has_output_gate ? s->q : 0;
    return 2 * tokens * s->h * (s->made + s->q + gate) + 4 * s->q * pairs;
}

static int64_t delta_flops(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                           int64_t pairs)
{
    const struct cs_recurrent *r = &arch->recurrent;
    const int64_t c = CS_RECURRENT_CHUNK, k = r->key_dim, v = r->value_dim;
    const int64_t outer = cs_recurrent_product_width(r) + cs_recurrent_value_width(r);
    const int64_t rule = 2 * c * (3 * k + 2 * v) + 6 * k * v + c * c / 3;
    (void)pairs;
    return 2 * tokens * s->h * outer + tokens * r->n_heads * rule;
}

static int64_t dense_flops(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                           int64_t pairs)
{
    (void)pairs;
    return 2 * tokens * s->h * (arch->is_gated_mlp ? 3 : 2) * s->f;
}

static int64_t experts_flops(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                             int64_t pairs)
{
    const struct cs_experts *e = &arch->experts;
    (void)pairs;
    return 2 * tokens * s->h * (e->n + (int64_t)e->top_k * 3 * e->width);
}

static half_flops *const mixers[CS_MIXERS] = {
    [CS_MIXER_ATTENTION] = attention_flops, [CS_MIXER_DELTA] = delta_flops};
static half_flops *const ffns[CS_FFNS] = {
    [CS_FFN_DENSE] = dense_flops, [CS_FFN_EXPERTS] = experts_flops};

int64_t cs_layer_fwd_flops(const struct cs_graph *graph, const struct cs_layer *layer,
                           int64_t tokens, int64_t pairs, int64_t label_rows)
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    const struct sizes s = sizes_of(graph, layer);
    switch (layer->kind) {
    case CS_LAYER_EMBED:
        return 2 * tokens * s.h * s.patch;
    case CS_LAYER_BLOCK:
        return mixers[layer->mixer](arch, &s, tokens, pairs) +
               ffns[layer->ffn](arch, &s, tokens, pairs);
    case CS_LAYER_PROJECTOR:
    case CS_LAYER_NORM:
        return 2 * tokens * cs_chain_sums(&arch->chain).products;
    case CS_LAYER_TAP:
        return 2 * tokens * cs_chain_sums(&arch->tap).products;
    case CS_LAYER_HEAD:
        return 2 * label_rows * s.h * s.vocab;
    case CS_LAYER_KINDS:
        break;
    }
    return 0;
}
