/* A language model, alone or behind its tower: the batch as documents of one slot, logits, loss,
 * gradients and five steps. */
#include <math.h>
#include <string.h>

#include "worker/selftest/parts.h"

/* in.ids and in.labels, row by row of the batch */
struct batch {
    int64_t *ids, *labels, rows, n;
};

static enum cs_status read_batch(const struct cs_golden *g, struct batch *out, struct cs_err *err)
{
    const struct cs_st_tensor *t;
    int64_t n_labels;
    CS_TRY(cs_golden_tensor(g, "in.ids", &t, err));
    CS_TRY(cs_golden_ints(g, "in.ids", &out->ids, NULL, err));
    CS_TRY(cs_golden_ints(g, "in.labels", &out->labels, &n_labels, err));
    if (t->n_dims != 2 || n_labels != t->count)
        return cs_fail(err, CS_CORRUPT, "%s: in.ids and in.labels are not (batch, rows) both",
                       cs_st_path(g->file));
    out->rows = t->dim[0];
    out->n = t->dim[1];
    return CS_OK;
}

/* A row of the batch is a document; its last row has no label: the next token is not known. */
static void add_document(struct cs_golden *g, const struct batch *b, int64_t row)
{
    struct cs_slot *s = &g->slot;
    struct cs_slot_head *head = s->head;
    const int64_t *id = b->ids + row * b->n, *label = b->labels + row * b->n;
    s->sample_ids[row] = (uint64_t)row;
    s->sample_rows[row] = head->n_tokens;
    for (int64_t i = 0; i < b->n; i++) {
        const int32_t at = head->n_tokens++;
        const bool has_label = i + 1 < b->n && label[i + 1] >= 0;
        s->ids[at] = (int32_t)id[i];
        s->labels[at] = has_label ? (int32_t)label[i + 1] : -1;
        s->doc[at] = (int32_t)row;
        s->pos[at] = (int32_t)i;
        head->n_labels += has_label;
    }
    s->sample_rows[++head->n_samples] = head->n_tokens;
}

static enum cs_status fill_slot(struct cs_golden *g, struct cs_err *err)
{
    struct batch b;
    int64_t *tokens = NULL;
    CS_TRY(read_batch(g, &b, err));
    if (cs_golden_has(g, "out.tokens"))
        CS_TRY(cs_golden_ints(g, "out.tokens", &tokens, NULL, err));
    for (int64_t row = 0; row < b.rows; row++)
        add_document(g, &b, row);
    CS_TRY(cs_golden_add_media(g, err));
    g->manifest->n_samples = g->slot.head->n_samples;
    g->manifest->trained_tokens = g->slot.head->n_labels;
    cs_manifest_note(g->manifest, 0, &g->slot);
    if (tokens != NULL && g->manifest->trained_tokens != tokens[0])
        return cs_fail(err, CS_CORRUPT, "%s: %lld labels are counted, out.tokens is %lld",
                       cs_st_path(g->file), (long long)g->manifest->trained_tokens,
                       (long long)tokens[0]);
    return CS_OK;
}

/* the logits of the rows with a label, from what the head has kept of them */
static enum cs_status check_logits(struct cs_golden *g, struct cs_run *run,
                                   const struct cs_layer_model *head, const void *picked,
                                   struct cs_selftest *out, struct cs_err *err)
{
    const struct cs_input *in = run->input;
    const int64_t n = in->n_labels, width = head->arch->width, vocab = head->arch->vocab;
    float *got, *want;
    int64_t count;
    CS_TRY(cs_golden_floats(g, "out.logits", &want, &count, err));
    void *h = cs_run_take(run, n * width), *y = cs_run_take(run, n * vocab);
    cs_run_norm(run, head->arch, n, picked, cs_weight(head, CS_PARAM_NORM_W),
                cs_weight(head, CS_PARAM_NORM_B), h, cs_scratch_floats(run->scratch, n * 2));
    cs_run_linear(run, n, width, vocab, h, cs_weight(head, CS_PARAM_HEAD_W), NULL, y);
    CS_TRY(cs_golden_fetch(g, y, n * vocab, &got, err));
    for (int64_t i = 0; head->arch->logit_softcap > 0 && i < n * vocab; i++)
        got[i] = head->arch->logit_softcap * tanhf(got[i] / head->arch->logit_softcap);
    struct cs_selftest_check *check =
        cs_selftest_add(out, "logits", cs_selftest_limit(g, 1e-4, 2e-3));
    for (int64_t r = 0; r < n; r++) {
        char name[64];
        snprintf(name, sizeof name, "logits of row %d", in->label_rows[r]);
        cs_selftest_values(g, check, name, vocab, got + r * vocab,
                           want + (int64_t)in->label_rows[r] * vocab);
    }
    return CS_OK;
}

/* One forward pass outside of a step, stage by stage, which keeps what the head picked. */
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

