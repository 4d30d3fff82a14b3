/* What trains, and what needs gradients because of it.
 *
 * Source of the rule: Cornstarch (frozen-aware pipeline): with f(l) = every parameter of l is
 * frozen, the input gradient is needed at l when p(l) = p(l-1) or not f(l-1); where branches merge,
 * the or of all of them. */

#include "core/base/glob.h"
#include "core/base/near.h"
#include "core/model/graph_parts.h"

/* n layers one after the other. is_fed: a gradient of rows that enter from another branch is wanted
 * at that layer, and with it at all that follow; NULL: nothing enters. */
static void chain_needs(const bool *is_fed, const bool *is_frozen, int n, bool *needs_input_grad,
                        bool *needs_weight_grad)
{
    bool is_needed = false;
    for (int i = 0; i < n; i++) {
        is_needed = is_needed || (is_fed != NULL && is_fed[i]);
        needs_input_grad[i] = is_needed;
        needs_weight_grad[i] = !is_frozen[i];
        is_needed = is_needed || !is_frozen[i];
    }
}

void cs_graph_needs(const bool *is_frozen, int n, bool *needs_input_grad, bool *needs_weight_grad)
{
    chain_needs(NULL, is_frozen, n, needs_input_grad, needs_weight_grad);
}

static enum cs_status no_match(const struct cs_graph *graph, const struct cs_spec *spec, int rule,
                               struct cs_arena *arena, struct cs_err *err)
{
    int n = 0;
    const char **names =
        CS_NEW_ARRAY(arena, const char *, graph->n_layers + graph->n_modules + graph->n_branches);
    for (int i = 0; i < graph->n_branches; i++)
        names[n++] = graph->branches[i].name;
    for (int i = 0; i < graph->n_modules; i++)
        names[n++] = graph->modules[i].name;
    for (int i = 0; i < graph->n_layers; i++)
        names[n++] = graph->layers[i].path;
    const char *near = cs_near(spec->rules[rule].glob, names, n);
    if (near != NULL)
        return cs_fail(err, CS_INVALID,
                       "model.rules[%d].glob \"%s\" matches no layer; did you mean \"%s\"?", rule,
                       spec->rules[rule].glob, near);
    return cs_fail(
        err, CS_INVALID,
        "model.rules[%d].glob \"%s\" matches no layer; layers are like \"%s\" and \"%s\"", rule,
        spec->rules[rule].glob, graph->layers[0].path, graph->layers[graph->n_layers - 1].path);
}

enum cs_status cs_graph_apply_rules(struct cs_graph *graph, const struct cs_spec *spec,
                                    struct cs_arena *arena, struct cs_err *err)
{
    bool *is_trained = CS_NEW_ARRAY(arena, bool, graph->n_layers);
    for (int r = 0; r < spec->n_rules; r++) {
        bool is_used = false;
        for (int i = 0; i < graph->n_layers; i++) {
            if (!cs_glob_match(spec->rules[r].glob, graph->layers[i].path))
                continue;
            is_trained[i] = spec->rules[r].is_train;
            is_used = true;
        }
        if (!is_used)
            return no_match(graph, spec, r, arena, err);
    }
    for (int i = 0; i < graph->n_params; i++) {
        struct cs_param *param = &graph->params[i];
        param->is_trainable = is_trained[param->layer];
        if (!param->is_trainable)
            continue;
        graph->layers[param->layer].n_trained += param->count;
        graph->n_trained += param->count;
    }
    return CS_OK;
}

/* The head multiplies with the tied embedding, which is a parameter of another layer. */
static bool is_frozen_layer(const struct cs_graph *graph, const struct cs_layer *layer)
{
    if (layer->kind == CS_LAYER_HEAD && graph->tied_param >= 0 &&
        graph->params[graph->tied_param].is_trainable)
        return false;
    return layer->n_trained == 0;
}

void cs_graph_mark_needs(struct cs_graph *graph, struct cs_arena *arena)
{
    bool *is_frozen = CS_NEW_ARRAY(arena, bool, graph->n_layers);
    bool *is_fed = CS_NEW_ARRAY(arena, bool, graph->n_layers);
    bool *input = CS_NEW_ARRAY(arena, bool, graph->n_layers);
    bool *weight = CS_NEW_ARRAY(arena, bool, graph->n_layers);
    for (int i = 0; i < graph->n_layers; i++)
        is_frozen[i] = is_frozen_layer(graph, &graph->layers[i]);
    for (int i = 0; i < graph->n_branches; i++) {
        const struct cs_branch *branch = &graph->branches[i];
        const int first = branch->first_layer;
        chain_needs(is_fed + first, is_frozen + first, branch->n_layers, input + first,
                    weight + first);
        for (int f = 0; f < graph->n_feeds; f++) {
            struct cs_feed *feed = &graph->feeds[f];
            if (feed->from != i)
                continue;
            feed->has_grad = input[feed->from_layer] || weight[feed->from_layer];
            is_fed[feed->to_layer] = is_fed[feed->to_layer] || feed->has_grad;
        }
    }
    for (int i = 0; i < graph->n_layers; i++) {
        graph->layers[i].needs_input_grad = input[i];
        graph->layers[i].needs_weight_grad = weight[i];
    }
}
