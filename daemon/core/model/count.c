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

/* a row of the table of halves: FLOPs of `tokens` rows that see each other in `pairs` pairs */
typedef int64_t half_flops(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                           int64_t pairs);

static int64_t attention_flops(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                               int64_t pairs)
{
    (void)arch;
    return 2 * tokens * s->h * (s->made + s->q) + 4 * s->q * pairs;
}

static int64_t dense_flops(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                           int64_t pairs)
{
    (void)pairs;
    return 2 * tokens * s->h * (arch->is_gated_mlp ? 3 : 2) * s->f;
}

static half_flops *const mixers[CS_MIXERS] = {[CS_MIXER_ATTENTION] = attention_flops};
static half_flops *const ffns[CS_FFNS] = {[CS_FFN_DENSE] = dense_flops};

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
