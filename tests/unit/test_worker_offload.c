/* Activations that wait in the host's memory: nothing else changes, and less is kept on the device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/offload.h"
#include "support/layout_compare.h"

static void sets_are_fewer_than_slots_and_alternate(void **state)
{
    (void)state;
    for (int32_t alive = 0; alive <= 3; alive++)
        assert_int_equal(cs_offload_sets(alive), 0);
    for (int32_t alive = 4; alive < 40; alive++) {
        const int32_t sets = cs_offload_sets(alive);
        assert_in_range(sets, 2, CS_OFFLOAD_SETS);
        assert_true(sets < alive && (alive - 1) % sets != 0);
    }
}

static size_t sum(const size_t *bytes)
{
    size_t all = 0;
    for (int r = 0; r < CS_TEST_MAX_RANKS; r++)
        all += bytes[r];
    return all;
}

static void the_bits_are_those_without_it(void **state)
{
    static const struct {
        struct cs_test_spec options;
        bool is_on_one, moves;
    } rows[] = {
        {{.seed = 61, .schedule = "gpipe", .is_tied = true},                        true,  true },
        {{.seed = 62, .schedule = "gpipe", .llm_pp = 2, .recompute = "full"},       false, true },
        {{.seed = 63, .llm_pp = 3},                                                 false, true },
        {{.seed = 64, .llm_pp = 3, .vision_pp = 2, .recompute = "selective"},       false, true },
        {{.seed = 65, .llm_pp = 3, .rules = "train:* freeze:vision.*"},             false, false},
        {{.seed = 66, .schedule = "gpipe", .dp = 2, .is_tied = true, .zero = 3},    false, false},
        {{.seed = 67, .schedule = "interleaved", .llm_pp = 2, .has_experts = true}, false, true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        const int *ranks = rows[i].is_on_one ? layout_single : NULL;
        struct layout_outcome here, there;
        options.slots = LAYOUT_REPLICA_SLOTS;
        layout_run_on(true, &options, ranks, &here);
        options.offloads = true;
        layout_run_on(true, &options, ranks, &there);
        if (options.dp > 1) /* losses are added in any order */
            layout_assert_near(&options, &here, &there);
        else
            layout_assert_same(&here, &there);
        assert_int_equal(sum(here.host), 0);
        if (rows[i].moves) {
            assert_true(sum(there.host) > 0);
            assert_true(sum(there.kept) < sum(here.kept));
        } else {
            assert_true(sum(there.kept) <= sum(here.kept));
        }
        layout_free(&here);
        layout_free(&there);
    }
}

/* In memory that is the host's already nothing moves. */
static void cpu_ranks_refuse_it_by_name(void **state)
{
    struct cs_test_planned p;
    json_t *root = cs_test_spec_json(NULL);
    json_t *parallel = json_object_get(json_object_get(root, "plan"), "parallel");
    (void)state;
    json_object_set_new(json_object_get(parallel, "llm"), "offload", json_string("host"));
    assert_int_equal(cs_test_try_plan(&p, root, NULL), CS_PLAN);
    assert_non_null(strstr(p.err.text, "plan.parallel.llm.offload"));
    assert_non_null(strstr(p.err.text, "CPU ranks"));
    cs_test_planned_free(&p);
}

static struct cs_test_planned planned(const char *schedule, const char *offload,
                                      enum cs_status want)
{
    const struct cs_cluster gpus = {cs_device_class_find("h100-80g"), 1, 8};
    const struct cs_test_spec options = {.llm_pp = 4, .schedule = schedule, .slots = 8};
    struct cs_test_planned p;
    json_t *root = cs_test_spec_json(&options), *row;
    const char *name;
    json_object_foreach(json_object_get(json_object_get(root, "plan"), "parallel"), name, row)
    {
        json_object_set_new(row, "offload", json_string(offload));
    }
    const enum cs_status status = cs_test_try_plan(&p, root, &gpus);
    if (status != want)
        fail_msg("%s with %s: %s", schedule, offload, p.err.text);
    return p;
}

static void gpus_plan_with_it(void **state)
{
    (void)state;
    struct cs_test_planned p = planned("1f1b", "host", CS_OK);
    for (int32_t s = 0; s < p.plan->n_stages; s++)
        assert_true(p.plan->stages[s].offloads);
    cs_test_planned_free(&p);
    p = planned("1f1b", "none", CS_OK);
    for (int32_t s = 0; s < p.plan->n_stages; s++)
        assert_false(p.plan->stages[s].offloads);
    cs_test_planned_free(&p);
    p = planned("zb-h1", "host", CS_PLAN);
    assert_non_null(strstr(p.err.text, "splits backwards"));
    cs_test_planned_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_fewer_than_slots_and_alternate),
        cmocka_unit_test(the_bits_are_those_without_it),
        cmocka_unit_test(cpu_ranks_refuse_it_by_name),
        cmocka_unit_test(gpus_plan_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
