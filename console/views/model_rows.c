/* Rows of the Model view. */
#include "console/views/model_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/whatif/groups.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/plan/cost/basis/profile.h"

const struct cs_column cs_model_columns[CS_MODEL_COLUMNS] = {
    {"",        9,  9,  0, CS_ALIGN_LEFT }, /* badge */
    {"",        12, 26, 6, CS_ALIGN_LEFT }, /* what it is */
    {"params",  6,  8,  1, CS_ALIGN_RIGHT},
    {"trained", 7,  8,  2, CS_ALIGN_RIGHT},
    {"fwd ms",  6,  8,  4, CS_ALIGN_RIGHT},
    {"bwd ms",  6,  8,  5, CS_ALIGN_RIGHT},
    {"where",   6,  12, 3, CS_ALIGN_LEFT },
    {"stage",   5,  12, 7, CS_ALIGN_LEFT },
};

static int32_t stage_of(const struct cs_store *store, int32_t layer)
{
    const struct cs_plan *plan = store->model.plan;
    for (int32_t s = 0; plan && s < plan->n_stages; s++)
        if (layer >= plan->stages[s].first_layer &&
            layer < plan->stages[s].first_layer + plan->stages[s].n_layers)
            return s;
    return -1;
}

static bool is_alike(const struct cs_store *store, const struct cs_layer *a,
                     const struct cs_layer *b)
{
    return a->module == b->module && a->kind == CS_LAYER_BLOCK && b->kind == CS_LAYER_BLOCK &&
           (a->n_trained > 0) == (b->n_trained > 0) && a->needs_input_grad == b->needs_input_grad &&
           stage_of(store, a->id) == stage_of(store, b->id);
}

static void set_label(const struct cs_graph *graph, struct cs_model_group *g)
{
    const struct cs_layer *first = &graph->layers[g->first], *last = first + g->n - 1;
    if (g->n == 1)
        cs_str_copy(g->label, CS_MODEL_CELL, first->path);
    else
        snprintf(g->label, CS_MODEL_CELL, "%s-%d", first->path, last->index);
}

static void set_what(const struct cs_graph *graph, struct cs_model_group *g)
{
    const struct cs_layer *layer = &graph->layers[g->first];
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    char *out = g->cell[1];
    switch (layer->kind) {
    case CS_LAYER_EMBED:
        if (arch->kind == CS_MODULE_LLM)
            snprintf(out, CS_MODEL_CELL, "%s, %d x %d", arch->family, arch->vocab, arch->width);
        else
            snprintf(out, CS_MODEL_CELL, "%s, %d patches", arch->family, cs_arch_inner_rows(arch));
        break;
    case CS_LAYER_BLOCK:
        snprintf(out, CS_MODEL_CELL, "%d x %d wide, %d head%s", g->n, arch->width,
                 arch->attention->n_heads, CS_PLURAL(arch->attention->n_heads));
        break;
    case CS_LAYER_TAP:
        snprintf(out, CS_MODEL_CELL, "%d x tap -> %d", g->n, arch->tap.linear[1]);
        break;
    case CS_LAYER_NORM:
        snprintf(out, CS_MODEL_CELL, "final norm");
        break;
    case CS_LAYER_PROJECTOR:
        snprintf(out, CS_MODEL_CELL, "%s, %d -> %d", arch->family, arch->in_width, arch->width);
        break;
    case CS_LAYER_HEAD:
        snprintf(out, CS_MODEL_CELL, graph->is_tied ? "tied to embed" : "%d words", arch->vocab);
        break;
    case CS_LAYER_KINDS:
        break;
    }
}

static void set_badge(const struct cs_layer *layer, int64_t trained, struct cs_model_group *g)
{
    const char *badge = trained > 0               ? "[TRAIN  ]"
                        : layer->needs_input_grad ? "[frozen^]"
                                                  : "[frozen ]";
    g->badge = trained > 0               ? CS_STYLE_TRAINS
               : layer->needs_input_grad ? CS_STYLE_PASSES
                                         : CS_STYLE_FROZEN;
    cs_str_copy(g->cell[0], CS_MODEL_CELL, badge);
}

