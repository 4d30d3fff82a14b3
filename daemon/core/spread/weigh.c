/* Weighs samples: the plan's time of a full slot, in proportion to what the sample asks for. */
#include "core/spread/weigh.h"
#include "core/plan/cost/basis/bytes.h"

/* Forward and backward of all stages of a branch, for a slot filled to its budgets. Of copies one
 * counts. */
static double branch_ns(const struct cs_plan *plan, int32_t branch)
{
    int64_t ns = 0;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *st = &plan->stages[s];
        if (st->branch == branch && (st->copies <= 1 || st->index == 0))
            ns += st->fwd_ns + st->bwd_input_ns + st->bwd_weight_ns;
    }
    return (double)ns;
}

static void weigh_llm(const struct cs_graph *graph, const struct cs_plan *plan, int32_t b,
                      struct cs_weigh *out)
{
    const struct cs_branch *branch = &graph->branches[b];
    double token = 0, label = 0, pair[CS_ATTENTIONS] = {0}, pairs[CS_ATTENTIONS] = {0};
    for (int32_t l = branch->first_layer; l < branch->first_layer + branch->n_layers; l++) {
        const struct cs_layer *layer = &graph->layers[l];
        const double passes = 1 + layer->needs_input_grad + layer->needs_weight_grad;
        token += passes * (double)cs_layer_fwd_flops(graph, layer, 1, 0, 0);
        if (layer->attention >= 0) {
            pair[layer->attention] += passes * (double)cs_layer_fwd_flops(graph, layer, 0, 1, 0);
            pairs[layer->attention] = (double)cs_layer_work(graph, layer, &plan->budget).pairs;
        }
        label += passes * (double)cs_layer_fwd_flops(graph, layer, 0, 0, 1);
    }
    const struct cs_arch *arch = cs_layer_arch(graph, &graph->layers[branch->first_layer]);
    const double rows = plan->budget.seq_tokens;
    double full = token * rows;
    for (int32_t k = 0; k < arch->n_attentions; k++)
        full += pair[k] * pairs[k];
    full += label * rows / 2;
    const double ns = full > 0 ? branch_ns(plan, b) / full : 0;
    out->token_ns = token * ns;
    out->label_ns = label * ns;
    out->n_pairs = arch->n_attentions;
    for (int32_t k = 0; k < arch->n_attentions; k++)
        out->pairs[k] = (struct cs_weigh_pairs){pair[k] * ns, arch->attention[k].rule};
}

static double item_flops(const struct cs_weigh_item *w, const struct cs_item_shape *shape)
{
    const int64_t patches = cs_item_patches(shape);
    const int64_t frames = shape->kind == CS_ITEM_SOUND ? 1 : shape->grid[0];
    double flops = w->patch * (double)patches + w->row * shape->rows;
    for (int32_t k = 0; k < w->n_attentions; k++)
        flops += w->pair[k] * (double)cs_item_pairs(&w->attention[k], frames, patches / frames);
    return flops;
}

static void weigh_item(const struct cs_graph *graph, const struct cs_branch *branch,
                       struct cs_weigh_item *out)
{
    for (int32_t l = branch->first_layer; l < branch->first_layer + branch->n_layers; l++) {
        const struct cs_layer *layer = &graph->layers[l];
        const struct cs_arch *arch = cs_layer_arch(graph, layer);
        const double passes = 1 + layer->needs_input_grad + layer->needs_weight_grad;
        const double token = passes * (double)cs_layer_fwd_flops(graph, layer, 1, 0, 0);
        *(layer->kind == CS_LAYER_PROJECTOR ? &out->row : &out->patch) += token;
        if (layer->attention < 0)
            continue;
        out->attention = arch->attention;
        out->n_attentions = arch->n_attentions;
        out->pair[layer->attention] += passes * (double)cs_layer_fwd_flops(graph, layer, 0, 1, 0);
    }
}

/* A slot filled to its budgets is so many items of the largest size. */
static void weigh_encoder(const struct cs_graph *graph, const struct cs_plan *plan, int32_t b,
                          struct cs_weigh *out)
{
    const int32_t e = graph->branches[b].encoder;
    const struct cs_item_budget *budget = &plan->budget.enc[e];
    out->item[e].largest = cs_slot_largest_item(&plan->budget, e);
    weigh_item(graph, &graph->branches[b], &out->item[e]);
    if (budget->items > 0)
        out->item_ns[e] = branch_ns(plan, b) / ((double)budget->patches / budget->item_patches);
}

void cs_weigh_make(const struct cs_graph *graph, const struct cs_plan *plan, struct cs_weigh *out)
{
    *out = (struct cs_weigh){.n_encoders = plan->budget.n_encoders};
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const int32_t e = graph->branches[b].encoder;
        out->full_ns[e < 0 ? CS_MAX_ENCODERS : e] = branch_ns(plan, b);
        if (e < 0)
            weigh_llm(graph, plan, b, out);
        else
            weigh_encoder(graph, plan, b, out);
    }
}

double cs_weigh_full(const struct cs_weigh *weigh, int encoder)
{
    return weigh->full_ns[encoder < 0 ? CS_MAX_ENCODERS : encoder];
}

/* The largest size counts as 1 without a division: all items alike weigh n, exactly. */
double cs_weigh_encoder(const struct cs_weigh *weigh, int encoder,
                        const struct cs_item_shape *shape, int32_t n)
{
    const struct cs_weigh_item *item = &weigh->item[encoder];
    const double most = item_flops(item, &item->largest);
    double shares = shape == NULL ? n : 0;
    for (int32_t i = 0; shape != NULL && i < n; i++) {
        const double flops = item_flops(item, &shape[i]);
        shares += flops == most ? 1 : flops / most;
    }
    return weigh->item_ns[encoder] * shares;
}

double cs_weigh_llm(const struct cs_weigh *weigh, int32_t tokens, int32_t labels)
{
    static const int32_t none[CS_MAX_ENCODERS];
    return cs_weigh_sample(weigh, tokens, labels, NULL, none);
}

double cs_weigh_sample(const struct cs_weigh *weigh, int32_t tokens, int32_t labels,
                       const struct cs_item_shape *const *shape, const int32_t *n)
{
    struct cs_mask_amounts amounts = {.tokens = tokens, .n = weigh->n_encoders};
    for (int32_t e = 0; e < weigh->n_encoders; e++) {
        const struct cs_item_shape *of = shape != NULL ? shape[e] : NULL;
        if (of == NULL)
            cs_mask_amounts_add(&amounts, e, n[e], weigh->item[e].largest.rows);
        for (int32_t i = 0; of != NULL && i < n[e]; i++)
            cs_mask_amounts_add(&amounts, e, 1, of[i].rows);
    }
    double ns = weigh->token_ns * tokens;
    for (int32_t k = 0; k < weigh->n_pairs; k++)
        ns += weigh->pairs[k].ns * (double)cs_mask_amounts_pairs(weigh->pairs[k].rule, &amounts);
    return ns + weigh->label_ns * labels;
}
