/* Builds layers and parameters of the modules that a specification has, and what flows between them. */
#include "core/model/graph.h"

#include <math.h>
#include <string.h>

#include "core/model/build/parts.h"
#include "core/model/groups.h"

struct builder {
    struct cs_arena *arena;
    struct cs_err *err;
    const struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_tensor_info *tensors[CS_MAX_MODULES];
    int n_tensors[CS_MAX_MODULES];
};

static const char *layer_path(const struct builder *b, const struct cs_module *module,
                              enum cs_layer_kind kind, int32_t index)
{
    static const char *const names[CS_LAYER_KINDS] = {"embed", NULL, NULL, "norm", NULL, "head"};
    if (kind == CS_LAYER_PROJECTOR)
        return module->name;
    if (kind == CS_LAYER_BLOCK)
        return cs_arena_printf(b->arena, "%s.layers.%d", module->name, index);
    if (kind == CS_LAYER_TAP)
        return cs_arena_printf(b->arena, "%s.taps.%d", module->name, index);
    return cs_arena_printf(b->arena, "%s.%s", module->name, names[kind]);
}

static void add_layer(struct builder *b, struct cs_module *module, enum cs_layer_kind kind,
                      int32_t index)
{
    struct cs_graph *graph = b->graph;
    struct cs_layer *layer = &graph->layers[graph->n_layers];
    layer->id = graph->n_layers++;
    layer->module = (int32_t)(module - graph->modules);
    layer->kind = kind;
    layer->index = index;
    layer->attention = -1;
    if (kind == CS_LAYER_BLOCK) {
        layer->mixer = cs_arch_block_mixer(&module->arch, index);
        layer->ffn = cs_arch_block_ffn(&module->arch, index);
    }
    if (kind == CS_LAYER_BLOCK && layer->mixer == CS_MIXER_ATTENTION)
        layer->attention = cs_arch_block_attention(&module->arch, index);
    layer->path = layer_path(b, module, kind, index);
    module->n_layers++;
}

static void add_layers(struct builder *b, struct cs_module *module)
{
    module->first_layer = b->graph->n_layers;
    module->first_attention = b->graph->n_attentions;
    b->graph->n_attentions += module->arch.n_attentions;
    if (module->kind == CS_MODULE_PROJECTOR) {
        add_layer(b, module, CS_LAYER_PROJECTOR, 0);
        return;
    }
    add_layer(b, module, CS_LAYER_EMBED, 0);
    for (int32_t i = 0, tap = 0; i < module->arch.n_layers; i++) {
        add_layer(b, module, CS_LAYER_BLOCK, i);
        if (tap < module->arch.n_taps && module->arch.tap_block[tap] == i)
            add_layer(b, module, CS_LAYER_TAP, tap++);
    }
    if (module->kind == CS_MODULE_LLM)
        add_layer(b, module, CS_LAYER_HEAD, 0);
    else if (module->arch.chain.n > 0)
        add_layer(b, module, CS_LAYER_NORM, 0);
}

static void add_param(struct builder *b, struct cs_layer *layer, const struct cs_tensor_info *info)
{
    struct cs_graph *graph = b->graph;
    struct cs_param *param = &graph->params[graph->n_params];
    *param = (struct cs_param){
        .id = graph->n_params++,
        .name = cs_arena_printf(b->arena, "%s/%s", graph->modules[layer->module].name, info->name),
        .tensor = info->name,
        .alt = info->alt,
        .whole = info->whole,
        .whole_at = info->whole_at,
        .role = info->role,
        .part = info->part,
        .module = layer->module,
        .layer = layer->id,
        .n_dims = info->n_dims,
        .count = 1,
        .is_decayed = info->is_decayed,
        .is_fixed = info->is_fixed,
        .init = (int)info->init,
    };
    for (int d = 0; d < info->n_dims; d++) {
        param->dim[d] = info->dim[d];
        param->count *= info->dim[d];
    }
    layer->n_params++;
    layer->n_elements += param->count;
    graph->n_elements += param->count;
    if (graph->is_tied && graph->modules[layer->module].kind == CS_MODULE_LLM &&
        param->role == CS_PARAM_EMBED)
        graph->tied_param = param->id;
}

