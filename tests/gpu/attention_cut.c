/* Attention where every pair is allowed and the items are a few more than the card has processors,
 * or fewer: kernels that cut the items of the last round along their keys (attention/hopper/fwd_sm90.cuh)
 * do it here, and hardly ever in the other parts, whose masks have documents. And a mask of which they
 * must not: its first and its last tile in the order of their cells meet equally many tiles, others
 * more or fewer. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gpu/attention_cases.h"

/* One document up to a row, another from there to the last. */
static void take_documents(struct att_lab *lab, struct att_setup *s, int32_t row)
{
    struct att_mask whole;
    const int32_t n = s->c.tokens;
    att_mask_make(lab, s->c.kind, n, s->c.order, &whole);
    int32_t *const doc = (int32_t *)(uintptr_t)whole.plan.doc;
    int32_t *const pos = (int32_t *)(uintptr_t)whole.plan.pos;
    for (int32_t i = 0; i < n; i++) {
        doc[i] = i >= row;
        pos[i] = i < row ? i : i - row;
    }
    whole.plan.n_segments = cs_mask_segments(doc, n, (int32_t *)(uintptr_t)whole.plan.segment);
    att_mask_take_tokens(lab, &s->mask, &whole);
    s->mask.dev.n_segments = whole.plan.n_segments;
    att_mask_build(lab, &s->mask);
    s->plan = s->mask.dev;
    s->plan.cells = &s->mask.cells;
    att_mask_free(lab, &whole);
}

static bool is_right(struct att_lab *lab, struct att_oracle *oracle, const struct att_setup *s)
{
    struct att_reference exact, eager;
    const struct att_operands x = att_operands_of(s);
    att_run(lab, s);
    att_no_errors(lab);
    att_oracle_run(oracle, &s->shape, &s->plan, &x, &exact, &eager);
    const int64_t n = (int64_t)s->shape.heads * s->c.tokens;
    const int64_t bad = att_compare_lse(oracle, s->lse, exact.lse, n, s->c.is_capped ? 3e-3 : 2e-4);
    if (bad != 0)
        printf("    lse: %lld of %lld are off\n", (long long)bad, (long long)n);
    const bool is_good = att_check_side(oracle, s, false, &exact, &eager);
    return att_check_sinks(lab, oracle, s, &exact, &eager) && is_good && bad == 0;
}

static void one(struct att_lab *lab, struct att_oracle *oracle, const struct att_case *c,
                int32_t row)
{
    struct att_setup s;
    att_set_up(lab, c, &s);
    take_documents(lab, &s, row);
    att_verdict(lab, c, is_right(lab, oracle, &s));
    att_tear_down(lab, &s);
}

void att_test_cut(struct att_lab *lab)
{
    static const int32_t dims[] = {64, 72, 80, 96, 128, 256};
    static const int32_t lengths[] = {2100, 2944}; /* 17 and 23 tiles of a few heads */
    const int passed = lab->passed, failed = lab->failed;
    struct att_oracle *oracle = att_oracle_new(lab->stream);
    for (int i = 0; i < 12; i++)
        one(lab, oracle,
            &(struct att_case){.kind = CS_MASK_FULL,
                               .tokens = lengths[i / 6],
                               .dim = dims[i % 6],
                               .group = i % 3 == 2 ? 8 : 1,
                               .is_capped = i % 4 == 3,
                               .has_sinks = i % 2},
            lengths[i / 6]);
    /* tiles 11 to 31 meet 23 tiles, so does the last one, which is a row long; tile 10 all 33, those
     * before it 11 */
    for (int i = 0; i < 6; i++)
        one(lab, oracle,
            &(struct att_case){.kind = CS_MASK_FULL, .tokens = 4097, .dim = dims[i], .group = 1},
            10 * CS_MASK_TILE + 124);
    att_oracle_free(oracle);
    printf("%-4s attention, full masks with a last round that is not full: %d passed, %d failed\n",
           lab->failed == failed ? "ok" : "FAIL", lab->passed - passed, lab->failed - failed);
    fflush(stdout);
}