static void set_figures(const struct cs_store *store, struct cs_model_group *g)
{
    const struct cs_graph *graph = store->model.graph;
    const struct cs_layer_cost *cost = store->model.layer_cost;
    int64_t n = 0, trained = 0, fwd_ns = 0, bwd_ns = 0;
    for (int32_t i = 0; i < g->n; i++) {
        const struct cs_layer *layer = &graph->layers[g->first + i];
        n += layer->n_elements;
        trained += layer->n_trained;
        if (!cost)
            continue;
        fwd_ns += cost[layer->id].fwd_ns;
        bwd_ns += layer->needs_input_grad ? cost[layer->id].bwd_input_ns : 0;
        bwd_ns += layer->needs_weight_grad ? cost[layer->id].bwd_weight_ns : 0;
    }
    set_badge(&graph->layers[g->first], trained, g);
    cs_fmt_count(g->cell[2], CS_MODEL_CELL, n);
    cs_fmt_count(g->cell[3], CS_MODEL_CELL, trained);
    cs_fmt_ms(g->cell[4], CS_MODEL_CELL, cost ? (double)fwd_ns : (double)NAN);
    cs_fmt_ms(g->cell[5], CS_MODEL_CELL, cost && bwd_ns > 0 ? (double)bwd_ns : (double)NAN);
    if (g->stage >= 0) {
        const struct cs_plan *plan = store->model.plan;
        char ranks[24];
        cs_groups_of_stage(plan, g->stage, ranks, sizeof ranks);
        snprintf(g->cell[6], CS_MODEL_CELL, "%s %s", strchr(ranks, '-') ? "ranks" : "rank", ranks);
        cs_str_copy(g->cell[7], CS_MODEL_CELL, store->model.plan->stages[g->stage].name);
    } else {
        snprintf(g->cell[6], CS_MODEL_CELL, "-");
        snprintf(g->cell[7], CS_MODEL_CELL, "-");
    }
}

int cs_model_groups(const struct cs_store *store, struct cs_model_group *groups, int cap)
{
    const struct cs_graph *graph = store->model.graph;
    int n = 0;
    for (int32_t l = 0; l < graph->n_layers && n < cap;) {
        struct cs_model_group *g = &groups[n++];
        *g = (struct cs_model_group){.module = graph->layers[l].module, .first = l, .n = 1};
        g->stage = stage_of(store, l);
        while (l + g->n < graph->n_layers &&
               is_alike(store, &graph->layers[l], &graph->layers[l + g->n]))
            g->n++;
        l += g->n;
        g->is_last = l == graph->n_layers || graph->layers[l].module != g->module;
        set_label(graph, g);
        set_what(graph, g);
        set_figures(store, g);
    }
    return n;
}

/* --- as a list -------------------------------------------------------------------------------- */

static int count_groups(const struct cs_store *store)
{
    struct cs_model_group groups[CS_MODEL_ROWS];
    return store->model.graph ? cs_model_groups(store, groups, CS_MODEL_ROWS) : 0;
}

static void *all_groups(const struct cs_store *store)
{
    struct cs_model_group *groups = calloc(CS_MODEL_ROWS, sizeof *groups);
    CS_ASSERT(groups);
    if (store->model.graph)
        cs_model_groups(store, groups, CS_MODEL_ROWS);
    return groups;
}

static void group_text(const struct cs_store *store, const void *made, int i, struct cs_buf *out)
{
    const struct cs_model_group *groups = made;
    (void)store;
    cs_buf_adds(out, groups[i].label);
    for (int k = 0; k < CS_MODEL_COLUMNS; k++)
        cs_buf_addf(out, "  %s%s%s", cs_model_columns[k].title,
                    cs_model_columns[k].title[0] ? " " : "", groups[i].cell[k]);
}

/* by parameters, or by the time of a slot */
static double group_key(const struct cs_store *store, const void *made, int i, int sort)
{
    const struct cs_model_group *groups = made;
    double sum = 0;
    for (int32_t l = groups[i].first; l < groups[i].first + groups[i].n; l++) {
        const struct cs_layer *layer = &store->model.graph->layers[l];
        const struct cs_layer_cost *cost = store->model.layer_cost;
        if (sort == 1)
            sum += (double)layer->n_elements;
        else if (cost)
            sum += (double)(cost[l].fwd_ns + (layer->needs_input_grad ? cost[l].bwd_input_ns : 0) +
                            (layer->needs_weight_grad ? cost[l].bwd_weight_ns : 0));
    }
    return sum;
}

const struct cs_rows cs_model_rows = {
    CS_VIEW_MODEL, count_groups, all_groups,
    group_text,    group_key,    {"place", "parameters", "time", NULL}
};
