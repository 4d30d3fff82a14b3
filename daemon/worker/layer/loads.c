/* Counts what experts have to do, along the stages and over the ranks that share a slot. */
#include "worker/layer/loads.h"

#include "worker/layer/exchange.h"
#include "worker/layer/stretch.h"
#include "worker/slot/split.h"

static int64_t count_of(const struct cs_arch *arch)
{
    return cs_experts_loads(&arch->experts);
}

static size_t bytes_of(const struct cs_arch *arch)
{
    return (size_t)count_of(arch) * sizeof(int64_t);
}

void cs_loads_forward(struct cs_run *run, const struct cs_arch *arch,
                      const struct cs_layer_ends *ends, bool is_last)
{
    run->load = is_last ? run->input->at.load : ends->loads_to;
    if (run->load == NULL || count_of(arch) == 0)
        run->load = NULL;
    else if (ends->loads_from != NULL)
        cs_device_copy(run->device, run->load, ends->loads_from, bytes_of(arch));
    else
        cs_device_zero(run->device, run->load, bytes_of(arch));
}

void cs_loads_backward(struct cs_run *run, const struct cs_arch *arch,
                       const struct cs_layer_ends *ends, bool is_last)
{
    run->load = is_last ? run->input->at.load : ends->loads_from;
    if (run->load == NULL || count_of(arch) == 0)
        run->load = NULL;
    else if (ends->loads_to != NULL)
        cs_device_copy(run->device, ends->loads_to, run->load, bytes_of(arch));
}

void cs_loads_join(struct cs_run *run, const struct cs_layer_model *last)
{
    const struct cs_input_split *s = run->input->split;
    const int64_t n = count_of(last->arch);
    if (n == 0 || s == NULL || cs_layer_rows_here(last, run->input) == 0)
        return;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    int64_t *theirs = cs_scratch_take(run->scratch, (size_t)s->ranks * bytes_of(last->arch));
    if (run->context != NULL && run->load != NULL) {
        const struct cs_exchange e = cs_exchange_new(run, run->context);
        for (int r = 0; r < s->ranks; r++) {
            if (r == s->place || cs_layer_rows_on(last, run->input, r) == 0)
                continue;
            cs_exchange_add(&e, r, run->load, (int64_t)bytes_of(last->arch), true);
            cs_exchange_add(&e, r, theirs + r * n, (int64_t)bytes_of(last->arch), false);
        }
        cs_exchange_move(&e);
        for (int r = 0; r < s->ranks; r++)
            if (r != s->place && cs_layer_rows_on(last, run->input, r) > 0)
                run->ops->add_counts(run->ctx, n, theirs + r * n, run->load);
    }
    cs_scratch_rewind(run->scratch, mark);
}

int64_t cs_loads_rows(const struct cs_run *run, const struct cs_layer_model *l, int64_t rows)
{
    const int64_t here = cs_layer_rows_here(l, run->input);
    return here < rows ? here : rows;
}

float cs_loads_balance(const struct cs_run *run, const struct cs_layer_model *l)
{
    const struct cs_input *in = run->input;
    const struct cs_experts *e = &l->arch->experts;
    if (!(e->balance > 0) || in->step_tokens == 0)
        return 0.0f;
    const double rows = (double)in->n_tokens * cs_arch_expert_blocks(l->arch);
    const double share = (double)in->n_tokens / (double)in->step_tokens;
    return (float)((double)e->balance * (double)in->step_labels * share * e->n / (rows * rows));
}
