/* Memory in plans: what does not fit is refused with what would, what takes its part of it, and cuts that know it. */
#include "core/plan/cost/links/windows.h"
#include "core/plan/make/planner.h"
#include "core/sched/sim/forecast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/planned.h"

static void memory_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(NULL);
    struct cs_device_class small = *cs_device_class_find("a40-48g");
    struct cs_cluster cluster = {&small, 1, 8};
    small.mem_bytes = 1000;
    assert_int_equal(cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err), CS_PLAN);
    assert_non_null(strstr(m.err.text, "1000 B per stage"));
    cs_test_planned_free(&m);
}

static void a_branch_that_does_not_fit_is_told_how_many_stages_would_do(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(NULL);
    struct cs_device_class small = *cs_device_class_find("a40-48g");
    struct cs_cluster cluster = {&small, 64, 1}; /* windows of channels would be the most of it */
    enum cs_status status = CS_OK;
    char branch[32] = "";
    int pp = 0;
    small.mem_bytes = INT64_C(1) << 40;
    while (status == CS_OK && small.mem_bytes > 1000) {
        small.mem_bytes -= small.mem_bytes / 50;
        status = cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err);
    }
    assert_int_equal(status, CS_PLAN);
    const char *hint = strstr(m.err.text, "parallel.");
    struct cs_spec_parallel *full = NULL;
    if (!hint || sscanf(hint, "parallel.%31[a-z].pp = %d fits", branch, &pp) != 2)
        fail_msg("%s", m.err.text);
    for (int32_t i = 0; i < m.spec->n_parallel; i++)
        if (strcmp(m.spec->parallel[i].branch, branch) == 0)
            full = &m.spec->parallel[i];
    assert_true(full && pp > full->pp);
    for (full->pp++; full->pp < pp; full->pp++)
        assert_int_equal(cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err),
                         CS_PLAN);
    assert_int_equal(cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err), CS_OK);
    cs_test_planned_free(&m);
}

/* Sets what "parallel.BRANCH.KEY = VALUE" says; false: it is no more of that. */
static bool set_remedy(struct cs_test_planned *m, const char *text, char key[16])
{
    static char word[16];
    char branch[32], value[16];
    if (sscanf(text, "parallel.%31[a-z].%15[a-z] = %15[a-z0-9\"]", branch, key, value) != 3)
        return false;
    for (int32_t i = 0; i < m->spec->n_parallel; i++) {
        struct cs_spec_parallel *own = &m->spec->parallel[i];
        if (strcmp(own->branch, branch) != 0)
            continue;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(value + 1, "\""), value + 1);
        if (strcmp(key, "recompute") == 0)
            own->recompute = word;
        if (strcmp(key, "offload") == 0)
            own->offload = word;
        if (strcmp(key, "pp") == 0)
            own->pp = atoi(value);
        if (strcmp(key, "cp") == 0)
            own->cp = atoi(value);
        if (strcmp(key, "tp") == 0)
            own->tp = atoi(value);
        if (strcmp(key, "zero") == 0)
            own->zero = atoi(value);
    }
    return true;
}

