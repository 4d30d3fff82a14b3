/* Spreading over random samples: a step holds the same samples under every policy, budgets hold, no
 * slot is empty, the same again, and the slots come out evener than first-fit leaves them. */
#include "core/spread/spread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { MAX = 400 };

static const char *const names[] = {"stream", "list2d", "lpt", "entrain", "random"};
static uint64_t seed = 31;

static int32_t between(int32_t lo, int32_t hi)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int32_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

struct step {
    struct cs_slot_budget budget;
    struct cs_pack_sample sample[MAX]; /* as packed */
    double enc[CS_MAX_ENCODERS][MAX], llm[MAX];
    int n, n_slots, max_slots;
};

/* half of the samples with pictures; tokens up to `largest` of the slot's, in per cent */
static void make_step(struct step *s, int n_encoders, int n, int largest)
{
    memset(s, 0, sizeof *s);
    s->n = n;
    s->budget = (struct cs_slot_budget){.seq_tokens = between(256, 1024), .n_encoders = n_encoders};
    for (int e = 0; e < n_encoders; e++)
        s->budget.enc[e].items = between(2, 8);
    for (int e = 0; e < n_encoders; e++)
        s->budget.enc[e].rows = 8 * s->budget.enc[e].items;
    for (int i = 0; i < n; i++) {
        s->sample[i].tokens = between(1, s->budget.seq_tokens * largest / 100);
        s->llm[i] = s->sample[i].tokens + 0.001 * s->sample[i].tokens * s->sample[i].tokens;
        for (int e = 0; e < n_encoders; e++) {
            s->sample[i].items[e] = between(0, 1) * between(1, 2);
            s->sample[i].rows[e] = s->sample[i].items[e] * (1 + i % 8);
            s->enc[e][i] = 300.0 * s->sample[i].items[e];
        }
    }
    s->max_slots = between(1, CS_STEP_MAX_SLOTS);
    s->n_slots = cs_pack(&s->budget, s->max_slots, s->sample, n);
}

static bool spread(const struct step *s, const char *name, int32_t slots,
                   struct cs_pack_sample *out, int *n_slots)
{
    struct cs_spread how = {
        .key = 5, .slots = slots, .n_encoders = s->budget.n_encoders, .llm = s->llm};
    struct cs_err err = {.text = ""};
    bool is_spread = false;
    for (int e = 0; e < how.n_encoders; e++)
        how.enc[e] = s->enc[e];
    assert_true(cs_spread_from_name(name, &how));
    memcpy(out, s->sample, (size_t)s->n * sizeof *out);
    *n_slots = s->n_slots;
    if (cs_spread(&s->budget, &how, s->max_slots, out, s->n, n_slots, &is_spread, &err) != CS_OK)
        fail_msg("%s", err.text);
    return is_spread;
}

static void check(const struct step *s, const struct cs_pack_sample *out, int n_slots)
{
    int64_t tokens[CS_STEP_MAX_SLOTS] = {0}, count[CS_STEP_MAX_SLOTS] = {0};
    int64_t items[CS_STEP_MAX_SLOTS][CS_MAX_ENCODERS] = {{0}};
    int64_t rows[CS_STEP_MAX_SLOTS][CS_MAX_ENCODERS] = {{0}};
    assert_in_range(n_slots, 0, s->max_slots);
    for (int i = 0; i < s->n; i++) {
        assert_int_equal(out[i].slot < 0, s->sample[i].slot < 0); /* carried stays carried */
        assert_int_equal(out[i].tokens, s->sample[i].tokens);
        if (out[i].slot < 0)
            continue;
        assert_in_range(out[i].slot, 0, n_slots - 1);
        tokens[out[i].slot] += out[i].tokens;
        count[out[i].slot]++;
        for (int e = 0; e < s->budget.n_encoders; e++) {
            items[out[i].slot][e] += out[i].items[e];
            rows[out[i].slot][e] += out[i].rows[e];
        }
    }
    for (int k = 0; k < n_slots; k++) {
        assert_in_range(count[k], 1, CS_SLOT_MAX_SAMPLES);
        assert_true(tokens[k] <= s->budget.seq_tokens);
        for (int e = 0; e < s->budget.n_encoders; e++) {
            assert_true(items[k][e] <= s->budget.enc[e].items);
            assert_true(rows[k][e] <= s->budget.enc[e].rows);
        }
    }
}

static void a_step_holds_the_same_samples_under_every_policy(void **state)
{
    (void)state;
    static struct step s;
    struct cs_pack_sample out[MAX], again[MAX];
    int spread_count = 0, kept_count = 0;
    for (int c = 0; c < 1500; c++) {
        int n_slots = 0, same_slots = 0;
        make_step(&s, between(0, CS_MAX_ENCODERS), between(0, MAX), between(1, 100));
        const char *name = names[c % (int)CS_ARRAY_LEN(names)];
        const int32_t slots = between(0, 2) * between(0, 40);
        const bool is_spread = spread(&s, name, slots, out, &n_slots);
        check(&s, out, n_slots);
        spread(&s, name, slots, again, &same_slots);
        assert_int_equal(n_slots, same_slots);
        assert_memory_equal(out, again, (size_t)s.n * sizeof *out);
        if (!is_spread) { /* stream order: exactly what packing left */
            assert_int_equal(n_slots, s.n_slots);
            assert_memory_equal(out, s.sample, (size_t)s.n * sizeof *out);
        }
        spread_count += is_spread;
        kept_count += !is_spread && c % (int)CS_ARRAY_LEN(names) != 0 && s.n_slots > 0;
    }
    assert_true(spread_count > 900);
    assert_true(kept_count > 0); /* tight steps that no policy fits are among them */
}