/* The two factors beside a matrix, as parameters of its layer. */
static void add_adapter(struct builder *b, struct cs_layer *layer, int32_t matrix,
                        const struct cs_spec_adapter *spec)
{
    struct cs_graph *graph = b->graph;
    const struct cs_param base = graph->params[matrix];
    const size_t len = strlen(base.tensor) - strlen(".weight");
    struct cs_graph_adapter *adapter = &graph->adapters[graph->n_adapters++];
    const double alpha = spec->alpha > 0 ? spec->alpha : spec->rank;
    *adapter = (struct cs_graph_adapter){
        .param = matrix,
        .a = graph->n_params,
        .b = graph->n_params + 1,
        .rank = spec->rank,
        .scale = (float)(spec->is_rank_root && spec->alpha > 0 ? alpha / sqrt(spec->rank)
                                                               : alpha / spec->rank),
        .spec = spec,
    };
    for (int is_b = 0; is_b < 2; is_b++) {
        const struct cs_tensor_info info = {
            .name =
                cs_arena_printf(b->arena, "%.*s.lora_%c.weight", (int)len, base.tensor, "AB"[is_b]),
            .role = is_b ? CS_PARAM_ADAPTER_B : CS_PARAM_ADAPTER_A,
            .part = layer->n_adapters,
            .n_dims = 2,
            .dim = {is_b ? base.dim[0] : spec->rank, is_b ? spec->rank : base.dim[1]},
            .is_decayed = true,
            .init = is_b ? CS_INIT_ZERO : CS_INIT_FAN_IN,
        };
        add_param(b, layer, &info);
    }
    layer->n_adapters++;
}

/* Adapters stand behind the other parameters of their layer. */
static void add_adapters(struct builder *b, const struct cs_module *module, struct cs_layer *layer,
                         const struct cs_tensor_info *first)
{
    const int32_t n = layer->n_params;
    for (int32_t k = 0; k < n; k++) {
        const struct cs_spec_adapter *spec = cs_graph_adapter_of(b->spec, module, &first[k]);
        if (spec != NULL)
            add_adapter(b, layer, layer->first_param + k, spec);
    }
}

/* Tensors come in dataflow order, as the layers do: one walk over both. */
static void add_params(struct builder *b, int module_index)
{
    struct cs_graph *graph = b->graph;
    const struct cs_module *module = &graph->modules[module_index];
    const struct cs_tensor_info *info = b->tensors[module_index];
    const struct cs_tensor_info *end = info + b->n_tensors[module_index];
    for (int32_t i = 0; i < module->n_layers; i++) {
        struct cs_layer *layer = &graph->layers[module->first_layer + i];
        layer->first_param = graph->n_params;
        const struct cs_tensor_info *first = info;
        for (; info < end && info->layer_kind == layer->kind && info->layer == layer->index; info++)
            add_param(b, layer, info);
        add_adapters(b, module, layer, first);
    }
    CS_ASSERT(info == end);
}

static void add_contents(struct builder *b)
{
    struct cs_graph *graph = b->graph;
    int64_t n_layers = 0, n_params = 0;
    for (int i = 0; i < graph->n_modules; i++) {
        n_layers += graph->modules[i].arch.n_layers + graph->modules[i].arch.n_taps + 2;
        b->n_tensors[i] = cs_arch_tensors(&graph->modules[i].arch, b->arena, &b->tensors[i]);
        n_params += b->n_tensors[i];
    }
    graph->layers = CS_NEW_ARRAY(b->arena, struct cs_layer, n_layers);
    const bool has_adapters = b->spec->n_adapters > 0;
    graph->params = CS_NEW_ARRAY(b->arena, struct cs_param, n_params * (has_adapters ? 3 : 1));
    graph->adapters = CS_NEW_ARRAY(b->arena, struct cs_graph_adapter, has_adapters ? n_params : 1);
    for (int i = 0; i < graph->n_modules; i++) {
        struct cs_module *module = &graph->modules[i];
        struct cs_branch *branch = &graph->branches[module->branch];
        add_layers(b, module);
        add_params(b, i);
        if (branch->n_layers == 0)
            branch->first_layer = module->first_layer;
        branch->n_layers += module->n_layers;
    }
}

static struct cs_feed *add_feed(struct builder *b, int32_t branch, int32_t from_layer,
                                int32_t to_layer)
{
    struct cs_graph *graph = b->graph;
    const struct cs_branch *from = &graph->branches[branch];
    CS_ASSERT(graph->n_feeds < CS_MAX_FEEDS);
    struct cs_feed *feed = &graph->feeds[graph->n_feeds];
    *feed = (struct cs_feed){.id = graph->n_feeds++,
                             .from = branch,
                             .to = graph->llm,
                             .from_layer = from_layer,
                             .to_layer = to_layer,
                             .item_rows = from->item_rows,
                             .width = from->out_width};
    return feed;
}