/* On smaller and smaller devices: each setting that a refusal names, alone. */
static void what_is_said_to_fit_fits(void **state)
{
    static const char *const keys[] = {"pp", "recompute", "zero", "cp", "tp", "offload"};
    bool is_named[CS_ARRAY_LEN(keys)] = {false};
    struct cs_test_planned m = cs_test_plan(&(struct cs_test_spec){
        .llm_layers = 8, .llm_width = 512, .dp = 2, .slots = 4, .seq_tokens = 512});
    struct cs_device_class small = *cs_device_class_find("a40-48g");
    struct cs_cluster cluster = {&small, 64, 8};
    int n_refused = 0;
    (void)state;
    for (small.mem_bytes = INT64_C(1) << 30; small.mem_bytes > 1 << 20;
         small.mem_bytes -= small.mem_bytes / 12) {
        struct cs_err err = {.text = ""};
        if (cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &err) == CS_OK)
            continue;
        const char *at = strstr(err.text, "; parallel.");
        for (; at != NULL; at = strstr(at, ", parallel.")) {
            char key[16];
            struct cs_spec kept = *m.spec;
            at += 2;
            if (strchr(at, '=') == NULL || !set_remedy(&m, at, key))
                break;
            if (cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err) != CS_OK)
                fail_msg("%s: it does not: %s", err.text, m.err.text);
            *m.spec = kept;
            for (size_t k = 0; k < CS_ARRAY_LEN(keys); k++)
                is_named[k] |= strcmp(keys[k], key) == 0;
            n_refused++;
        }
    }
    assert_true(n_refused > 10);
    for (size_t k = 0; k < 5; k++)
        if (!is_named[k])
            fail_msg("%s is never named", keys[k]);
    cs_test_planned_free(&m);
}

/* the fewest bytes of a device on which the plan fits; the refusal of one less is in m->err */
static int64_t least_memory_of(struct cs_test_planned *m, int32_t devices_per_node)
{
    struct cs_device_class device = *cs_device_class_find("a40-48g");
    struct cs_cluster cluster = {&device, 64 / devices_per_node, devices_per_node};
    int64_t bad = 1, good = INT64_C(1) << 40;
    while (good - bad > 1) {
        device.mem_bytes = bad + (good - bad) / 2;
        if (cs_plan_make(m->spec, m->graph, &cluster, m->arena, &m->plan, &m->err) == CS_OK)
            good = device.mem_bytes;
        else
            bad = device.mem_bytes;
    }
    device.mem_bytes = bad;
    assert_int_equal(cs_plan_make(m->spec, m->graph, &cluster, m->arena, &m->plan, &m->err),
                     CS_PLAN);
    return good;
}

static int64_t least_memory(struct cs_test_planned *m, const char *recompute)
{
    for (int32_t i = 0; i < m->spec->n_parallel; i++) {
        m->spec->parallel[i].pp = 1;
        m->spec->parallel[i].recompute = recompute;
    }
    return least_memory_of(m, 8);
}

/* The most that a rank of the plan needs. */
static int64_t most_needed(const struct cs_test_planned *m, const struct cs_cluster *cluster)
{
    struct cs_forecast_options options = {.slots = 0};
    struct cs_forecast forecast;
    struct cs_err err;
    if (cs_forecast_plan(m->plan, m->graph, cluster, &options, m->arena, &forecast, &err) != CS_OK)
        fail_msg("%s", err.text);
    return cs_forecast_figures(&forecast, m->plan, m->arena).peak_bytes;
}

/* Cuts count layers; what ranks need beside them makes one full where another has room: then it is cut again, for the
 * time that is left so. What no cut can hold is refused with the figures of the first. */
static void a_full_rank_is_cut_again(void **state)
{
    (void)state;
    for (int pp = 2; pp <= 3; pp++) {
        struct cs_test_planned m = cs_test_plan(&(struct cs_test_spec){
            .n_encoders = -1, .llm_layers = 12, .llm_pp = pp, .seq_tokens = 256, .slots = 6});
        struct cs_device_class device = *cs_device_class_find("a40-48g");
        const struct cs_cluster cluster = {&device, 1, 8};
        if (cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err) != CS_OK)
            fail_msg("%s", m.err.text);
        const struct cs_plan *fast = m.plan;
        const int64_t most = most_needed(&m, &cluster);
        device.mem_bytes = most - 1;
        if (cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err) != CS_OK)
            fail_msg("%d stages: %s", pp, m.err.text);
        assert_true(most_needed(&m, &cluster) < most);
        bool is_same = true;
        for (int s = 0; s < pp; s++)
            is_same = is_same && m.plan->stages[s].n_layers == fast->stages[s].n_layers;
        assert_false(is_same);
        device.mem_bytes = most / 2;
        assert_int_equal(cs_plan_make(m.spec, m.graph, &cluster, m.arena, &m.plan, &m.err),
                         CS_PLAN);
        assert_non_null(strstr(m.err.text, "more than a a40-48g has"));
        cs_test_planned_free(&m);
    }
}

