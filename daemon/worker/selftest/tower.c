/* A tower alone: its layers as one stage, the probe as the gradient of its output. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/selftest/outcome.h"

struct tower {
    struct cs_golden *g;
    struct cs_stage alone;
    struct cs_stage_model *stage;
    struct cs_scratch scratch;
    struct cs_saved saved;
    float *probe, *last;
    int64_t count;
    int64_t *row;  /* of the golden, for every row of ours */
    void *y, *d_y; /* acts: output, and the probe as its gradient */
};

/* the layers of the modules that the directory has: the encoder, and its projector where it is there */
static void choose_layers(struct tower *t)
{
    const struct cs_graph *graph = t->g->graph;
    t->alone = t->g->plan->stages[0];
    t->alone.n_layers = 0;
    for (int32_t m = graph->n_modules - 1; m >= 0; m--) {
        if (t->g->part[graph->modules[m].kind] == NULL)
            continue;
        t->alone.first_layer = graph->modules[m].first_layer;
        t->alone.n_layers += graph->modules[m].n_layers;
    }
}

/* n acts in the memory of the device, filled from fp32 values unless they are NULL */
static enum cs_status new_acts(struct cs_golden *g, int64_t n, const float *host, void **out,
                               struct cs_err *err)
{
    struct cs_device *d = g->device;
    const size_t bytes = (size_t)n * d->ops->act_bytes;
    uint16_t *halves = CS_NEW_ARRAY(g->arena, uint16_t, n + 1);
    CS_TRY(cs_device_alloc(d, bytes + 64, out, err));
    if (host == NULL)
        return CS_OK;
    for (int64_t i = 0; i < n; i++)
        halves[i] = cs_bf16_from_f32(host[i]);
    cs_device_copy(d, *out, cs_device_is_f32(d) ? (const void *)host : halves, bytes);
    return cs_device_sync(d, err);
}

/* Where the golden has each of our rows: items in turn, padded to the same length where it is a batch;
 * what leaves a projector has an order of its own (core/arch/front.h). */
static void find_rows(struct tower *t, const struct cs_st_tensor *probe, int64_t n_rows)
{
    const struct cs_golden *g = t->g;
    const struct cs_arch *a = &cs_graph_encoder(g->graph, 0)->arch;
    const bool is_projected =
        t->stage->layer[t->alone.n_layers - 1].layer->kind == CS_LAYER_PROJECTOR;
    const bool is_padded = probe->n_dims == 3 && probe->dim[0] > 1;
    int32_t *place = CS_NEW_ARRAY(g->arena, int32_t, n_rows + 1);
    int64_t at = 0, base = 0;
    t->row = CS_NEW_ARRAY(g->arena, int64_t, n_rows + 1);
    for (int32_t i = 0; i < g->slot.head->n_items[0]; i++) {
        const struct cs_item_shape *shape = &g->slot.items[0][i].shape;
        const int32_t n = is_projected ? shape->rows : cs_front_rows(a, shape->grid);
        const int32_t rows = cs_chain_joins(&a->chain) ? shape->rows : n;
        for (int32_t k = 0; k < rows; k++)
            place[k] = k;
        if (is_projected)
            cs_front_places(a, shape->grid, place);
        for (int32_t k = 0; k < rows && at < n_rows; k++)
            t->row[at++] = base + place[k];
        base += is_padded ? probe->dim[1] : rows;
    }
}

/* A tensor of the golden in the order of our rows. */
static enum cs_status arranged(struct tower *t, const char *name, float **out, struct cs_err *err)
{
    const struct cs_st_tensor *probe = cs_st_find(t->g->file, name);
    float *values;
    int64_t count;
    CS_TRY(cs_golden_floats(t->g, name, &values, &count, err));
    const int64_t width = probe->dim[probe->n_dims - 1], n_rows = t->count / width;
    *out = CS_NEW_ARRAY(t->g->arena, float, t->count + 1);
    for (int64_t r = 0; r < n_rows; r++) {
        if (t->row[r] >= count / width)
            return cs_fail(err, CS_CORRUPT, "%s: %s has %lld rows, the tower has one more",
                           cs_st_path(t->g->file), name, (long long)(count / width));
        memcpy(*out + r * width, values + t->row[r] * width, (size_t)width * sizeof **out);
    }
    return CS_OK;
}

static enum cs_status open_tower(struct tower *t, struct cs_err *err)
{
    struct cs_golden *g = t->g;
    struct cs_plan plan = *g->plan;
    struct cs_input *in = &g->trainer->inputs[0];
    choose_layers(t);
    plan.stages = &t->alone;
    CS_TRY(cs_stage_new(g->graph, &plan, g->trainer->params, 0, &t->stage, err));
    CS_TRY(cs_golden_add_media(g, err));
    cs_manifest_note(g->manifest, 0, &g->slot);
    CS_TRY(cs_input_prepare(in, g->trainer->tables, g->manifest, 0, &g->slot,
                            CS_INPUT_PIXELS | CS_INPUT_ROWS, err));
    in->patches[0] = g->patches[0];
    CS_TRY(cs_input_make_room(in, err));
    cs_input_place(in);
    const struct cs_st_tensor *probe;
    CS_TRY(cs_golden_tensor(g, "in.probe", &probe, err));
    const int64_t n_rows = cs_stage_rows(t->stage, in);
    t->count = n_rows * t->stage->layer[t->alone.n_layers - 1].out_width;
    find_rows(t, probe, n_rows);
    CS_TRY(arranged(t, "in.probe", &t->probe, err));
    CS_TRY(arranged(t, "out.last", &t->last, err));
    t->scratch.device = t->saved.memory.device = t->saved.held.device = g->device;
    CS_TRY(new_acts(g, t->count, NULL, &t->y, err));
    return new_acts(g, t->count, t->probe, &t->d_y, err);
}

