/* Runs the passes of a stage with operators that are only written down and memory that is only
 * counted. */
#include "worker/memory/rehearse.h"

#include <stdlib.h>
#include <string.h>

#include "worker/device/tape.h"
#include "worker/layer/exchange.h"
#include "worker/slot/split.h"

/* What is at hand while a stage is rehearsed. */
struct rehearsal {
    const struct cs_memory_config *config;
    const struct cs_stage_model *stage;
    struct cs_tape tape;
    struct cs_ctx ctx;
    struct cs_scratch scratch;
    struct cs_saved saved;
    struct cs_input input;
    struct cs_input_split split;        /* its own, where it has one */
    struct cs_context tensors, experts; /* only their number, and how they sum: nobody is met */
    struct cs_layer_ends ends;
    void *dy, *dx;       /* some address where the real one is not NULL */
    bool leaves_weights; /* its input half leaves something for the weight half */
};

static struct cs_run run_of(struct rehearsal *r)
{
    cs_tape_clear(&r->tape);
    r->ctx = cs_tape_ctx(&r->tape);
    return (struct cs_run){.device = &r->tape.recorder,
                           .ops = &r->tape.ops,
                           .ctx = &r->ctx,
                           .scratch = &r->scratch,
                           .input = &r->input,
                           .tensors = r->tensors.n > 1 ? &r->tensors : NULL,
                           .experts = r->experts.n > 1 ? &r->experts : NULL,
                           .is_rehearsal = true};
}

/* Edges bring and take rows and gradients; those with a feed beside the stage's own. */
static void set_ends(struct rehearsal *r)
{
    const struct cs_plan *plan = r->config->plan;
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *edge = &plan->edges[i];
        const bool leaves = &plan->stages[edge->from] == r->stage->stage;
        const bool enters = &plan->stages[edge->to] == r->stage->stage;
        const bool is_tap = edge->feed >= 0 && r->config->graph->feeds[edge->feed].is_tap;
        if (enters && edge->feed >= 0)
            r->ends.fill[edge->feed] = r;
        if (leaves && is_tap)
            r->ends.tap[edge->feed] = r;
        if (!edge->has_grad)
            continue;
        if (leaves && is_tap)
            r->ends.d_tap[edge->feed] = r;
        else if (leaves)
            r->dy = r;
        if (enters && edge->feed >= 0)
            r->ends.d_fill[edge->feed] = r;
        else if (enters)
            r->dx = r;
    }
}

/* ranks: that split the slot, where the rows of the LLM are split */
static void open_rehearsal(struct rehearsal *r, const struct cs_memory_config *config,
                           const struct cs_stage_model *stage, int32_t ranks)
{
    memset(r, 0, sizeof *r);
    r->config = config;
    r->stage = stage;
    r->input = config->fullest->input;
    if (r->input.split != NULL) {
        r->split = cs_split_fullest_of(&config->fullest->input, ranks);
        r->input.split = &r->split;
    }
    r->tensors.n = cs_plan_shape(config->plan, stage->stage->id).tp;
    r->tensors.sums = config->device->mem != NULL;
    r->experts.n = cs_plan_rank_shape(config->plan, config->rank).ep;
    r->experts.sums = r->tensors.sums;
    cs_tape_open(&r->tape, config->device);
    cs_scratch_bind_counting(&r->scratch);
    cs_scratch_bind_counting(&r->saved.memory);
    cs_scratch_bind_counting(&r->saved.held);
    set_ends(r);
}

static void close_rehearsal(struct rehearsal *r)
{
    cs_scratch_free(&r->scratch);
    cs_scratch_free(&r->saved.memory);
    cs_scratch_free(&r->saved.held);
    free(r->saved.later.wgrad);
    free(r->saved.kept);
    cs_tape_close(&r->tape);
}

static void forward(struct rehearsal *r, bool keeps)
{
    struct cs_run run = run_of(r);
    cs_scratch_clear(&r->saved.memory);
    cs_stage_fwd(r->stage, &run, r, &r->ends, r, keeps ? &r->saved : NULL);
}

static void backward(struct rehearsal *r, bool is_split)
{
    struct cs_run run = run_of(r);
    r->saved.is_split = is_split;
    cs_stage_bwd(r->stage, &run, r->dy, r->dx, &r->ends, &r->saved);
    if (!is_split)
        return;
    r->leaves_weights = r->saved.later.n > 0;
    run = run_of(r);
    cs_stage_bwd_weight(r->stage, &run, &r->saved);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void rehearse(const struct cs_memory_config *config, struct cs_memory_kind kind,
                     int32_t stage, int32_t ranks, struct cs_memory_rehearsal *out)
{
    struct rehearsal r;
    const struct cs_stage_model *model = config->stage[stage];
    const bool keeps = model->has_backward && !kind.is_eval;
    open_rehearsal(&r, config, model, ranks);
    forward(&r, keeps);
    if (keeps && kind.is_split)
        backward(&r, true);
    if (keeps && kind.is_whole) {
        forward(&r, true);
        backward(&r, false);
    }
    out->leaves = out->leaves || r.leaves_weights;
    out->stage = (struct cs_memory_stage){larger(out->stage.keep, r.saved.memory.peak),
                                          larger(out->stage.held, r.saved.held.peak),
                                          larger(out->stage.scratch, r.scratch.peak)};
    close_rehearsal(&r);
}

void cs_memory_rehearse(const struct cs_memory_config *config, struct cs_memory_kind kind,
                        int32_t stage, struct cs_memory_rehearsal *out)
{
    const struct cs_input_tables *tables = config->fullest->input.tables;
    const bool is_of_llm = config->stage[stage]->stage->branch == config->graph->llm;
    *out = (struct cs_memory_rehearsal){.is_done = true};
    int32_t ranks = tables->context.ranks;
    do {
        rehearse(config, kind, stage, ranks, out);
        ranks = is_of_llm ? cs_split_fewer(tables, ranks) : 0;
    } while (ranks > 0);
}