/* Ranks of one host that share matrices or experts have rings for each other; of several hosts they have none. */
static void communicators_take_their_part_of_the_memory(void **state)
{
    static const struct {
        int32_t devices_per_node, tp, ep;
        int64_t rings;
    } rows[] = {
        {8,  1,  1,  0 },
        {8,  2,  1,  1 },
        {8,  4,  2,  4 },
        {8,  8,  8,  14},
        {4,  8,  4,  3 },
        {16, 16, 16, 0 }
    };

    (void)state;
    assert_true(cs_device_has_windows(cs_device_class_find("h100-80g")));
    assert_false(cs_device_has_windows(cs_device_class_find("cpu")));
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        assert_int_equal(cs_window_bytes(rows[i].devices_per_node, rows[i].tp, rows[i].ep),
                         rows[i].rings << 25);
    }
    struct cs_test_planned m = cs_test_plan(&(struct cs_test_spec){.n_encoders = -1, .llm_tp = 4});
    assert_int_equal(least_memory_of(&m, 8) - least_memory_of(&m, 1), 3 << 25);
    cs_test_planned_free(&m);
}

/* Channels within a node have a ring at the rank that they come to, unless one of both ranks has too many. */
static void channels_of_one_host_have_windows(void **state)
{
    static const struct {
        int pp, devices_per_node;
        int32_t windows[3], others[3]; /* of the first, the second and the last rank */
    } rows[] = {
        {3, 8, {1, 2, 1}, {0, 0, 0}},
        {3, 2, {1, 1, 0}, {0, 2, 2}}, /* the last is alone on its node */
        {1, 8, {0, 0, 0}, {0, 0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_planned m = cs_test_plan(
            &(struct cs_test_spec){.n_encoders = -1, .llm_layers = 6, .llm_pp = rows[i].pp});
        struct cs_cluster cluster = {cs_device_class_find("h100-80g"), 4, rows[i].devices_per_node};
        for (int r = 0; r < rows[i].pp; r++) {
            const int at = r == rows[i].pp - 1 && r > 0 ? 2 : r;
            assert_int_equal(cs_channel_window_bytes(&cluster, m.plan, r),
                             (int64_t)rows[i].windows[at] << 24);
            assert_int_equal(cs_channels_without_window(&cluster, m.plan, r), rows[i].others[at]);
        }
        cluster.device = cs_device_class_find("cpu");
        assert_int_equal(cs_channel_window_bytes(&cluster, m.plan, 0), 0);
        cs_test_planned_free(&m);
    }
}

/* Branches of one stage are cut in one way, so it is the whole need of a rank that decides. */
static void a_cut_knows_what_is_made_again(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(NULL);
    int64_t least[3];
    const char *const levels[] = {"none", "selective", "full"};
    for (int i = 0; i < 3; i++) {
        least[i] = least_memory(&m, levels[i]);
        if (strstr(m.err.text, "1 B more than") == NULL)
            fail_msg("%s: %s", levels[i], m.err.text);
    }
    assert_true(least[2] < least[1] && least[1] < least[0]);
    cs_test_planned_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_rank_is_cut_again),
        cmocka_unit_test(communicators_take_their_part_of_the_memory),
        cmocka_unit_test(channels_of_one_host_have_windows),
        cmocka_unit_test(memory_that_does_not_fit_is_refused),
        cmocka_unit_test(a_cut_knows_what_is_made_again),
        cmocka_unit_test(a_branch_that_does_not_fit_is_told_how_many_stages_would_do),
        cmocka_unit_test(what_is_said_to_fit_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
