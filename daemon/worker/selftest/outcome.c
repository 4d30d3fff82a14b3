/* Runs the steps of a rank and collects what came of them, from all ranks. */
#include "worker/selftest/outcome.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* losses of replicas are added by whoever has one */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void cs_outcome_new(const struct cs_golden *golden, struct cs_outcome *out)
{
    const struct cs_graph *graph = golden->graph;
    *out = (struct cs_outcome){.tokens = golden->manifest->trained_tokens,
                               .grad = CS_NEW_ARRAY(golden->arena, float *, graph->n_params + 1)};
    for (int32_t i = 0; i < graph->n_params; i++)
        if (graph->params[i].is_trainable)
            out->grad[i] = CS_NEW_ARRAY(golden->arena, float, graph->params[i].count);
}

/* What this rank has of a gradient, to its place in the whole one. */
static enum cs_status take_part(struct cs_outcome *outcome, const struct cs_shard *s,
                                struct cs_err *err)
{
    struct cs_tp_slice slice[CS_TP_SLICES];
    const struct cs_slice whole = cs_slice_whole(s->whole);
    const int n = cs_tp_slices(s->part, s->param, s->own_at, s->own_n, slice);
    const float *from = s->own_grad;
    float *piece = malloc((size_t)s->own_n * sizeof *piece);
    if (piece == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the gradient of %s", s->param->name);
    for (int i = 0; i < n; i++) {
        const struct cs_slice *one = &slice[i].whole;
        const int64_t runs = cs_slice_runs(one, one, &whole);
        cs_tp_slice_take(&slice[i], from, piece);
        for (int64_t r = 0; r < runs; r++) {
            const struct cs_copy_run run = cs_slice_run(one, one, &whole, r);
            memcpy(outcome->grad[s->param->id] + run.to, piece + run.from,
                   (size_t)run.n * sizeof *piece);
        }
    }
    free(piece);
    return CS_OK;
}

/* Parts of ranks do not overlap. */
enum cs_status cs_outcome_take_gradients(struct cs_outcome *outcome, struct cs_params *params,
                                         struct cs_err *err)
{
    for (int32_t i = 0; i < params->n; i++) {
        const struct cs_shard *s = &params->shard[i];
        if (s->grad == NULL || !s->is_counted || s->own_n == 0 || !cs_shard_is_first(s))
            continue;
        if (s->part != NULL) {
            CS_TRY(take_part(outcome, s, err));
            continue;
        }
        CS_TRY(cs_device_read(params->device, outcome->grad[s->param->id] + s->own_at, s->own_grad,
                              (size_t)s->own_n * params->grad_size, err));
    }
    return CS_OK;
}

static void note_step(struct cs_outcome *outcome, int step, const struct cs_step_result *result)
{
    pthread_mutex_lock(&lock);
    if (result->has_loss) {
        outcome->loss[step] += result->loss_sum / (double)outcome->tokens;
        outcome->has_balance = outcome->has_balance || result->has_balance;
        outcome->balance[step] += result->balance;
        outcome->norm[step] = result->grad_norm;
    }
    pthread_mutex_unlock(&lock);
}

enum cs_status cs_outcome_train(struct cs_outcome *outcome, struct cs_golden *golden,
                                struct cs_trainer *trainer, struct cs_err *err)
{
    struct cs_manifest manifest = *golden->manifest;
    for (int i = 0; i < CS_GOLDEN_STEPS; i++) {
        struct cs_step_result result;
        manifest.step = i;
        CS_TRY(cs_trainer_step(trainer, &manifest, golden->slots,
                               (const float *const(*)[CS_MAX_ENCODERS])golden->slot_patches,
                               &result, err));
        if (!cs_exec_keeps_plan(trainer->exec))
            return cs_fail(err, CS_PLAN, "step %d took more memory than was planned for it", i);
        if (i == 0)
            CS_TRY(cs_outcome_take_gradients(outcome, trainer->params, err));
        note_step(outcome, i, &result);
    }
    return CS_OK;
}
