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

/* A row of the table of halves: FLOPs of the products at its edges, and of what is between them, of `tokens` rows that see
 * each other in `pairs` pairs. */
struct half {
    struct cs_half_products (*products)(const struct cs_arch *arch, const struct sizes *s,
                                        int64_t tokens);
    int64_t (*inside)(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                      int64_t pairs);
};

static struct cs_half_products attention_products(const struct cs_arch *arch, const struct sizes *s,
                                                  int64_t tokens)
{
    const int64_t gate = arch->has_output_gate ? s->q : 0, per_column = 2 * tokens * s->h;
    return (struct cs_half_products){per_column * (s->made + gate), per_column * s->q};
}

static int64_t attention_inside(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                                int64_t pairs)
{
    (void)arch;
    (void)tokens;
    return 4 * s->q * pairs;
}

static struct cs_half_products delta_products(const struct cs_arch *arch, const struct sizes *s,
                                              int64_t tokens)
{
    const struct cs_recurrent *r = &arch->recurrent;
    return (struct cs_half_products){2 * tokens * s->h * cs_recurrent_product_width(r),
                                     2 * tokens * s->h * cs_recurrent_value_width(r)};
}

static int64_t delta_inside(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                            int64_t pairs)
{
    const struct cs_recurrent *r = &arch->recurrent;
    const int64_t c = CS_RECURRENT_CHUNK, k = r->key_dim, v = r->value_dim;
    const int64_t rule = 2 * c * (3 * k + 2 * v) + 6 * k * v + c * c / 3;
    (void)s;
    (void)pairs;
    return tokens * r->n_heads * rule;
}

static struct cs_half_products dense_products(const struct cs_arch *arch, const struct sizes *s,
                                              int64_t tokens)
{
    const int64_t one = 2 * tokens * s->h * s->f;
    return (struct cs_half_products){(arch->is_gated_mlp ? 2 : 1) * one, one};
}

static int64_t experts_inside(const struct cs_arch *arch, const struct sizes *s, int64_t tokens,
                              int64_t pairs)
{
    const struct cs_experts *e = &arch->experts;
    (void)pairs;
    return 2 * tokens * s->h * (e->n + (int64_t)e->top_k * 3 * e->width);
}

static const struct half mixers[CS_MIXERS] = {
    [CS_MIXER_ATTENTION] = {attention_products, attention_inside},
    [CS_MIXER_DELTA] = {delta_products,     delta_inside    },
};
static const struct half ffns[CS_FFNS] = {
    [CS_FFN_DENSE] = {dense_products, NULL          },
    [CS_FFN_EXPERTS] = {NULL,           experts_inside},
};

/* half: CS_BLOCK_MIXER or CS_BLOCK_FFN */
static const struct half *half_of(const struct cs_layer *layer, int half)
{
    return half == CS_BLOCK_MIXER ? &mixers[layer->mixer] : &ffns[layer->ffn];
}

struct cs_half_products cs_layer_products(const struct cs_graph *graph,
                                          const struct cs_layer *layer, int half, int64_t tokens)
{
    const struct sizes s = sizes_of(graph, layer);
    const struct half *h = layer->kind == CS_LAYER_BLOCK ? half_of(layer, half) : NULL;
    return h != NULL && h->products != NULL ? h->products(cs_layer_arch(graph, layer), &s, tokens)
                                            : (struct cs_half_products){0, 0};
}

bool cs_layer_feeds_head(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return layer->kind == CS_LAYER_BLOCK && layer->mixer == CS_MIXER_ATTENTION &&
           layer->ffn == CS_FFN_DENSE && layer->id + 1 < graph->n_layers &&
           graph->layers[layer->id + 1].kind == CS_LAYER_HEAD;
}

bool cs_layer_picks(const struct cs_arch *arch, int64_t ffn, int64_t rows, int64_t picked)
{
    const int64_t columns = arch->is_gated_mlp ? 2 * ffn : ffn;
    return picked * (columns + 3 * arch->width) <= rows * columns;
}

static int64_t block_flops(const struct cs_graph *graph, const struct cs_layer *layer,
                           const struct sizes *s, int64_t tokens, int64_t pairs, int64_t label_rows)
{
    int64_t flops = 0;
    for (int i = 0; i < CS_BLOCK_HALVES; i++) {
        const bool is_picked = i == CS_BLOCK_FFN && cs_layer_feeds_head(graph, layer);
        const struct half *h = half_of(layer, i);
        const struct cs_half_products p =
            cs_layer_products(graph, layer, i, is_picked ? label_rows : tokens);
        flops += p.first + p.second;
        if (h->inside != NULL)
            flops += h->inside(cs_layer_arch(graph, layer), s, tokens, pairs);
    }
    return flops;
}

int64_t cs_layer_fwd_flops(const struct cs_graph *graph, const struct cs_layer *layer,
                           int64_t tokens, int64_t pairs, int64_t label_rows)
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    const struct sizes s = sizes_of(graph, layer);
    switch (layer->kind) {
    case CS_LAYER_EMBED:
        return 2 * tokens * s.h * s.patch;
    case CS_LAYER_BLOCK:
        return block_flops(graph, layer, &s, tokens, pairs, label_rows);
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
