/* A language model, alone or behind its tower: the batch as documents of one slot, logits, loss,
 * gradients and five steps. */
#include <math.h>
#include <string.h>

#include "worker/selftest/outcome.h"

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
    if (tokens != NULL && g->slot.head->n_labels != tokens[0])
        return cs_fail(err, CS_CORRUPT, "%s: %d labels are counted, out.tokens is %lld",
                       cs_st_path(g->file), g->slot.head->n_labels, (long long)tokens[0]);
    return CS_OK;
}

/* logits (n_labels, vocab) of the rows with a label against the golden's */
static enum cs_status check_logits(struct cs_golden *g, const float *got, struct cs_selftest *out,
                                   struct cs_err *err)
{
    const struct cs_input *in = &g->trainer->inputs[0];
    const int64_t vocab = cs_graph_llm(g->graph)->arch.vocab;
    float *want;
    int64_t count;
    CS_TRY(cs_golden_floats(g, "out.logits", &want, &count, err));
    struct cs_selftest_check *check = cs_selftest_add(g, out, "logits", 1e-4, 2e-3);
    for (int64_t r = 0; r < in->n_labels; r++) {
        char name[64];
        snprintf(name, sizeof name, "logits of row %d", in->label_rows[r]);
        cs_selftest_compare(
            g, check,
            (struct cs_selftest_pair){.name = name,
                                      .kind = CS_PAIR_VALUES,
                                      .n = vocab,
                                      .got = got + r * vocab,
                                      .want = want + (int64_t)in->label_rows[r] * vocab});
    }
    return CS_OK;
}

/* The loss that the golden's own logits have. */
static enum cs_status own_loss(struct cs_golden *g, double *out, struct cs_err *err)
{
    const struct cs_slot_head *head = g->slot.head;
    const int64_t vocab = cs_graph_llm(g->graph)->arch.vocab;
    float *logits;
    double sum = 0;
    CS_TRY(cs_golden_floats(g, "out.logits", &logits, NULL, err));
    for (int32_t row = 0; row < head->n_tokens; row++) {
        const float *z = logits + row * vocab;
        double total = 0;
        if (g->slot.labels[row] < 0)
            continue;
        for (int64_t v = 0; v < vocab; v++)
            total += exp((double)z[v]);
        sum += log(total) - (double)z[g->slot.labels[row]];
    }
    *out = head->n_labels > 0 ? sum / head->n_labels : 0;
    return CS_OK;
}

/* Classes add the loss of the experts' balance to that of the text; a golden may be without it. */
static enum cs_status find_balance(struct cs_golden *g, struct cs_err *err)
{
    const float share = cs_graph_llm(g->graph)->arch.experts.balance;
    float *said;
    double own;
    if (!(share > 0))
        return CS_OK;
    CS_TRY(cs_golden_floats(g, "out.loss", &said, NULL, err));
    CS_TRY(own_loss(g, &own, err));
    if (!(fabs((double)said[0] - own) <= 1e-5 * (1 + fabs(own))))
        g->balance = share;
    return CS_OK;
}

enum cs_status cs_golden_fill(struct cs_golden *g, struct cs_err *err)
{
    CS_TRY(fill_slot(g, err));
    CS_TRY(find_balance(g, err));
    return cs_golden_cut(g, err);
}

enum cs_status cs_golden_check_text(struct cs_golden *g, struct cs_selftest *out,
                                    struct cs_err *err)
{
    float *logits;
    struct cs_outcome outcome;
    CS_TRY(cs_golden_fill(g, err));
    CS_TRY(cs_golden_forward(g, &logits, err));
    CS_TRY(check_logits(g, logits, out, err));
    cs_outcome_new(g, &outcome);
    CS_TRY(cs_outcome_train(&outcome, g, g->trainer, err));
    CS_TRY(cs_outcome_check_first(&outcome, g, out, err));
    CS_TRY(cs_outcome_check_steps(&outcome, g, out, err));
    CS_TRY(cs_golden_forward(g, &g->after.values, err));
    g->after.name = "logits";
    g->after.dim[0] = g->trainer->inputs[0].n_labels;
    g->after.dim[1] = cs_graph_llm(g->graph)->arch.vocab;
    return CS_OK;
}