static void there_are_as_many_slots_as_the_plan_expects(void **state)
{
    (void)state;
    static struct step s;
    struct cs_pack_sample out[MAX];
    for (int c = 0; c < 200; c++) {
        int n_slots = 0;
        make_step(&s, 1, between(1, 60), 10);
        s.max_slots = CS_STEP_MAX_SLOTS;
        s.n_slots = cs_pack(&s.budget, s.max_slots, s.sample, s.n);
        const int32_t want = between(1, 30), most = s.n < want ? s.n : want;
        if (!spread(&s, "list2d", want, out, &n_slots))
            continue;
        assert_true(n_slots >= s.n_slots && n_slots >= most);
        if (s.n_slots < most)
            assert_true(n_slots <= most + most / 8 + CS_SPREAD_TRIES);
    }
}

static double worst_module(const struct step *s, const struct cs_pack_sample *out, int n_slots)
{
    const double enc = cs_spread_largest(out, s->n, s->enc[0]);
    const double llm = cs_spread_largest(out, s->n, s->llm);
    assert_true(enc * n_slots >= 1 - 1e-9 && llm * n_slots >= 1 - 1e-9);
    return (enc > llm ? enc : llm) * n_slots; /* over the mean */
}

/* on average over many steps; a single one may go either way by a sample */
static void slots_come_out_evener(void **state)
{
    (void)state;
    static struct step s;
    struct cs_pack_sample out[MAX];
    double sum[CS_ARRAY_LEN(names)] = {0};
    for (int c = 0; c < 200; c++) {
        make_step(&s, 1, 200, 25);
        s.max_slots = CS_STEP_MAX_SLOTS;
        s.budget.enc[0].items = 64;
        s.budget.enc[0].rows = 8 * 64;
        s.n_slots = cs_pack(&s.budget, s.max_slots, s.sample, s.n);
        for (size_t p = 0; p < CS_ARRAY_LEN(names); p++) {
            int n_slots = 0;
            spread(&s, names[p], s.n_slots + s.n_slots / 4, out, &n_slots);
            sum[p] += worst_module(&s, out, n_slots) / 200;
        }
    }
    for (size_t p = 0; p < CS_ARRAY_LEN(names); p++)
        if (!(sum[1] <= sum[p] + 0.03))
            fail_msg("list2d %.3f, %s %.3f", sum[1], names[p], sum[p]);
    assert_true(sum[1] - 1 < 0.25 * (sum[0] - 1));
    assert_true(sum[2] < sum[0] && sum[3] < sum[0]);
}

/* equal samples in another order: the same loads */
static void the_order_of_arrival_does_not_change_the_loads(void **state)
{
    (void)state;
    static struct step s;
    struct cs_pack_sample out[MAX];
    for (int c = 0; c < 100; c++) {
        double load[2][CS_STEP_MAX_SLOTS] = {{0}};
        int n_slots[2] = {0};
        make_step(&s, 1, between(1, 100), 5);
        s.max_slots = CS_STEP_MAX_SLOTS;
        s.budget.enc[0].items = 400;
        s.budget.enc[0].rows = 8 * 400;
        for (int turn = 0; turn < 2; turn++) {
            s.n_slots = cs_pack(&s.budget, s.max_slots, s.sample, s.n);
            spread(&s, "lpt", 9, out, &n_slots[turn]);
            for (int i = 0; i < s.n; i++)
                load[turn][out[i].slot] += s.enc[0][i] + s.llm[i];
            for (int i = 0; i < s.n / 2; i++) {
                const struct cs_pack_sample kept = s.sample[i];
                const double enc = s.enc[0][i], llm = s.llm[i];
                const int j = s.n - 1 - i;
                s.sample[i] = s.sample[j];
                s.enc[0][i] = s.enc[0][j];
                s.llm[i] = s.llm[j];
                s.sample[j] = kept;
                s.enc[0][j] = enc;
                s.llm[j] = llm;
            }
        }
        assert_int_equal(n_slots[0], n_slots[1]);
        for (int k = 0; k < n_slots[0]; k++)
            if (!(load[0][k] - load[1][k] < 1e-6 && load[1][k] - load[0][k] < 1e-6))
                fail_msg("slot %d: %f, %f", k, load[0][k], load[1][k]);
    }
}

static void reordering_moves_whole_slots(void **state)
{
    (void)state;
    struct cs_pack_sample sample[5] = {
        {.slot = 0}, {.slot = 2}, {.slot = -1}, {.slot = 1}, {.slot = 2}};
    static const int32_t order[] = {2, 0, 1}; /* slot 2 first */
    cs_spread_reorder(sample, 5, order, 3);
    assert_int_equal(sample[0].slot, 1);
    assert_int_equal(sample[1].slot, 0);
    assert_int_equal(sample[2].slot, -1);
    assert_int_equal(sample[3].slot, 2);
    assert_int_equal(sample[4].slot, 0);
}

static void unknown_policies_are_told_apart(void **state)
{
    (void)state;
    struct cs_spread spread_ = {0};
    for (size_t p = 0; p < CS_ARRAY_LEN(names); p++) {
        assert_true(cs_spread_from_name(names[p], &spread_));
        assert_int_equal(spread_.is_kept, p == 0);
    }
    assert_false(cs_spread_from_name("disttrain", &spread_)); /* not under budgets */
    assert_false(cs_spread_from_name("list3d", &spread_));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_holds_the_same_samples_under_every_policy),
        cmocka_unit_test(there_are_as_many_slots_as_the_plan_expects),
        cmocka_unit_test(slots_come_out_evener),
        cmocka_unit_test(the_order_of_arrival_does_not_change_the_loads),
        cmocka_unit_test(reordering_moves_whole_slots),
        cmocka_unit_test(unknown_policies_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
