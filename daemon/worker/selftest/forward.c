/* One forward pass outside of a step, stage by stage, as far as the logits. */
#include <math.h>
#include <stdlib.h>

#include "worker/selftest/parts.h"

struct forward {
    struct cs_golden *g;
    struct cs_run run;
    struct cs_ctx ctx;
    struct cs_scratch scratch, rows;
    void **edge; /* (plan->n_edges) rows that cross it */
};

static void run_stage(struct forward *f, int32_t s, struct cs_saved *saved)
{
    const struct cs_plan *plan = f->g->plan;
    const struct cs_stage_model *stage = cs_exec_stage(f->g->trainer->exec, s);
    struct cs_layer_ends ends = {0};
    const void *x = NULL;
    void *y = NULL;
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *e = &plan->edges[i];
        if (e->to == s && e->feed >= 0)
            ends.fill[e->feed] = f->edge[i];
        else if (e->to == s)
            x = f->edge[i];
        if (e->from != s)
            continue;
        f->edge[i] = cs_scratch_take(&f->rows, (size_t)e->max_rows * (size_t)e->width *
                                                   f->run.ops->act_bytes);
        if (e->feed >= 0 && f->g->graph->feeds[e->feed].is_tap)
            ends.tap[e->feed] = f->edge[i];
        else
            y = f->edge[i];
    }
    cs_stage_fwd(stage, &f->run, x, &ends, y, saved);
}

/* from what the head has kept of the rows with a label */
static enum cs_status make_logits(struct forward *f, const struct cs_layer_model *head,
                                  const void *picked, float **out, struct cs_err *err)
{
    struct cs_run *run = &f->run;
    const int64_t n = run->input->n_labels, width = head->arch->width, vocab = head->arch->vocab;
    const float cap = head->arch->logit_softcap;
    void *h = cs_run_take(run, n * width), *y = cs_run_take(run, n * vocab);
    cs_run_norm(run, head->arch, n, picked, cs_weight(head, CS_PARAM_NORM_W),
                cs_weight(head, CS_PARAM_NORM_B), h, cs_scratch_floats(run->scratch, n * 2));
    cs_run_linear(run, n, width, vocab, h, cs_weight(head, CS_PARAM_HEAD_W), NULL, y);
    CS_TRY(cs_golden_fetch(f->g, y, n * vocab, out, err));
    for (int64_t i = 0; cap > 0 && i < n * vocab; i++)
        (*out)[i] = cap * tanhf((*out)[i] / cap);
    return CS_OK;
}

static enum cs_status prepare(struct cs_golden *g, struct cs_input *in, struct cs_err *err)
{
    CS_TRY(cs_input_prepare(in, g->trainer->tables, g->manifest, 0, &g->slot,
                            cs_exec_needs(g->trainer->exec, false), err));
    for (int e = 0; e < CS_MAX_ENCODERS; e++)
        in->patches[e] = g->patches[e];
    CS_TRY(cs_input_make_room(in, err));
    cs_input_place(in);
    return CS_OK;
}

enum cs_status cs_golden_forward(struct cs_golden *g, float **logits, struct cs_err *err)
{
    struct cs_input *in = &g->trainer->inputs[0];
    struct cs_saved saved = {.memory = {.device = g->device}};
    struct forward f = {.g = g,
                        .ctx = cs_device_ctx(g->device),
                        .scratch = {.device = g->device},
                        .rows = {.device = g->device},
                        .edge = CS_NEW_ARRAY(g->arena, void *, g->plan->n_edges + 1)};
    CS_TRY(prepare(g, in, err));
    f.run = (struct cs_run){.device = g->device,
                            .ops = g->device->ops,
                            .ctx = &f.ctx,
                            .scratch = &f.scratch,
                            .input = in};
    for (int32_t s = 0; s < g->plan->n_stages; s++)
        run_stage(&f, s, s == g->plan->head_stage ? &saved : NULL);
    const struct cs_stage_model *head = cs_exec_stage(g->trainer->exec, g->plan->head_stage);
    const int32_t last = head->stage->n_layers - 1;
    const enum cs_status status =
        make_logits(&f, &head->layer[last], saved.kept[last].x, logits, err);
    cs_scratch_free(&f.scratch);
    cs_scratch_free(&f.rows);
    cs_scratch_free(&saved.memory);
    free(saved.kept);
    return status;
}
