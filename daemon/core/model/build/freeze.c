/* Decides what trains, and what needs gradients because of it.
 *
 * Source of the rule: Cornstarch (frozen-aware pipeline): with f(l) = every parameter of l is
 * frozen, the input gradient is needed at l when p(l) = p(l-1) or not f(l-1); where branches merge,
 * the or of all of them. */
#include <string.h>

#include "core/base/glob.h"
#include "core/base/near.h"
#include "core/model/build/parts.h"
#include "core/model/groups.h"

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

/* What a rule could have named, and how such things are called. */
static int names_like(const struct cs_graph *graph, const char *glob, const char **names)
{
    int n = 0;
    if (strchr(glob, '/') != NULL) {
        for (int i = 0; i < graph->n_params; i++)
            names[n++] = graph->params[i].name;
        return n;
    }
    for (int i = 0; i < graph->n_branches; i++)
        names[n++] = graph->branches[i].name;
    for (int i = 0; i < graph->n_modules; i++)
        names[n++] = graph->modules[i].name;
    for (int i = 0; i < graph->n_layers; i++)
        names[n++] = graph->layers[i].path;
    return n;
}

/* where: "model.rules[0]"; what, of those, it does not match: "layer" */
static enum cs_status no_match(const struct cs_graph *graph, const char *where, const char *glob,
                               const char *what, struct cs_arena *arena, struct cs_err *err)
{
    const bool is_tensor = strchr(glob, '/') != NULL;
    const char **names =
        CS_NEW_ARRAY(arena, const char *,
                     graph->n_layers + graph->n_modules + graph->n_branches + graph->n_params);
    const int n = names_like(graph, glob, names);
    const char *near = cs_near(glob, names, n);
    if (near != NULL && strcmp(near, glob) != 0)
        return cs_fail(err, CS_INVALID, "%s.glob \"%s\" matches no %s; did you mean \"%s\"?", where,
                       glob, what, near);
    return cs_fail(err, CS_INVALID, "%s.glob \"%s\" matches no %s; %ss are like \"%s\" and \"%s\"",
                   where, glob, what, is_tensor ? "parameter" : "layer",
                   names[is_tensor ? 0 : n - graph->n_layers], names[n - 1]);
}

/* Globs with a '/' are of parameters, others of layers. Returns how many parameters it decides;
 * layers without one count too. */
static int apply_rule(struct cs_graph *graph, const char *glob, bool is_train)
{
    const bool is_tensor = strchr(glob, '/') != NULL;
    int n = 0;
    for (int i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        const bool is_layer = !is_tensor && cs_glob_match(glob, layer->path);
        n += is_layer;
        for (int32_t k = layer->first_param; k < layer->first_param + layer->n_params; k++) {
            struct cs_param *param = &graph->params[k];
            if (!is_layer && !(is_tensor && cs_glob_match(glob, param->name)))
                continue;
            param->is_trainable = is_train && !param->is_fixed;
            n++;
        }
    }
    return n;
}

/* One product makes the gradients of a group. */
static enum cs_status check_groups(const struct cs_graph *graph, struct cs_err *err)
{
    for (int i = 0; i < graph->n_params; i++) {
        const struct cs_param *a = &graph->params[i];
        const int group = cs_param_role_group(a->role, a->part).group;
        for (int k = i + 1; group > 0 && k < graph->n_params; k++) {
            const struct cs_param *b = &graph->params[k];
            if (b->layer != a->layer)
                break;
            if (cs_param_role_group(b->role, b->part).group == group &&
                a->is_trainable != b->is_trainable)
                return cs_fail(err, CS_INVALID,
                               "model.rules train %s and not %s; one product reads both, so train "
                               "or freeze them together",
                               a->is_trainable ? a->name : b->name,
                               a->is_trainable ? b->name : a->name);
        }
    }
    return CS_OK;
}

enum cs_status cs_graph_apply_rules(struct cs_graph *graph, const struct cs_spec *spec,
                                    struct cs_arena *arena, struct cs_err *err)
{
    for (int r = 0; r < spec->n_rules; r++)
        if (apply_rule(graph, spec->rules[r].glob, spec->rules[r].is_train) == 0)
            return no_match(
                graph, cs_arena_printf(arena, "model.rules[%d]", r), spec->rules[r].glob,
                strchr(spec->rules[r].glob, '/') != NULL ? "parameter" : "layer", arena, err);
    for (int i = 0; i < graph->n_adapters; i++) /* whatever the rules say of their layers */
        graph->params[graph->adapters[i].a].is_trainable =
            graph->params[graph->adapters[i].b].is_trainable = true;
    CS_TRY(check_groups(graph, err));
    for (int i = 0; i < graph->n_params; i++) {
        const struct cs_param *param = &graph->params[i];
        if (!param->is_trainable)
            continue;
        graph->layers[param->layer].n_trained += param->count;
        graph->n_trained += param->count;
    }
    return CS_OK;
}

static bool is_in_group(const struct cs_graph *graph, const struct cs_param *param,
                        const char *glob)
{
    return cs_glob_match(glob, param->name) ||
           cs_glob_match(glob, graph->layers[param->layer].path);
}

int32_t cs_graph_group(const struct cs_graph *graph, const struct cs_spec *spec,
                       const struct cs_param *param)
{
    for (int32_t g = spec->n_groups - 1; g >= 0; g--)
        if (is_in_group(graph, param, spec->groups[g].glob))
            return g;
    return -1;
}

enum cs_status cs_graph_check_groups(const struct cs_graph *graph, const struct cs_spec *spec,
                                     struct cs_arena *arena, struct cs_err *err)
{
    for (int32_t g = 0; g < spec->n_groups; g++) {
        const char *where = cs_arena_printf(arena, "optimizer.groups[%d]", g);
        bool is_there = false;
        for (int i = 0; i < graph->n_params && !is_there; i++)
            is_there = graph->params[i].is_trainable &&
                       is_in_group(graph, &graph->params[i], spec->groups[g].glob);
        if (!is_there)
            return no_match(graph, where, spec->groups[g].glob, "parameter that trains", arena,
                            err);
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
