/* Which branches ranks can share, and the graph as one of them has it. */
#include <stdio.h>
#include <string.h>

#include "core/base/units.h"
#include "core/model/tensor_parallel.h"

/* ---- what can be shared ---- */

/* What goes to ranks in whole numbers, not always the same number to each. */
struct shared {
    const char *what;
    int32_t n,
        groups;      /* of neighbours that stay together where there are as many groups as ranks */
    bool may_repeat; /* where there are fewer than ranks: several have the same one */
};

enum { MOST_SHARED = 3 };

static bool is_sharable(const struct shared *s, int32_t ranks)
{
    if (s->groups >= ranks)
        return true;
    if (s->may_repeat)
        return ranks % s->n == 0;
    return s->groups < s->n && s->n % ranks == 0;
}

/* Keys that lie in one tensor with queries cannot repeat: a part of its gradient would be summed, the
 * rest not. */
static bool has_role(const struct cs_graph *graph, const struct cs_layer *layer,
                     enum cs_param_role role)
{
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++)
        if (graph->params[i].role == role)
            return true;
    return false;
}

/* where the language model begins and ends */
static bool has_words(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return cs_layer_arch(graph, layer)->kind == CS_MODULE_LLM &&
           (layer->kind == CS_LAYER_EMBED || layer->kind == CS_LAYER_HEAD);
}

/* of a block */
static int32_t shared_of_block(const struct cs_graph *graph, const struct cs_layer *layer,
                               struct shared out[MOST_SHARED])
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    const struct cs_attention *attention = cs_layer_attention(graph, layer);
    int32_t n = 0;
    if (attention != NULL) {
        const int32_t keys = attention->n_kv_heads;
        const bool may_repeat = has_role(graph, layer, CS_PARAM_K_W);
        out[n++] = (struct shared){"heads of attention", attention->n_heads, keys, false};
        out[n++] = (struct shared){"heads of keys and values", keys, keys, may_repeat};
    } else {
        const int32_t keys = arch->recurrent.n_key_heads;
        out[n++] = (struct shared){"heads of values", arch->recurrent.n_heads, keys, false};
        out[n++] = (struct shared){"heads of keys", keys, keys, false};
    }
    const bool has_experts = layer->ffn == CS_FFN_EXPERTS;
    const int32_t columns = has_experts ? arch->experts.width : arch->ffn_width;
    out[n++] = (struct shared){has_experts ? "columns of an expert" : "columns of its MLP", columns,
                               columns, false};
    return n;
}

static int32_t shared_of(const struct cs_graph *graph, const struct cs_layer *layer,
                         struct shared out[MOST_SHARED])
{
    if (layer->kind == CS_LAYER_BLOCK)
        return shared_of_block(graph, layer, out);
    if (!has_words(graph, layer))
        return 0;
    const int32_t words = cs_layer_arch(graph, layer)->vocab;
    out[0] = (struct shared){"words", words, words, false};
    return 1;
}

/* what ranks cannot share of a layer, NULL: nothing */
static const char *unsharable(const struct cs_graph *graph, const struct cs_layer *layer,
                              int32_t ranks, int32_t *count)
{
    struct shared shared[MOST_SHARED];
    const int32_t n = shared_of(graph, layer, shared);
    for (int32_t i = 0; i < n; i++)
        if (!is_sharable(&shared[i], ranks)) {
            *count = shared[i].n;
            return shared[i].what;
        }
    return NULL;
}

static bool all_sharable(const struct cs_graph *graph, const struct cs_branch *branch,
                         int32_t ranks)
{
    int32_t count;
    for (int32_t i = 0; i < branch->n_layers; i++)
        if (unsharable(graph, &graph->layers[branch->first_layer + i], ranks, &count) != NULL)
            return false;
    return true;
}

static enum cs_status refuse(const struct cs_graph *graph, const struct cs_branch *branch,
                             const struct cs_layer *layer, int32_t ranks, struct cs_err *err)
{
    char numbers[128] = "1";
    size_t used = 1;
    int32_t count = 0;
    const char *what = unsharable(graph, layer, ranks, &count);
    for (int32_t n = 2; n <= CS_TP_MOST && used + 8 < sizeof numbers; n++)
        if (all_sharable(graph, branch, n))
            used += (size_t)snprintf(numbers + used, sizeof numbers - used, ", %d", n);
    return cs_fail(err, CS_PLAN,
                   "plan.parallel.%s.tp = %d: %s has %d %s, which %d ranks cannot share; "
                   "numbers that can: %s",
                   branch->name, ranks, layer->path, count, what, ranks, numbers);
}

enum cs_status cs_tp_check(const struct cs_graph *graph, int32_t branch, int32_t ranks,
                           struct cs_err *err)
{
    const struct cs_branch *b = &graph->branches[branch];
    int32_t count;
    for (int32_t i = 0; ranks > 1 && i < b->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[b->first_layer + i];
        if (unsharable(graph, layer, ranks, &count) != NULL)
            return refuse(graph, b, layer, ranks, err);
    }
    return CS_OK;
}

/* a tensor of experts of the branch; NULL: it has none. Adapters are beside other matrices only. */
static const struct cs_param *find_experts(const struct cs_graph *graph, int32_t branch)
{
    for (int32_t i = 0; i < graph->n_params; i++)
        if (graph->modules[graph->params[i].module].branch == branch &&
            cs_param_is_of_expert(&graph->params[i]))
            return &graph->params[i];
    return NULL;
}