static enum cs_status check_forward(struct cs_golden *g, struct cs_selftest *out,
                                    struct cs_err *err)
{
    struct cs_trainer *t = g->trainer;
    struct cs_input *in = &t->inputs[0];
    struct cs_saved saved = {.memory = {.device = g->device}};
    struct forward f = {.g = g,
                        .ctx = cs_device_ctx(g->device),
                        .scratch = {.device = g->device},
                        .rows = {.device = g->device},
                        .edge = CS_NEW_ARRAY(g->arena, void *, g->plan->n_edges + 1)};
    CS_TRY(cs_input_prepare(in, t->tables, g->manifest, 0, &g->slot, cs_exec_needs(t->exec, false),
                            err));
    for (int e = 0; e < CS_MAX_ENCODERS; e++)
        in->patches[e] = g->patches[e];
    CS_TRY(cs_input_make_room(in, err));
    cs_input_place(in);
    f.run = (struct cs_run){.device = g->device,
                            .ops = g->device->ops,
                            .ctx = &f.ctx,
                            .scratch = &f.scratch,
                            .input = in};
    for (int32_t s = 0; s < g->plan->n_stages; s++)
        run_stage(&f, s, s == g->plan->head_stage ? &saved : NULL);
    const struct cs_stage_model *head = cs_exec_stage(t->exec, g->plan->head_stage);
    const int32_t last = head->stage->n_layers - 1;
    const enum cs_status status =
        check_logits(g, &f.run, &head->layer[last], saved.kept[last].x, out, err);
    cs_scratch_free(&f.scratch);
    cs_scratch_free(&f.rows);
    cs_scratch_free(&saved.memory);
    free(saved.kept);
    return status;
}

static enum cs_status run_step(struct cs_golden *g, int64_t number, struct cs_step_result *result,
                               struct cs_err *err)
{
    const float *patches[1][CS_MAX_ENCODERS];
    memcpy(patches[0], g->patches, sizeof patches[0]);
    g->manifest->step = number;
    return cs_trainer_step(g->trainer, g->manifest, &g->slot,
                           (const float *const(*)[CS_MAX_ENCODERS])patches, result, err);
}

/* Three recurrent blocks and more: decays are differences in fp32 of sums that reach hundreds, and
 * transformers' own losses of the later steps differ by up to 6e-3 between fp32 and fp64. Those steps
 * are compared loosely, and their norms, which say nothing, are not. */
static bool is_restless(const struct cs_golden *g)
{
    const struct cs_arch *arch = &cs_graph_llm(g->graph)->arch;
    int n = 0;
    for (int i = 0; i < arch->n_layers; i++)
        n += cs_arch_block_mixer(arch, i) == CS_MIXER_DELTA;
    return n > 2;
}

static enum cs_status check_steps(struct cs_golden *g, struct cs_selftest *out, struct cs_err *err)
{
    float *loss, *norm, *first;
    CS_TRY(cs_golden_floats(g, "step.loss", &loss, NULL, err));
    CS_TRY(cs_golden_floats(g, "step.norm", &norm, NULL, err));
    CS_TRY(cs_golden_floats(g, "out.loss", &first, NULL, err));
    struct cs_selftest_check *whole = cs_selftest_add(out, "loss", cs_selftest_limit(g, 1e-5, 0.1));
    struct cs_selftest_check *losses =
        cs_selftest_add(out, "step loss", cs_selftest_limit(g, 1e-4, 0.1));
    struct cs_selftest_check *norms =
        cs_selftest_add(out, "step norm", cs_selftest_limit(g, 1e-3, 0.1));
    struct cs_selftest_check *later =
        is_restless(g) ? cs_selftest_add(out, "later loss", cs_selftest_limit(g, 2e-2, 0.1))
                       : losses;
    for (int64_t i = 0; i < CS_GOLDEN_STEPS; i++) {
        struct cs_step_result r;
        CS_TRY(run_step(g, i, &r, err));
        const double mean = r.loss_sum / (double)r.trained_tokens;
        if (i == 0) {
            cs_selftest_note(whole, fabs(mean - (double)first[0]) / fabs((double)first[0]),
                             "%.9g, transformers %.9g", mean, (double)first[0]);
            CS_TRY(cs_golden_check_gradients(g, 1.0 / (double)r.trained_tokens, out, err));
        }
        cs_selftest_note(i > 0 ? later : losses, fabs(mean - (double)loss[i]),
                         "step %lld: %.9g, transformers %.9g", (long long)i, mean, (double)loss[i]);
        if (i > 0 && later != losses)
            continue;
        cs_selftest_note(norms, fabs(r.grad_norm - (double)norm[i]) / (double)norm[i],
                         "step %lld: %.9g, transformers %.9g", (long long)i, r.grad_norm,
                         (double)norm[i]);
    }
    return CS_OK;
}

enum cs_status cs_golden_check_text(struct cs_golden *g, struct cs_selftest *out,
                                    struct cs_err *err)
{
    CS_TRY(fill_slot(g, err));
    CS_TRY(check_forward(g, out, err));
    return check_steps(g, out, err);
}
