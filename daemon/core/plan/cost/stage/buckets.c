/* Deals the gradients of a stage out to buckets, layer by layer, and the times of the stage to
 * them. */
#include "core/plan/cost/stage/buckets.h"

#include "core/plan/cost/basis/bytes.h"

/* What is made for one stage. */
struct maker {
    const struct cs_graph *graph;
    const struct cs_plan *plan;
    const struct cs_stage *stage;
    struct cs_stage_bucket *bucket;
    int32_t n;
    double fwd, bwd;       /* FLOPs of all its layers */
    double fwd_at, bwd_at; /* of those below the layer that is looked at */
};

struct layer_flops {
    double fwd, bwd;
};

static struct layer_flops flops_of(const struct maker *m, int32_t layer)
{
    const struct cs_layer *l = &m->graph->layers[layer];
    const struct cs_layer_work work = cs_layer_work(m->graph, l, &m->plan->budget);
    const double fwd =
        (double)cs_layer_fwd_flops(m->graph, l, work.tokens, work.pairs, work.label_rows);
    return (struct layer_flops){fwd, fwd * (l->needs_input_grad + l->needs_weight_grad)};
}

static int64_t share(int64_t ns, double part, double whole)
{
    return whole > 0 ? (int64_t)((double)ns * (part / whole)) : 0;
}

/* elements of the tied table that this layer has a gradient of its own of */
static int64_t tied_params(const struct maker *m, const struct cs_layer *layer)
{
    const struct cs_graph *graph = m->graph;
    if (!graph->is_tied || graph->modules[layer->module].kind != CS_MODULE_LLM ||
        !graph->params[graph->tied_param].is_trainable)
        return 0;
    const struct cs_stage *embed = &m->plan->stages[m->plan->embed_stage];
    /* where both ends are on one rank, the head's gradient is added to the embedding's */
    const bool is_here = layer->kind == CS_LAYER_EMBED ||
                         (layer->kind == CS_LAYER_HEAD && embed->rank != m->stage->rank);
    return is_here ? graph->params[graph->tied_param].count : 0;
}

/* of one parameter */
static int64_t grad_size(const struct cs_graph *graph)
{
    return graph->keeps_bf16 ? 2 : 4;
}

static void add_layer(struct maker *m, int32_t layer, bool *is_open)
{
    const int64_t size = grad_size(m->graph);
    const struct cs_layer *l = &m->graph->layers[layer];
    const int64_t late = tied_params(m, l),
                  early = l->n_trained - (l->kind == CS_LAYER_EMBED ? late : 0);
    const struct cs_stage *s = m->stage;
    const struct cs_stage_bucket at = {
        .left_ns = share(s->bwd_input_ns + s->bwd_weight_ns, m->bwd_at, m->bwd),
        .into_ns = share(s->fwd_ns, m->fwd_at, m->fwd)};
    if (early > 0) {
        if (!*is_open)
            m->bucket[m->n++] = at;
        m->bucket[m->n - 1].params += early;
        m->bucket[m->n - 1].grad_bytes += early * size;
        *is_open = m->bucket[m->n - 1].grad_bytes < CS_BUCKET_BYTES && s->zero < 2;
    }
    if (late == 0)
        return;
    m->bucket[m->n] = at;
    m->bucket[m->n].params = late;
    m->bucket[m->n].grad_bytes = late * size;
    m->bucket[m->n++].is_late = true;
    *is_open = false;
}

static void fill_stage(struct maker *m, const struct cs_stage *stage)
{
    const int32_t end = stage->first_layer + stage->n_layers;
    bool is_open = false;
    m->stage = stage;
    for (int32_t l = stage->first_layer; l < end; l++) {
        const struct layer_flops flops = flops_of(m, l);
        m->fwd += flops.fwd;
        m->bwd += flops.bwd;
    }
    for (int32_t l = stage->first_layer; l < end; l++) {
        const struct layer_flops flops = flops_of(m, l);
        add_layer(m, l, &is_open);
        m->fwd_at += flops.fwd;
        m->bwd_at += flops.bwd;
    }
}

void cs_stage_buckets(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        struct maker m = {.graph = graph, .plan = plan};
        if (cs_plan_holders(plan, stage->rank) > 1) {
            m.bucket = CS_NEW_ARRAY(arena, struct cs_stage_bucket, 2 * stage->n_layers + 1);
            fill_stage(&m, stage);
        }
        stage->bucket = m.bucket;
        stage->n_buckets = m.n;
    }
}