enum cs_status cs_ep_check(const struct cs_graph *graph, int32_t branch, int32_t ep,
                           struct cs_err *err)
{
    const char *name = graph->branches[branch].name;
    const struct cs_param *first = find_experts(graph, branch);
    if (ep <= 1)
        return CS_OK;
    if (first == NULL)
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.ep = %d: %s has no layers with experts; leave ep away",
                       name, ep, name);
    const int32_t n = graph->modules[first->module].arch.experts.n;
    if (ep > n)
        return cs_fail(
            err, CS_PLAN,
            "plan.parallel.%s.ep = %d: its layers have %d expert%s each, which are fewer "
            "than ranks; choose ep <= %d",
            name, ep, n, CS_PLURAL(n), n);
    return CS_OK;
}

/* ---- the graph of a rank ---- */

static int32_t share(int32_t n, struct cs_tp tp)
{
    const struct cs_tp_share own = cs_tp_share(n, tp);
    return n < tp.ranks ? 1 : (int32_t)(own.end - own.begin);
}

static int32_t share_heads(int32_t n, int32_t groups, struct cs_tp tp)
{
    const struct cs_tp_share own = cs_tp_heads(n, groups, tp);
    return (int32_t)(own.end - own.begin);
}

void cs_tp_attention(struct cs_attention *attention, struct cs_tp tp)
{
    attention->n_heads = share_heads(attention->n_heads, attention->n_kv_heads, tp);
    attention->n_kv_heads = share(attention->n_kv_heads, tp);
}

static void cut_arch(struct cs_arch *arch, struct cs_tp tp)
{
    for (int32_t i = 0; i < arch->n_attentions; i++)
        cs_tp_attention(&arch->attention[i], tp);
    if (arch->kind == CS_MODULE_PROJECTOR)
        return;
    if (arch->kind == CS_MODULE_LLM)
        arch->vocab = share(arch->vocab, tp);
    arch->ffn_width = share(arch->ffn_width, tp);
    if (arch->experts.n > 0)
        arch->experts.width = share(arch->experts.width, tp);
    if (arch->recurrent.n_heads > 0) {
        arch->recurrent.n_heads =
            share_heads(arch->recurrent.n_heads, arch->recurrent.n_key_heads, tp);
        arch->recurrent.n_key_heads = share(arch->recurrent.n_key_heads, tp);
    }
}

static void cut_param(struct cs_param *param, const struct cs_tp_part *part)
{
    if (part->dim < 0)
        return;
    param->count = cs_tp_count(part, param);
    param->dim[part->dim] = cs_tp_extent(part);
    if (part->experts.end > 0)
        param->dim[0] = part->experts.end - part->experts.begin;
}

static void count_elements(struct cs_graph *graph)
{
    graph->n_elements = graph->n_trained = 0;
    for (int32_t l = 0; l < graph->n_layers; l++) {
        struct cs_layer *layer = &graph->layers[l];
        layer->n_elements = layer->n_trained = 0;
        for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++) {
            layer->n_elements += graph->params[i].count;
            layer->n_trained += graph->params[i].is_trainable ? graph->params[i].count : 0;
        }
        graph->n_elements += layer->n_elements;
        graph->n_trained += layer->n_trained;
    }
}

static void *copy(struct cs_arena *arena, const void *from, size_t size, int32_t n)
{
    char *made = CS_NEW_ARRAY(arena, char, size *(size_t)n + 1);
    memcpy(made, from, size * (size_t)n);
    return made;
}

void cs_tp_view_make(const struct cs_graph *whole, const struct cs_tp *tp, struct cs_arena *arena,
                     struct cs_tp_view *out)
{
    struct cs_graph *graph = CS_NEW(arena, struct cs_graph);
    struct cs_tp_part *part = CS_NEW_ARRAY(arena, struct cs_tp_part, whole->n_params + 1);
    *graph = *whole;
    graph->modules = copy(arena, whole->modules, sizeof *whole->modules, whole->n_modules);
    graph->layers = copy(arena, whole->layers, sizeof *whole->layers, whole->n_layers);
    graph->branches = copy(arena, whole->branches, sizeof *whole->branches, whole->n_branches);
    graph->params = copy(arena, whole->params, sizeof *whole->params, whole->n_params);
    for (int32_t b = 0; b < graph->n_branches; b++)
        graph->branches[b].row_ranks = tp[b].splits_rows ? tp[b].ranks : 0;
    for (int32_t m = 0; m < graph->n_modules; m++) {
        struct cs_arch *arch = &graph->modules[m].arch;
        const struct cs_tp *own = &tp[graph->modules[m].branch];
        if (own->ranks > 1)
            cut_arch(arch, *own);
        if (own->ep > 1 && arch->experts.n > 0) {
            arch->experts.ranks = own->ep;
            arch->experts.at = own->ep_at;
        }
    }
    for (int32_t i = 0; i < whole->n_params; i++) {
        const int32_t branch = whole->modules[whole->params[i].module].branch;
        cs_tp_part_of(whole, &whole->params[i], tp[branch], &part[i]);
        cut_param(&graph->params[i], &part[i]);
    }
    count_elements(graph);
    *out = (struct cs_tp_view){.whole = whole, .graph = graph, .part = part};
}
