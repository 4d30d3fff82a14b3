/* Logits of the own words, a chunk of rows at a time: what each rank says of its rows goes to all, who
 * make the same loss of it in the order of the ranks; then gradients of logits, of the rows (summed over
 * the ranks at the end) and of the own words' weights are made where they are. */
#include "worker/model/head_words.h"

#include "worker/layer/exchange.h"
#include "worker/layer/tensors.h"

enum { HOST_ROWS = 256, HOST_MIB = 64, DEVICE_MIB = 512 };

/* The same on all ranks, by the one with most words. */
static int64_t chunk_rows(const struct cs_run *run, const struct cs_shard *w, int64_t n)
{
    const int32_t ranks = run->tensors->n;
    const int64_t words = (w->whole->dim[0] + ranks - 1) / ranks;
    const bool is_host = run->device->mem == NULL;
    const int64_t bytes = (int64_t)(is_host ? HOST_MIB : DEVICE_MIB) << 20;
    int64_t rows = bytes / (words * (int64_t)run->ops->act_bytes);
    rows = is_host && rows > HOST_ROWS ? HOST_ROWS : rows < 1 ? 1 : rows;
    return rows < n ? rows : n;
}

/* Rows of one chunk. */
struct chunk {
    int64_t first, n;
    const void *h;
    void *dh, *z;
    float *whole;
};

/* z, and what there is of all words */
static void forward(struct cs_run *run, const struct cs_layer_model *l, const struct chunk *c)
{
    const struct cs_input *in = run->input;
    const struct cs_arch *a = l->arch;
    const int64_t said = c->n * CS_XENT_STATS;
    float *stat = cs_scratch_floats(run->scratch, run->tensors->n * said);
    cs_run_linear(run, c->n, a->width, a->vocab, c->h, cs_weight(l, CS_PARAM_HEAD_W), NULL, c->z);
    run->ops->xent_part(run->ctx, c->n, a->vocab, in->at.label_ids + c->first, a->logit_softcap,
                        c->z, stat + run->tensors->place * said);
    cs_tensors_gather(run, said * (int64_t)sizeof *stat, stat);
    run->ops->xent_join(run->ctx, c->n, run->tensors->n, stat, in->at.loss,
                        in->at.row_loss + c->first,
                        in->at.correct != NULL ? in->at.correct + c->first : NULL, c->whole);
}

static void backward(struct cs_run *run, const struct cs_layer_model *l, const struct chunk *c,
                     bool is_trained)
{
    const struct cs_arch *a = l->arch;
    const struct cs_shard *w = cs_weight(l, CS_PARAM_HEAD_W);
    run->ops->xent_part_grad(run->ctx, c->n, a->vocab, run->input->at.label_ids + c->first,
                             a->logit_softcap, c->whole, c->z);
    if (c->dh != NULL)
        cs_run_linear_dgrad(run, c->n, a->width, a->vocab, c->z, w, c->dh);
    if (is_trained)
        cs_run_linear_wgrad(run, c->n, a->width, a->vocab, c->z, c->h, w, NULL);
}

void cs_head_words(struct cs_run *run, const struct cs_layer_model *l, const void *h, void *dh)
{
    const struct cs_arch *a = l->arch;
    const struct cs_shard *w = cs_weight(l, CS_PARAM_HEAD_W);
    const int64_t n = run->input->n_labels, most = chunk_rows(run, w, n);
    const bool is_trained = run->keep != NULL && w->grad != NULL;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    struct chunk c = {.z = cs_run_take(run, most * a->vocab),
                      .whole = cs_scratch_floats(run->scratch, 2 * most)};
    for (int64_t first = 0; first < n; first += most) {
        const struct cs_scratch_mark start = cs_scratch_mark(run->scratch);
        c.first = first;
        c.n = n - first < most ? n - first : most;
        c.h = cs_run_at(run, (void *)(uintptr_t)h, first * a->width);
        c.dh = dh != NULL ? cs_run_at(run, dh, first * a->width) : NULL;
        forward(run, l, &c);
        if (dh != NULL || is_trained)
            backward(run, l, &c, is_trained);
        cs_scratch_rewind(run->scratch, start);
    }
    if (dh != NULL)
        cs_tensors_sum(run, n * a->width, dh);
    cs_scratch_rewind(run->scratch, mark);
}