static void close_tower(struct tower *t)
{
    cs_scratch_free(&t->scratch);
    cs_scratch_free(&t->saved.memory);
    cs_stage_free(t->stage);
    free(t->saved.kept);
    cs_device_free(t->g->device, t->y, 0);
    cs_device_free(t->g->device, t->d_y, 0);
}

/* forward and backward; *loss: sum of output times probe */
static enum cs_status run_tower(struct tower *t, float **y, double *loss, struct cs_err *err)
{
    struct cs_golden *g = t->g;
    struct cs_ctx ctx = cs_device_ctx(g->device);
    const struct cs_layer_ends ends = {0};
    struct cs_run run = {.device = g->device,
                         .ops = g->device->ops,
                         .ctx = &ctx,
                         .scratch = &t->scratch,
                         .input = &g->trainer->inputs[0]};
    cs_optim_begin(g->trainer->optim);
    cs_scratch_reset(&t->saved.memory);
    cs_stage_fwd(t->stage, &run, NULL, &ends, t->y, &t->saved);
    cs_stage_bwd(t->stage, &run, t->d_y, NULL, &ends, &t->saved);
    CS_TRY(cs_golden_fetch(g, t->y, t->count, y, err));
    *loss = 0;
    for (int64_t i = 0; i < t->count; i++)
        *loss += (double)(*y)[i] * (double)t->probe[i];
    return CS_OK;
}

static enum cs_status first_checks(struct tower *t, const float *y, double loss,
                                   struct cs_selftest *out, struct cs_err *err)
{
    struct cs_golden *g = t->g;
    float *want;
    CS_TRY(cs_golden_floats(g, "out.loss", &want, NULL, err));
    struct cs_selftest_check *check = cs_selftest_add(g, out, "output", 1e-4, 1e-3);
    cs_selftest_compare(
        g, check,
        (struct cs_selftest_pair){
            .name = "last", .kind = CS_PAIR_VALUES, .n = t->count, .got = y, .want = t->last});
    check = cs_selftest_add(g, out, "loss", 1e-5, 0.1);
    /* a sum of many products, not a mean: relative to its size, or to 1 */
    cs_selftest_number(g, check, "loss", loss, want[0], fmax(1.0, fabs((double)want[0])));
    struct cs_outcome outcome;
    cs_outcome_new(g, &outcome);
    CS_TRY(cs_outcome_take_gradients(&outcome, g->trainer->params, err));
    return cs_outcome_check_gradients(&outcome, g, 1.0, out, err);
}

/* What leaves the trained tower, in the order of the golden's rows. */
static enum cs_status note_after(struct tower *t, struct cs_err *err)
{
    struct cs_golden *g = t->g;
    const struct cs_st_tensor *probe = cs_st_find(g->file, "in.probe");
    const int64_t width = probe->dim[probe->n_dims - 1];
    float *y;
    double loss;
    CS_TRY(run_tower(t, &y, &loss, err));
    g->after.name = "last";
    g->after.dim[0] = probe->count / width;
    g->after.dim[1] = width;
    g->after.values = CS_NEW_ARRAY(g->arena, float, probe->count + 1);
    for (int64_t r = 0; r < t->count / width; r++)
        memcpy(g->after.values + t->row[r] * width, y + r * width, (size_t)width * sizeof *y);
    return CS_OK;
}

static enum cs_status run_steps(struct tower *t, struct cs_selftest *out, struct cs_err *err)
{
    struct cs_golden *g = t->g;
    struct cs_optim *optim = g->trainer->optim;
    float *loss, *norm, *y;
    CS_TRY(cs_golden_floats(g, "step.loss", &loss, NULL, err));
    CS_TRY(cs_golden_floats(g, "step.norm", &norm, NULL, err));
    struct cs_selftest_check *losses = cs_selftest_add(g, out, "step loss", 1e-4, 0.1);
    struct cs_selftest_check *norms = cs_selftest_add(g, out, "step norm", 1e-3, 0.1);
    losses->most = norms->most = HUGE_VAL; /* the fifth step may be chaos */
    for (int i = 0; i < CS_GOLDEN_STEPS; i++) {
        double got;
        CS_TRY(run_tower(t, &y, &got, err));
        if (i == 0)
            CS_TRY(first_checks(t, y, got, out, err));
        CS_TRY(cs_optim_norm(optim, NULL, 1, 0, err));
        cs_selftest_number(g, losses, cs_selftest_step(i), got, loss[i], 1 + fabs((double)loss[i]));
        cs_selftest_number(g, norms, cs_selftest_step(i), optim->grad_norm, norm[i],
                           (double)norm[i]);
        cs_optim_update(optim, i);
    }
    return note_after(t, err);
}

enum cs_status cs_golden_check_tower(struct cs_golden *g, struct cs_selftest *out,
                                     struct cs_err *err)
{
    struct tower t = {.g = g};
    enum cs_status status = open_tower(&t, err);
    if (status == CS_OK)
        status = run_steps(&t, out, err);
    close_tower(&t);
    return status;
}
