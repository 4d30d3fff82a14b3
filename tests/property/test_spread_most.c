/* How many slots a step can have is known before the first one: whatever samples come, packing and
 * every policy of spreading make no more than cs_pack_most, rounded up to whole replicas as a
 * feeder does; and samples that fill more than half a slot make as many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/spread/spread.h"

enum { MAX_SAMPLES = 320, ROUNDS = 400 };

static uint64_t seed = 9;

static int below(int n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((seed >> 33) % (uint64_t)n);
}

struct step {
    struct cs_slot_budget budget;
    struct cs_pack_sample sample[MAX_SAMPLES];
    double enc[MAX_SAMPLES], llm[MAX_SAMPLES];
    int n, replicas;
};

static void make_step(struct step *s, int least_tokens)
{
    *s = (struct step){
        .budget = {.seq_tokens = 100, .n_encoders = 1},
        .n = 1 + below(below(4) > 0 ? 40 : MAX_SAMPLES),
        .replicas = 1 + below(below(3) > 0 ? 4 : 64)
    };
    s->budget.enc[0].items = 1 + below(4);
    for (int i = 0; i < s->n; i++) {
        s->sample[i].tokens = least_tokens + below(101 - least_tokens);
        s->sample[i].items[0] = below(s->budget.enc[0].items + 1);
        s->enc[i] = s->sample[i].items[0];
        s->llm[i] = s->sample[i].tokens;
    }
}

/* as the feeder packs, spreads and evens out the slots of a step */
static int slots_of(struct step *s, const char *policy)
{
    const int room = (CS_STEP_PACK_SLOTS + s->replicas - 1) / s->replicas * s->replicas;
    struct cs_spread spread = {.n_encoders = 1,
                               .enc = {s->enc},
                               .llm = s->llm,
                               .key = (uint64_t)below(1000),
                               .slots = below(2 * MAX_SAMPLES)};
    struct cs_err err = {.text = ""};
    int n = cs_pack(&s->budget, CS_STEP_PACK_SLOTS, s->sample, s->n);
    assert_true(cs_spread_from_name(policy, &spread));
    if (cs_spread(&s->budget, &spread, room, s->sample, s->n, &n, NULL, &err) != CS_OK)
        fail_msg("%s: %s", policy, err.text);
    return (n + s->replicas - 1) / s->replicas * s->replicas;
}

static void no_step_has_more_slots_than_are_foreseen(void **state)
{
    static const char *const policies[] = {"stream", "list2d", "lpt", "entrain", "random"};
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        static struct step s;
        make_step(&s, 1 + below(60));
        const int most = cs_pack_most(s.n, s.replicas);
        assert_int_equal(most % s.replicas, 0);
        assert_in_range(most, s.replicas, CS_STEP_MAX_SLOTS);
        assert_in_range(slots_of(&s, policies[round % 5]), 1, most);
    }
}

static void samples_over_half_a_slot_make_the_most(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        static struct step s;
        make_step(&s, 51);
        assert_int_equal(slots_of(&s, "stream"), cs_pack_most(s.n, s.replicas));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_step_has_more_slots_than_are_foreseen),
        cmocka_unit_test(samples_over_half_a_slot_make_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
