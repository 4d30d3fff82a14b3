/* Runs of like tokens, allowed pairs per row; see runs.h. */
#include "core/mask/runs.h"

#include <string.h>

static bool is_same_class(struct cs_mask_token a, struct cs_mask_token b)
{
    return a.word == b.word && a.item == b.item && a.doc == b.doc;
}

static enum cs_status check_rows(const struct cs_mask_plan *plan, struct cs_err *err)
{
    if (plan->n_tokens < 1)
        return cs_fail(err, CS_INVALID, "the mask has no tokens");
    if (plan->keys != NULL)
        return cs_fail(err, CS_INVALID, "the mask has keys that are other rows: runs are of both");
    for (int32_t s = 0; s < plan->n_segments; s++) {
        const int32_t begin = plan->segment[s], end = plan->segment[s + 1];
        const uint32_t shift = (uint32_t)plan->pos[begin] - (uint32_t)begin;
        int32_t i;
        uint32_t differs = 0; /* no early exit: the loop is vectorised */
        for (i = begin; i < end; i++)
            differs |= ((uint32_t)plan->pos[i] - (uint32_t)i) ^ shift;
        if (differs == 0)
            continue;
        for (i = begin + 1; (uint32_t)plan->pos[i] - (uint32_t)i == shift;)
            i++;
        return cs_fail(err, CS_INVALID,
                       "row %d has position %d after %d in document %d; rows must be in document "
                       "order",
                       (int)i, (int)plan->pos[i], (int)plan->pos[i - 1], (int)plan->doc[i]);
    }
    for (int32_t s = 1; s < plan->n_segments; s++)
        if (plan->doc[plan->segment[s]] <= plan->doc[plan->segment[s - 1]])
            return cs_fail(err, CS_INVALID, "row %d: document %d comes after document %d",
                           (int)plan->segment[s], (int)plan->doc[plan->segment[s]],
                           (int)plan->doc[plan->segment[s - 1]]);
    return CS_OK;
}

static bool are_repeats(const struct cs_mask_plan *plan, int32_t i, int32_t n)
{
    return (!plan->word ||
            memcmp(plan->word + i, plan->word + i - 1, (size_t)n * sizeof *plan->word) == 0) &&
           (!plan->item ||
            memcmp(plan->item + i, plan->item + i - 1, (size_t)n * sizeof *plan->item) == 0);
}

/* The first row behind i that does not repeat the one before it; end when there is none. Most rows
 * repeat, so many are compared at once. */
static int32_t next_change(const struct cs_mask_plan *plan, int32_t i, int32_t end)
{
    enum { MANY = 64 };

    for (i++; end - i >= MANY && are_repeats(plan, i, MANY);)
        i += MANY;
    while (i < end && are_repeats(plan, i, 1))
        i++;
    return i;
}

/* at least as many as there are runs */
static int32_t count_changes(const struct cs_mask_plan *plan)
{
    int32_t n = 0;
    for (int32_t d = 0; d < plan->n_segments; d++)
        for (int32_t i = plan->segment[d]; i < plan->segment[d + 1]; n++)
            i = next_change(plan, i, plan->segment[d + 1]);
    return n;
}

/* class_id of the runs of one document; returns the number of classes */
static int32_t number_classes(struct cs_mask_rule rule, struct cs_mask_run *run, int32_t n,
                              struct cs_mask_token *known)
{
    int32_t n_known = 0;
    for (int32_t r = 0; r < n; r++) {
        const struct cs_mask_token own = cs_mask_class(rule, run[r].token);
        int32_t c = 0;
        while (c < n_known && !is_same_class(known[c], own))
            c++;
        if (c == n_known)
            known[n_known++] = own;
        run[r].class_id = c;
    }
    return n_known;
}

