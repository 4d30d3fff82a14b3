/* Levels 2 and 3 of ZeRO in the slots of a trial, by the function that plans use. Before a branch is cut: as if one
 * rank ran all of its layers, so that only the ends of stages hide less. */
#include <math.h>

#include "core/plan/cost/stage/zero.h"
#include "core/search/trial.h"

/* A tied table, which the first layer and the last count, stays whole. */
static int64_t beyond(int64_t bytes, int64_t tied, int32_t layer, int32_t n_layers)
{
    const int64_t whole = layer == 0 || layer == n_layers - 1 ? tied : 0;
    return bytes > whole ? bytes - whole : 0;
}

static void take(const struct cs_trial *t, int32_t b, const struct cs_search_layer *from,
                 bool has_halves, struct cs_zero_layer *out)
{
    const struct cs_search_layer *tied = &t->option[b]->shared;
    const int32_t n = t->problem->branch[b].n_layers;
    const int64_t tied_grads =
        tied->grad_bytes > 0 ? tied->grad_bytes : tied->n_trained * (int64_t)sizeof(float);
    for (int32_t i = 0; i < n; i++) {
        const struct cs_search_layer *l = &from[i];
        const int64_t input = l->bwd_input_ns + l->redo_ns;
        out[i] = (struct cs_zero_layer){
            .cost = {l->fwd_ns, has_halves ? input : input + l->bwd_weight_ns,
                     has_halves ? l->bwd_weight_ns : 0},
            .weights = t->c->zero[b] >= 3 ? beyond(l->weight_bytes, tied->weight_bytes, i, n) : 0,
            .grads = beyond(l->grad_bytes, tied_grads, i, n),
            .has_backward = l->bwd_input_ns + l->bwd_weight_ns > 0,
            .is_head = l->is_head
        };
    }
}

void cs_trial_add_zero(const struct cs_trial *t, int32_t b, struct cs_search_layer *layer)
{
    const int32_t n = t->problem->branch[b].n_layers, shards = cs_trial_shards(t, b);
    const bool has_halves =
        cs_plan_schedule((int)t->found->schedule)->splits_backward && cs_trial_stages(t, b) > 1;
    if (t->c->zero[b] < 2 || shards < 2)
        return;
    const struct cs_device_class link =
        cs_search_replica_link(t->problem, shards, t->option[b]->tp);
    struct cs_zero_layer *of = CS_NEW_ARRAY(t->scratch, struct cs_zero_layer, n + 1);
    const struct cs_zero_part all = {0, n, true, has_halves};
    const struct cs_zero_rank rank = {.device = &link,
                                      .layer = of,
                                      .part = &all,
                                      .n_layers = n,
                                      .n_parts = 1,
                                      .holders = shards,
                                      .turns =
                                          t->problem->zero_turns > 0 ? t->problem->zero_turns : 1,
                                      .slots = t->slots};
    struct cs_zero_more more;
    take(t, b, layer, has_halves, of);
    cs_zero_rank_times(&rank, t->scratch, &more);
    for (int32_t i = 0; i < n; i++) {
        struct cs_search_layer *l = &layer[i];
        int64_t *back = l->bwd_input_ns > 0 ? &l->bwd_input_ns : &l->bwd_weight_ns;
        *back += llround(more.bwd_input_ns[i]);
        l->bwd_weight_ns += llround(more.bwd_weight_ns[i]);
        l->fwd_ns += llround(more.fwd_ns[i]);
    }
}