/* Tap i is added to what leaves block i of the LLM. */
static enum cs_status add_taps(struct builder *b, int32_t branch)
{
    struct cs_graph *graph = b->graph;
    const struct cs_branch *from = &graph->branches[branch], *llm = &graph->branches[graph->llm];
    for (int32_t l = from->first_layer; l < from->first_layer + from->n_layers; l++) {
        const struct cs_layer *layer = &graph->layers[l];
        if (layer->kind != CS_LAYER_TAP)
            continue;
        const int32_t width =
            cs_chain_at(&cs_layer_arch(graph, layer)->tap, cs_layer_arch(graph, layer)->tap.n)
                .width;
        const int32_t to = llm->first_layer + 2 + layer->index;
        if (width != from->out_width)
            return cs_fail(
                b->err, CS_UNSUPPORTED,
                "%s gives rows of width %d, the llm's have %d: its deepstack belongs to a "
                "language model of that width",
                layer->path, width, from->out_width);
        if (to >= llm->first_layer + llm->n_layers)
            return cs_fail(b->err, CS_UNSUPPORTED,
                           "%s is added behind block %d of the llm, which has %d", layer->path,
                           layer->index, llm->n_layers - 2);
        add_feed(b, branch, l, to)->is_tap = true;
    }
    return CS_OK;
}

/* What an encoder's projector makes enters the LLM's embedding, what its taps make the blocks behind. */
static enum cs_status add_feeds(struct builder *b)
{
    const struct cs_graph *graph = b->graph;
    for (int32_t i = 0; i < graph->n_branches; i++) {
        const struct cs_branch *from = &graph->branches[i];
        if (i == graph->llm)
            continue;
        add_feed(b, i, from->first_layer + from->n_layers - 1,
                 graph->branches[graph->llm].first_layer);
        CS_TRY(add_taps(b, i));
    }
    return CS_OK;
}

enum cs_status cs_graph_build(const struct cs_spec *spec, bool allow_frozen, struct cs_arena *arena,
                              struct cs_graph **out, struct cs_err *err)
{
    struct cs_graph *graph = CS_NEW(arena, struct cs_graph);
    struct builder b = {.arena = arena, .err = err, .spec = spec, .graph = graph};
    graph->modules = CS_NEW_ARRAY(arena, struct cs_module, CS_MAX_MODULES);
    graph->branches = CS_NEW_ARRAY(arena, struct cs_branch, CS_MAX_ENCODERS + 1);
    graph->feeds = CS_NEW_ARRAY(arena, struct cs_feed, CS_MAX_FEEDS);
    graph->tied_param = -1;
    CS_TRY(cs_graph_add_modules(graph, spec, arena, err));
    add_contents(&b);
    CS_TRY(add_feeds(&b));
    CS_TRY(cs_graph_apply_rules(graph, spec, arena, err));
    CS_TRY(cs_graph_check_adapters(graph, spec, arena, err));
    if (graph->n_trained == 0 && !allow_frozen)
        return cs_fail(err, CS_INVALID,
                       "nothing trains: model.rules leave all %d layers frozen; add "
                       "model:train(\"%s\") or the like",
                       graph->n_layers, graph->n_encoders > 0 ? graph->modules[1].name : "llm");
    CS_TRY(cs_graph_check_groups(graph, spec, arena, err));
    cs_graph_mark_needs(graph, arena);
    *out = graph;
    return CS_OK;
}

static const struct cs_module *first_module(const struct cs_graph *graph, int32_t branch)
{
    return &graph->modules[graph->layers[graph->branches[branch].first_layer].module];
}

const struct cs_module *cs_graph_llm(const struct cs_graph *graph)
{
    return first_module(graph, graph->llm);
}

int32_t cs_graph_positions(const struct cs_graph *graph)
{
    const struct cs_arch *arch = &cs_graph_llm(graph)->arch;
    for (int32_t i = 0; i < arch->n_attentions; i++) {
        const enum cs_rope_axes axes = arch->attention[i].rope.axes;
        if (axes != CS_ROPE_LINE)
            return 0; /* the rows of a picture share positions */
    }
    return arch->max_positions;
}

const struct cs_module *cs_graph_encoder(const struct cs_graph *graph, int32_t encoder)
{
    for (int32_t b = 0; b < graph->n_branches; b++)
        if (b != graph->llm && graph->branches[b].encoder == encoder)
            return first_module(graph, b);
    return NULL;
}
