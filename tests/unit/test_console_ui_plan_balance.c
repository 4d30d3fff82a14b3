/* The Plan screen's balance part shows what the balancer says of the batch it drew. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/views/state/view.h"
#include "tests/support/plan_screen.h"

static void check_rule(const struct plan_screen *f, const struct cs_batch *b,
                       enum cs_balance_how how)
{
    const struct cs_batch_rule *rule = &b->rule[how];
    char name[32];
    snprintf(name, sizeof name, " %s ", cs_balance_how_name(how));
    const char *line = f->line[plan_screen_find(f, plan_screen_find(f, 0, "max/mean"), name)];
    double slot, batch;
    assert_int_equal(sscanf(strstr(line, name) + strlen(name), "%lf %lf", &slot, &batch), 2);
    assert_shown(slot, rule->slot_ratio, 0.001);
    assert_shown(batch, rule->batch_ratio, 0.001);
}

/* what the view shows, computed anew from the same batch */
static void check_loads(const struct cs_batch *b, struct cs_arena *arena)
{
    for (int how = 0; how < CS_BALANCE_HOWS; how++) {
        struct cs_balance_result r;
        const struct cs_balance_options o = {.how = (enum cs_balance_how)how,
                                             .ranks = b->want.ranks};
        if (how == CS_BALANCE_RANDOM || how == CS_BALANCE_EXACT)
            continue; /* their seed and bound are the view's own */
        assert_int_equal(cs_balance(b->work, b->n_blocks, &o, arena, &r, NULL), CS_OK);
        assert_true(fabs(b->rule[how].slot_ratio - r.max / r.mean) < 1e-12);
    }
}

static void balance_shows_what_the_balancer_says(void **state)
{
    struct plan_screen *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_batch batch = {0};
    const struct cs_batch_want want = {.ranks = 6, .slot = 1, .mask = CS_MASK_FULL};
    plan_screen_show(f, "b + + l r");
    assert_int_equal(cs_spec_read(f->replay.spec, f->replay.arena, &spec, &err), CS_OK);
    cs_batch_make(&batch, spec, f->replay.graph, &f->replay.plan->budget, f->replay.plan->slots,
                  &want);
    assert_string_equal(batch.error, "");
    plan_screen_find(f, 0, "mask full");
    plan_screen_find(f, 0, "slot 2 of 6");
    for (int how = 0; how < CS_BALANCE_HOWS; how++)
        check_rule(f, &batch, (enum cs_balance_how)how);
    check_loads(&batch, f->replay.arena);
    int bars = plan_screen_find(f, 0, "uniform, slot 2");
    for (int32_t r = 0; r < want.ranks; r++) {
        int rank;
        double load;
        assert_int_equal(sscanf(f->line[bars + 1 + r], " r%d %lf", &rank, &load), 2);
        assert_int_equal(rank, r);
        const struct cs_batch_rule *rule = &batch.rule[CS_BALANCE_UNIFORM];
        assert_shown(load, rule->load[r] / rule->mean, 0.001);
    }
    cs_batch_clear(&batch);
}

/* Over the batch every slot waits for its own fullest rank. */
static void the_batch_waits_for_the_fullest_rank_of_every_slot(void **state)
{
    struct plan_screen *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_slot_budget budget = f->replay.plan->budget;
    double max[CS_BALANCE_HOWS] = {0}, mean[CS_BALANCE_HOWS] = {0};
    struct cs_batch b = {0};

    enum { SLOTS = 3, RANKS = 5 };

    budget.seq_tokens = 2048;
    assert_int_equal(cs_spec_read(f->replay.spec, f->replay.arena, &spec, &err), CS_OK);
    for (int32_t s = 0; s < SLOTS; s++) {
        const struct cs_batch_want want = {.ranks = RANKS, .slot = s};
        cs_batch_make(&b, spec, f->replay.graph, &budget, SLOTS, &want);
        for (int how = 0; how < CS_BALANCE_HOWS; how++) {
            double most = 0, sum = 0;
            for (int32_t r = 0; r < RANKS; r++) {
                most = fmax(most, b.rule[how].load[r]);
                sum += b.rule[how].load[r];
            }
            max[how] += most;
            mean[how] += sum / RANKS;
        }
    }
    for (int how = 0; how < CS_BALANCE_HOWS; how++)
        assert_true(fabs(b.rule[how].batch_ratio - max[how] / mean[how]) < 1e-9);
    assert_true(b.rule[CS_BALANCE_STRIPED].batch_ratio > b.rule[CS_BALANCE_BEST].batch_ratio);
    cs_batch_clear(&b);
}

static void a_drawn_batch_fills_its_slot_within_the_budgets(void **state)
{
    struct plan_screen *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_slot_budget budget = f->replay.plan->budget;
    budget.seq_tokens = 4096;
    budget.enc[0].items = 20;
    assert_int_equal(cs_spec_read(f->replay.spec, f->replay.arena, &spec, &err), CS_OK);
    for (int32_t ranks = 1; ranks <= CS_BATCH_RANKS; ranks *= 4) {
        struct cs_batch b = {0}, again = {0};
        const struct cs_batch_want want = {.ranks = ranks, .slot = 2};
        cs_batch_make(&b, spec, f->replay.graph, &budget, 4, &want);
        cs_batch_make(&again, spec, f->replay.graph, &budget, 4, &want);
        assert_string_equal(b.error, "");
        assert_int_equal(b.n_tokens, 4096);
        assert_int_equal((b.n_tokens + b.block - 1) / b.block, b.n_blocks);
        assert_true(b.n_blocks >= 8 * ranks || b.block == 8);
        assert_true(b.n_samples > 1 && b.n_items[0] > 0 && b.n_items[0] <= 20);
        assert_memory_equal(b.work, again.work, (size_t)b.n_blocks * sizeof *b.work);
        for (int how = 0; how < CS_BALANCE_HOWS; how++) {
            double sum = 0, all = 0;
            for (int32_t r = 0; r < ranks; r++)
                sum += b.rule[how].load[r];
            for (int32_t i = 0; i < b.n_blocks; i++)
                all += b.work[i];
            assert_true(fabs(sum - all) <= 1e-9 * all); /* nothing lost */
            assert_true(b.rule[how].batch_ratio >=
                            b.rule[CS_BALANCE_BEST].batch_ratio * (1 - 1e-9) ||
                        how == CS_BALANCE_EXACT);
        }
        cs_batch_clear(&b);
        cs_batch_clear(&again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balance_shows_what_the_balancer_says),
        cmocka_unit_test(the_batch_waits_for_the_fullest_rank_of_every_slot),
        cmocka_unit_test(a_drawn_batch_fills_its_slot_within_the_budgets),
    };
    return cmocka_run_group_tests(tests, plan_screen_set_up, plan_screen_tear_down);
}