enum cs_status cs_mask_runs_make(const struct cs_mask_plan *plan, struct cs_arena *arena,
                                 struct cs_mask_runs *out, struct cs_err *err)
{
    CS_TRY(check_rows(plan, err));
    const int32_t most = count_changes(plan), n_docs = plan->n_segments;
    struct cs_mask_run *run = CS_NEW_ARRAY(arena, struct cs_mask_run, most);
    struct cs_mask_token *known = CS_NEW_ARRAY(arena, struct cs_mask_token, most);
    int32_t *first = CS_NEW_ARRAY(arena, int32_t, n_docs + 1),
            *n_classes = CS_NEW_ARRAY(arena, int32_t, n_docs), r = -1;
    for (int32_t d = 0; d < n_docs; d++) {
        const int32_t begin = plan->segment[d], end = plan->segment[d + 1];
        struct cs_mask_token last = {0};
        first[d] = r + 1;
        for (int32_t i = begin, next; i < end; i = next) {
            const struct cs_mask_token token = cs_mask_token_at(plan, i),
                                       own = cs_mask_class(plan->rule, token);
            next = next_change(plan, i, end);
            if (i == begin || !is_same_class(own, last))
                run[++r] = (struct cs_mask_run){.row = i, .token = token};
            run[r].rows += next - i;
            last = own;
        }
        n_classes[d] = number_classes(plan->rule, run + first[d], r + 1 - first[d], known);
    }
    first[n_docs] = r + 1;
    *out = (struct cs_mask_runs){plan->rule, plan->n_tokens, r + 1, n_docs, run, first, n_classes};
    return CS_OK;
}

/* What the row counts of one document need: per class the number of its tokens in the whole
 * document and before the run that is being counted. */
struct tally {
    const struct cs_mask_run *run;
    int32_t n_runs, n_classes;
    struct cs_mask_token *token; /* (n_classes) one of the class */
    int32_t *total, *seen;       /* (n_classes) */
    int32_t **below, **behind;   /* (n_classes) see keys_below */
    struct cs_arena *arena;
};

/* below[i]: keys among the first i rows of the document that stand in a relation of windows or
 * prefixes to the class of the query, or in one of windows that look forward too; made once per
 * class */
static const int32_t *keys_below(struct cs_mask_rule rule, const struct tally *t,
                                 const struct cs_mask_run *query, bool is_back)
{
    int32_t **below = &(is_back ? t->behind : t->below)[query->class_id];
    if (*below)
        return *below;
    const struct cs_mask_run *last = &t->run[t->n_runs - 1];
    int32_t n = last->row + last->rows - t->run->row, at = 0;
    *below = CS_NEW_ARRAY(t->arena, int32_t, n + 1);
    for (int32_t r = 0; r < t->n_runs; r++) {
        const enum cs_mask_relation rel = cs_mask_relation(rule, query->token, t->run[r].token);
        const int32_t step =
            is_back ? rel == CS_MASK_BACK : rel == CS_MASK_NEAR || rel == CS_MASK_HEAD;
        for (int32_t i = 0; i < t->run[r].rows; i++, at++)
            (*below)[at + 1] = (*below)[at] + step;
    }
    return *below;
}

static void add_near(struct cs_mask_rule rule, const struct tally *t,
                     const struct cs_mask_run *query, int32_t *pairs)
{
    const int32_t *below = keys_below(rule, t, query, false);
    for (int32_t i = 0; i < query->rows; i++) {
        const int32_t at = query->row + i - t->run->row;
        pairs[i] += below[at + 1] - below[at + 1 > rule.window ? at + 1 - rule.window : 0];
    }
}

static void add_back(struct cs_mask_rule rule, const struct tally *t,
                     const struct cs_mask_run *query, int32_t *pairs)
{
    const int32_t *below = keys_below(rule, t, query, true);
    const struct cs_mask_run *last = &t->run[t->n_runs - 1];
    const int32_t n = last->row + last->rows - t->run->row;
    for (int32_t i = 0; i < query->rows; i++) {
        const int32_t at = query->row + i - t->run->row;
        pairs[i] += below[n] - below[at + 1 > rule.window ? at + 1 - rule.window : 0];
    }
}

