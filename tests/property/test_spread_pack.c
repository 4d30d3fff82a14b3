/* Packing invariants over random samples: budgets hold, first-fit, deterministic, carry rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/spread/first_fit.h"

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

enum { MAX = 300 };

struct use {
    int64_t tokens, items[CS_MAX_ENCODERS], rows[CS_MAX_ENCODERS];
    int samples;
};

static int fits(const struct cs_slot_budget *b, const struct use *u, const struct cs_pack_sample *s)
{
    int ok = u->samples < CS_SLOT_MAX_SAMPLES && u->tokens + s->tokens <= b->seq_tokens;
    for (int e = 0; e < b->n_encoders; e++)
        ok = ok && u->items[e] + s->items[e] <= b->enc[e].items &&
             u->rows[e] + s->rows[e] <= b->enc[e].rows;
    return ok;
}

/* Replay the assignment in order; at every sample the slot must be the first that fits. */
static void check(const struct cs_slot_budget *b, int max_slots, const struct cs_pack_sample *s,
                  int n, int used)
{
    struct use use[CS_STEP_MAX_SLOTS] = {{0}};
    int open = 0;
    assert_true(used <= max_slots);
    for (int i = 0; i < n; i++) {
        int want = 0;
        while (want < open && !fits(b, &use[want], &s[i]))
            want++;
        if (want == open && (open == max_slots || !fits(b, &use[open], &s[i])))
            want = -1;
        assert_int_equal(s[i].slot, want);
        if (want < 0)
            continue;
        open = want == open ? open + 1 : open;
        use[want].tokens += s[i].tokens;
        use[want].samples++;
        for (int e = 0; e < b->n_encoders; e++) {
            use[want].items[e] += s[i].items[e];
            use[want].rows[e] += s[i].rows[e];
        }
    }
    assert_int_equal(used, open);
}

static void first_fit_under_budgets(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int round = 0; round < 2000; round++) {
        struct cs_slot_budget b = {.seq_tokens = 64 + (int32_t)(next_random(&seed) % 512),
                                   .n_encoders = (int32_t)(next_random(&seed) % 3)};
        for (int e = 0; e < b.n_encoders; e++) {
            b.enc[e].items = 1 + (int32_t)(next_random(&seed) % 6);
            b.enc[e].rows = 8 * b.enc[e].items;
        }
        struct cs_pack_sample sample[MAX] = {{0}};
        int n = (int)(next_random(&seed) % MAX), max_slots = 1 + (int)(next_random(&seed) % 40);
        for (int i = 0; i < n; i++) {
            sample[i].tokens = 1 + (int32_t)(next_random(&seed) % (uint64_t)b.seq_tokens);
            for (int e = 0; e < b.n_encoders; e++) {
                sample[i].items[e] = (int32_t)(next_random(&seed) % 3) % (b.enc[e].items + 1);
                sample[i].rows[e] = sample[i].items[e] * (1 + (int32_t)(next_random(&seed) % 12));
            }
            sample[i].slot = 99;
        }
        int used = cs_pack(&b, max_slots, sample, n);
        check(&b, max_slots, sample, n, used);
    }
}

static void zero_samples_use_no_slot(void **state)
{
    (void)state;
    struct cs_slot_budget b = {.seq_tokens = 8};
    struct cs_pack_sample sample = {.tokens = 9};
    assert_int_equal(cs_pack(&b, 4, &sample, 0), 0);
    assert_int_equal(cs_pack(&b, 4, &sample, 1), 0);
    assert_int_equal(sample.slot, -1);
    sample.tokens = 8;
    assert_int_equal(cs_pack(&b, 4, &sample, 1), 1);
    assert_int_equal(sample.slot, 0);
}

static void a_slot_holds_at_most_its_table_of_samples(void **state)
{
    (void)state;
    static struct cs_pack_sample sample[CS_SLOT_MAX_SAMPLES + 1];
    for (int i = 0; i <= CS_SLOT_MAX_SAMPLES; i++)
        sample[i].tokens = 1;
    struct cs_slot_budget b = {.seq_tokens = 1 << 20};
    assert_int_equal(cs_pack(&b, 4, sample, CS_SLOT_MAX_SAMPLES + 1), 2);
    assert_int_equal(sample[CS_SLOT_MAX_SAMPLES].slot, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_fit_under_budgets),
        cmocka_unit_test(zero_samples_use_no_slot),
        cmocka_unit_test(a_slot_holds_at_most_its_table_of_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
