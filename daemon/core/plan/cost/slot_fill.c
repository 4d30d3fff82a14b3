/* Costs layers for a slot of one sample, and takes as many of them as a slot has. */
#include "core/plan/cost/slot_fill.h"

#include <math.h>

#include "core/plan/cost/cost.h"

enum { MOST_PERMILLE = 1000000 };

struct filling {
    const struct cs_spec *spec;
    const struct cs_graph *graph;
    const struct cs_plan *plan;
    const struct cs_device_class *device;
    const struct cs_profile *profile; /* NULL: there is none */
    const struct cs_slot_fill *fill;
    /* (graph->n_layers) on one rank of a full slot, of a slot of one sample; of a full slot on the ranks of the plan, and
     * there without what goes between them */
    struct cs_layer_cost *full, *sample, *shared, *works;
};

static int64_t sum_of(const struct cs_layer_cost *cost)
{
    return cost->fwd_ns + cost->bwd_input_ns + cost->bwd_weight_ns;
}

static enum cs_status layer_costs(const struct filling *f, const struct cs_slot_budget *budget,
                                  struct cs_layer_cost *cost, struct cs_err *err)
{
    const struct cs_layer *missing;
    cs_layer_costs(f->graph, budget, f->device, cost);
    if (f->profile == NULL)
        return CS_OK;
    return cs_measured_layer_costs(f->spec, f->graph, budget, f->device, f->profile, cost, &missing,
                                   err);
}

/* The budget of a slot of one sample, with its part of the items. */
static struct cs_slot_budget sample_budget(const struct filling *f)
{
    struct cs_slot_budget budget = f->plan->budget;
    const double part = f->fill->rows > 0 ? f->fill->document / f->fill->rows : 1;
    budget.seq_tokens = (int32_t)fmax(1, round(f->fill->document));
    for (int e = 0; e < budget.n_encoders; e++)
        budget.enc[e].rows = (int32_t)round(budget.enc[e].rows * f->fill->items[e] * part);
    return budget;
}

static int32_t encoder_of(const struct filling *f, const struct cs_layer *layer)
{
    return f->graph->branches[f->graph->modules[layer->module].branch].encoder;
}

/* Of its work in a full slot on one rank, the part that is left. */
static double work_left(const struct filling *f, int32_t layer)
{
    static const struct cs_tensor_ranks one = {.tp = 1};
    const struct cs_layer *l = &f->graph->layers[layer];
    const int32_t encoder = encoder_of(f, l);
    const struct cs_layer_cost cost = cs_tensor_fixed(f->profile, f->device, f->graph, l, one);
    const double full = (double)sum_of(&f->full[layer]),
                 whole = encoder < 0 ? (double)sum_of(&f->sample[layer]) : full,
                 fixed = fmin((double)sum_of(&cost), whole),
                 times = encoder < 0 ? f->fill->rows / f->fill->document : f->fill->items[encoder];
    return full > 0 ? (fixed + times * (whole - fixed)) / full : 1;
}

/* Rows go between ranks, whatever sample they are of. */
static double rows_left(const struct filling *f, int32_t layer)
{
    const int32_t encoder = encoder_of(f, &f->graph->layers[layer]);
    return encoder < 0 ? f->fill->rows / f->plan->budget.seq_tokens : f->fill->items[encoder];
}

static int32_t permille_of(const struct filling *f, const struct cs_stage *stage)
{
    double full = 0, filled = 0;
    for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
        const double all = (double)sum_of(&f->shared[l]),
                     works = fmin(all, (double)sum_of(&f->works[l]));
        full += all;
        filled += works * work_left(f, l) + (all - works) * rows_left(f, l);
    }
    const double permille = full > 0 ? round(1000 * filled / full) : 1000;
    return (int32_t)fmin(MOST_PERMILLE, permille);
}

static enum cs_status shared_costs(const struct filling *f, struct cs_arena *arena,
                                   struct cs_err *err)
{
    struct cs_device_class unlinked = *f->device;
    unlinked.link_bytes_per_s = unlinked.link_latency_ns = 0;
    unlinked.measured = NULL;
    CS_TRY(cs_spec_layer_costs(f->spec, f->graph, &f->plan->budget, f->device, arena, f->shared,
                               NULL, err));
    return cs_spec_layer_costs(f->spec, f->graph, &f->plan->budget, &unlinked, arena, f->works,
                               NULL, err);
}

static struct cs_layer_cost *new_costs(const struct cs_graph *graph, struct cs_arena *arena)
{
    return CS_NEW_ARRAY(arena, struct cs_layer_cost, graph->n_layers + 1);
}

enum cs_status cs_slot_fill_permille(const struct cs_spec *spec, const struct cs_graph *graph,
                                     const struct cs_plan *plan,
                                     const struct cs_device_class *device,
                                     const struct cs_slot_fill *fill, int32_t *permille,
                                     struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_profile *profile = NULL;
    struct filling f = {.spec = spec,
                        .graph = graph,
                        .plan = plan,
                        .device = device,
                        .fill = fill,
                        .full = new_costs(graph, arena),
                        .sample = new_costs(graph, arena),
                        .shared = new_costs(graph, arena),
                        .works = new_costs(graph, arena)};
    CS_ASSERT(fill->document > 0 && fill->rows >= fill->document);
    const struct cs_slot_budget budget = sample_budget(&f);
    enum cs_status status = cs_spec_profile(spec, arena, &profile, err);
    f.profile = profile;
    if (status == CS_OK)
        status = layer_costs(&f, &plan->budget, f.full, err);
    if (status == CS_OK)
        status = layer_costs(&f, &budget, f.sample, err);
    if (status == CS_OK)
        status = shared_costs(&f, arena, err);
    for (int32_t s = 0; status == CS_OK && s < plan->n_stages; s++)
        permille[s] = permille_of(&f, &plan->stages[s]);
    cs_arena_free(arena);
    return status;
}