static void add_head(struct cs_mask_rule rule, const struct tally *t,
                     const struct cs_mask_run *query, int32_t *pairs)
{
    const int32_t *below = keys_below(rule, t, query, false);
    const struct cs_mask_run *last = &t->run[t->n_runs - 1];
    const int32_t n = last->row + last->rows - t->run->row;
    const int64_t want = (int64_t)rule.prefix - t->run->token.pos; /* rows of the prefix */
    const int32_t head = want < 0 ? 0 : (want > n ? n : (int32_t)want);
    for (int32_t i = 0; i < query->rows; i++) {
        const int32_t at = query->row + i - t->run->row;
        pairs[i] += below[at < head ? head : at + 1];
    }
}

static void count_run(struct cs_mask_rule rule, const struct tally *t,
                      const struct cs_mask_run *query, int32_t *pairs)
{
    int32_t base = 0, slope = 0;
    bool is_near = false, is_head = false, is_back = false;
    for (int32_t c = 0; c < t->n_classes; c++) {
        switch (cs_mask_relation(rule, query->token, t->token[c])) {
        case CS_MASK_NEVER:
            break;
        case CS_MASK_ALWAYS:
            base += t->total[c];
            break;
        case CS_MASK_EARLIER:
            base += t->seen[c];
            slope += c == query->class_id;
            break;
        case CS_MASK_NEAR:
            is_near = true;
            break;
        case CS_MASK_HEAD:
            is_head = true;
            break;
        case CS_MASK_BACK:
            is_back = true;
            break;
        }
    }
    for (int32_t i = 0; i < query->rows; i++)
        pairs[i] = base + slope * (i + 1);
    if (is_near)
        add_near(rule, t, query, pairs);
    if (is_head)
        add_head(rule, t, query, pairs);
    if (is_back)
        add_back(rule, t, query, pairs);
}

static void count_document(const struct cs_mask_runs *runs, int32_t d, struct cs_arena *arena,
                           int32_t *pairs)
{
    const int32_t n = runs->n_classes[d];
    struct tally t = {
        .run = runs->run + runs->first[d],
        .n_runs = runs->first[d + 1] - runs->first[d],
        .n_classes = n,
        .token = CS_NEW_ARRAY(arena, struct cs_mask_token, n),
        .total = CS_NEW_ARRAY(arena, int32_t, n),
        .seen = CS_NEW_ARRAY(arena, int32_t, n),
        .below = CS_NEW_ARRAY(arena, int32_t *, n),
        .behind = CS_NEW_ARRAY(arena, int32_t *, n),
        .arena = arena,
    };
    for (int32_t r = 0; r < t.n_runs; r++) {
        t.token[t.run[r].class_id] = t.run[r].token;
        t.total[t.run[r].class_id] += t.run[r].rows;
    }
    for (int32_t r = 0; r < t.n_runs; r++) {
        count_run(runs->rule, &t, &t.run[r], pairs + t.run[r].row);
        t.seen[t.run[r].class_id] += t.run[r].rows;
    }
}

int64_t cs_mask_row_pairs(const struct cs_mask_runs *runs, struct cs_arena *arena, int32_t *pairs)
{
    int64_t sum = 0;
    for (int32_t d = 0; d < runs->n_docs; d++)
        count_document(runs, d, arena, pairs);
    for (int32_t i = 0; i < runs->n_tokens; i++)
        sum += pairs[i];
    return sum;
}

void cs_mask_block_pairs(const int32_t *pairs, int32_t n_tokens, int32_t block, int64_t *work)
{
    for (int32_t i = 0, b = 0; i < n_tokens; b++) {
        const int32_t end = n_tokens - i < block ? n_tokens : i + block;
        work[b] = 0;
        for (; i < end; i++)
            work[b] += pairs[i];
    }
}

void cs_mask_text_row(const struct cs_mask_plan *plan, int32_t row, struct cs_buf *out)
{
    const struct cs_mask_token q = cs_mask_token_at(plan, row);
    for (int32_t k = 0; k < plan->n_tokens; k++)
        cs_buf_addc(out, cs_mask_allows(plan->rule, q, cs_mask_token_at(plan, k)) ? '1' : '0');
}
