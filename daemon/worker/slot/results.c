/* What the head said of a slot's labels, by source and by sample, and how its experts are balanced. */
#include "worker/slot/split.h"

void cs_input_by_source(const struct cs_input *input, struct cs_source_loss *sources)
{
    int32_t label = 0;
    for (int32_t s = 0; s < input->slot.head->n_samples; s++) {
        struct cs_source_loss *own = &sources[input->slot.sample_sources[s]];
        const int32_t end = input->slot.sample_rows[s + 1];
        for (; label < input->n_labels && cs_split_label_row(input, label) < end; label++) {
            own->sum += input->row_loss[label];
            own->tokens++;
        }
    }
}

void cs_input_exact(const struct cs_input *input, int64_t *n_samples, int64_t *n_exact)
{
    int32_t label = 0;
    *n_samples = *n_exact = 0;
    const struct cs_split_labels all = cs_split_labels(input);
    for (int32_t s = 0; s < input->slot.head->n_samples && all.correct != NULL; s++) {
        const int32_t end = input->slot.sample_rows[s + 1];
        int32_t n = 0, right = 0;
        for (; label < all.n && all.row[label] < end; label++) {
            n++;
            right += all.correct[label] != 0;
        }
        *n_samples += n > 0;
        *n_exact += n > 0 && n == right;
    }
}

double cs_input_balance(const struct cs_input *input)
{
    const struct cs_arch *arch = &cs_graph_llm(input->tables->graph)->arch;
    const int32_t n = arch->experts.n;
    const double tokens = (double)input->n_tokens, rows = tokens * cs_arch_expert_blocks(arch);
    double sum = 0;
    if (input->load == NULL || !(rows > 0))
        return 0;
    for (int32_t e = 0; e < n; e++)
        sum += (double)input->load[e] * ((double)input->load[n + e] / CS_MOE_UNIT);
    return n * sum / (rows * rows) * (double)cs_split_rows(input) / tokens;
}
