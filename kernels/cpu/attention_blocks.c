/* Finds documents and the runs of their keys; asks the mask's rule once for keys that are alike. */
#include "kernels/cpu/attention_blocks.h"

#include <string.h>

bool cs_query_spans_in_order(const struct cs_mask_plan *mask)
{
    for (int32_t s = 1; s < mask->n_segments; s++)
        if (mask->doc[mask->segment[s]] <= mask->doc[mask->segment[s - 1]])
            return false;
    return mask->keys == NULL;
}

int32_t cs_query_span_longest(const struct cs_mask_plan *mask)
{
    int32_t longest = 0;
    if (!cs_query_spans_in_order(mask))
        return cs_mask_keys(mask)->n_tokens;
    for (int32_t s = 0; s < mask->n_segments; s++) {
        const int32_t n = mask->segment[s + 1] - mask->segment[s];
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* The cheap masks are found from the tokens of this segment alone, never from its neighbours. They
 * give the same bits as CS_SEGMENT_RULE: same key range, same zeros. */
static enum cs_segment_mask classify(const struct cs_mask_plan *plan, int32_t begin, int32_t end)
{
    bool is_ascending = true, has_item = false;
    for (int32_t i = begin; i < end; i++) {
        if (plan->word != NULL && plan->word[i] == 0)
            return CS_SEGMENT_RULE;
        if (i > begin && plan->doc[i] != plan->doc[begin])
            return CS_SEGMENT_RULE;
        is_ascending = is_ascending && (i == begin || plan->pos[i] > plan->pos[i - 1]);
        has_item = has_item || (plan->item != NULL && plan->item[i] >= 0);
    }
    if (plan->rule.kind == CS_MASK_FULL)
        return CS_SEGMENT_FULL;
    const bool is_causal =
        plan->rule.kind == CS_MASK_CAUSAL || (plan->rule.kind == CS_MASK_IMAGE_BIDIR && !has_item);
    return is_causal && is_ascending ? CS_SEGMENT_CAUSAL : CS_SEGMENT_RULE;
}

/* like[c], where a run of keys that are alike to the rule begins: the column behind it */
static void find_like(const struct cs_mask_plan *plan, const struct cs_query_span *span,
                      int32_t *like)
{
    const struct cs_mask_plan *keys = cs_mask_keys(plan);
    for (int32_t r = 0; r < span->n_runs; r++) {
        const struct cs_key_run *run = &span->run[r];
        for (int32_t begin = 0, end; begin < run->n; begin = end) {
            const struct cs_mask_token first =
                cs_mask_class(plan->rule, cs_mask_token_at(keys, run->k0 + begin));
            for (end = begin + 1; end < run->n; end++) {
                const struct cs_mask_token t =
                    cs_mask_class(plan->rule, cs_mask_token_at(keys, run->k0 + end));
                if (t.doc != first.doc || t.word != first.word || t.item != first.item)
                    break;
            }
            like[run->at + begin] = run->at + end;
        }
    }
}

/* Which of n keys at those positions a row at `at` sees, by the test of positions that decides. */
static void test_positions(struct cs_mask_rule rule, enum cs_mask_relation relation, int32_t at,
                           int32_t n, const int32_t *pos, uint8_t *sees)
{
    const int32_t window = cs_mask_has_window(rule.kind) ? rule.window : 0;
    switch (relation) {
    case CS_MASK_NEVER:
    case CS_MASK_ALWAYS:
        memset(sees, relation == CS_MASK_ALWAYS, (size_t)n);
        return;
    case CS_MASK_EARLIER:
        for (int32_t j = 0; j < n; j++)
            sees[j] = pos[j] <= at;
        return;
    case CS_MASK_NEAR:
        for (int32_t j = 0; j < n; j++)
            sees[j] = (pos[j] <= at) & (at - pos[j] < window);
        return;
    case CS_MASK_HEAD:
        for (int32_t j = 0; j < n; j++)
            sees[j] = (pos[j] <= at) | ((at < rule.prefix) & (pos[j] < rule.prefix));
        return;
    case CS_MASK_BACK:
        for (int32_t j = 0; j < n; j++)
            sees[j] = at - pos[j] < window;
        return;
    }
}

/* Of a row, for the keys of a run; widens seen to those that it sees. Returns whether it sees any. */
static bool evaluate_row(const struct cs_mask_plan *plan, struct cs_mask_token q,
                         const struct cs_key_run *run, const int32_t *like, struct cs_key_run *seen,
                         uint8_t *row)
{
    const struct cs_mask_plan *keys = cs_mask_keys(plan);
    for (int32_t j = 0, end; j < run->n; j = end) {
        const int32_t k = run->k0 + j;
        end = like[run->at + j] - run->at;
        test_positions(plan->rule, cs_mask_relation(plan->rule, q, cs_mask_token_at(keys, k)),
                       q.pos, end - j, keys->pos + k, row + j);
    }
    const uint8_t *first = memchr(row, 1, (size_t)run->n);
    if (first == NULL)
        return false;
    const uint8_t *last = memrchr(row, 1, (size_t)run->n);
    const int32_t begin = run->k0 + (int32_t)(first - row),
                  end = run->k0 + (int32_t)(last - row) + 1, old_end = seen->k0 + seen->n;
    const bool is_first = seen->n == 0;
    seen->k0 = is_first || begin < seen->k0 ? begin : seen->k0;
    seen->n = (is_first || end > old_end ? end : old_end) - seen->k0;
    return true;
}

/* Columns of a row of allow, as they are of the span, closed up to those of the block. */
static void close_up(const struct cs_query_span *span, const struct cs_key_run *seen, uint8_t *row)
{
    int32_t at = 0;
    for (int32_t r = 0; r < span->n_runs; r++) {
        memmove(row + at, row + span->run[r].at + seen[r].k0 - span->run[r].k0, (size_t)seen[r].n);
        at += seen[r].n;
    }
}

/* Evaluate the rule for all pairs of the block; narrows the runs to what is seen. */
static void evaluate_rule(const struct cs_mask_plan *plan, const struct cs_query_span *span,
                          struct cs_query_block *b, const int32_t *like, uint8_t *allow)
{
    struct cs_key_run seen[CS_MOST_KEY_RUNS];
    for (int32_t r = 0; r < span->n_runs; r++)
        seen[r] = (struct cs_key_run){.k0 = span->run[r].k0};
    for (int32_t i = b->q0; i < b->q1; i++) {
        const struct cs_mask_token q = cs_mask_token_at(plan, i);
        bool sees = false;
        for (int32_t r = 0; r < span->n_runs; r++)
            sees |= evaluate_row(plan, q, &span->run[r], like, &seen[r],
                                 allow + (int64_t)(i - b->q0) * span->n + span->run[r].at);
        b->sees[i - b->q0] = sees;
    }
    for (int32_t i = b->q0; i < b->q1; i++)
        close_up(span, seen, allow + (int64_t)(i - b->q0) * span->n);
    b->allow = allow;
    b->allow_stride = span->n;
    b->n_runs = b->n = 0;
    for (int32_t r = 0; r < span->n_runs; r++) {
        if (seen[r].n == 0)
            continue;
        b->run[b->n_runs++] = (struct cs_key_run){seen[r].k0, seen[r].n, b->n};
        b->n += seen[r].n;
    }
}

/* runs of keys of a document */
static void find_keys(const struct cs_mask_plan *keys, int32_t doc, struct cs_query_span *span)
{
    for (int32_t k = 0; k < keys->n_tokens; k++) {
        struct cs_key_run *last = &span->run[span->n_runs > 0 ? span->n_runs - 1 : 0];
        if (keys->doc[k] != doc)
            continue;
        if (span->n_runs > 0 && (last->k0 + last->n == k || span->n_runs == CS_MOST_KEY_RUNS))
            last->n = k + 1 - last->k0;
        else
            span->run[span->n_runs++] = (struct cs_key_run){.k0 = k, .n = 1};
    }
    for (int32_t r = 0; r < span->n_runs; r++) {
        span->run[r].at = span->n;
        span->n += span->run[r].n;
    }
}

/* The rows from q0 on that are of one document, with its keys. */
static struct cs_query_span run_at(const struct cs_mask_plan *plan, int32_t q0)
{
    struct cs_query_span span = {.q0 = q0, .q1 = q0 + 1, .mask = CS_SEGMENT_RULE};
    while (span.q1 < plan->n_tokens && plan->doc[span.q1] == plan->doc[q0])
        span.q1++;
    find_keys(cs_mask_keys(plan), plan->doc[q0], &span);
    return span;
}

static struct cs_query_span segment_at(const struct cs_mask_plan *plan, int32_t i)
{
    const int32_t begin = plan->segment[i], end = plan->segment[i + 1], n = end - begin;
    return (struct cs_query_span){
        .q0 = begin,
        .q1 = end,
        .run = {{begin, n, 0}},
        .n_runs = 1,
        .n = n,
        .mask = classify(plan, begin, end),
    };
}

bool cs_query_span_next(const struct cs_mask_plan *plan, bool in_order, int32_t *like,
                        struct cs_query_span *span)
{
    const int32_t i = span->next;
    if (in_order ? i == plan->n_segments : span->q1 == plan->n_tokens)
        return false;
    *span = in_order ? segment_at(plan, i) : run_at(plan, span->q1);
    span->next = i + 1;
    if (span->mask == CS_SEGMENT_RULE)
        find_like(plan, span, like);
    return true;
}

struct cs_query_block cs_query_block(const struct cs_mask_plan *plan,
                                     const struct cs_query_span *span, int32_t q0,
                                     const int32_t *like, uint8_t *allow)
{
    struct cs_query_block b = {.mask = span->mask, .q0 = q0, .n_runs = span->n_runs, .n = span->n};
    b.q1 = span->q1 - q0 < CS_QUERY_BLOCK ? span->q1 : q0 + CS_QUERY_BLOCK;
    memcpy(b.run, span->run, sizeof b.run);
    memset(b.sees, 1, sizeof b.sees);
    if (span->mask == CS_SEGMENT_CAUSAL)
        b.run[0].n = b.n = b.q1 - span->q0;
    if (span->mask == CS_SEGMENT_RULE)
        evaluate_rule(plan, span, &b, like, allow);
    return b;
}
