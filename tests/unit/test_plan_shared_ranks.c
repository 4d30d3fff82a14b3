/* Layouts with several ranks of a stage (tp, cp): what has never run on GPUs is planned for CPU ranks and
 * refused for those by name, and what runs nowhere is refused for both. */
#include "core/plan/make/planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/spec.h"

static enum cs_status plan_for(const char *device, const struct cs_test_spec *options,
                               struct cs_err *err)
{
    const struct cs_cluster cluster = {cs_device_class_find(device), 1, 16};
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = cs_test_spec_json(options);
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    if (cs_spec_read(root, arena, &spec, err) != CS_OK ||
        cs_graph_build(spec, true, arena, &graph, err) != CS_OK)
        fail_msg("%s", err->text);
    const enum cs_status status = cs_plan_make(spec, graph, &cluster, arena, &plan, err);
    json_decref(root);
    cs_arena_free(arena);
    return status;
}

struct row {
    struct cs_test_spec options;
    const char *words[2];
};

static void assert_refused(const char *device, const struct row *row)
{
    struct cs_err err = {.text = ""};
    if (plan_for(device, &row->options, &err) != CS_PLAN)
        fail_msg("%s: not refused with \"%s\"", device, row->words[0]);
    for (size_t w = 0; w < CS_ARRAY_LEN(row->words); w++)
        if (strstr(err.text, row->words[w]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.text, row->words[w]);
}

static void what_no_gpu_has_run_is_planned_for_cpu_ranks_only(void **state)
{
    static const struct row rows[] = {
  /* clang-format off */
        {{.vision_cp = 2}, {"plan.parallel.vision.cp = 2: items of an encoder", "not on a h100-80g; set cp = 1"}},
        {{.llm_cp = 2, .modality = "encoder-colocated"}, {"items of an encoder", "choose modality encoder-parallel"}},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_err err = {.text = ""};
        if (plan_for("cpu", &rows[i].options, &err) != CS_OK)
            fail_msg("%s", err.text);
        assert_refused("h100-80g", &rows[i]);
    }
}

/* rows split over GPUs, of all kinds of layers and slots with a degree of their own, and matrices */
static void gpus_split_rows_and_matrices(void **state)
{
    static const struct cs_test_spec rows[] = {
        {.llm_cp = 2         },
        {.llm_cp = 2,          .is_recurrent = true},
        {.llm_cp = 2,                    .has_experts = true},
        {.llm_cp = 2,.context_rows = 64},
        {.llm_tp = 2         },
        {.vision_tp = 2                   },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_err err = {.text = ""};
        if (plan_for("h100-80g", &rows[i], &err) != CS_OK)
            fail_msg("%s", err.text);
    }
}

static void what_ranks_cannot_share_is_refused(void **state)
{
    static const struct row rows[] = {
  /* clang-format off */
        {{.llm_tp = 2, .vision_cp = 2}, {"plan.parallel.llm.tp = 2: 2 ranks share the items of vision", "not both yet"}},
        {{.llm_tp = 2, .modality = "encoder-colocated"}, {"plan.parallel.vision.tp is 1, that of llm 2", "set one tp for both"}},
        {{.llm_cp = 2, .vision_cp = 3, .modality = "encoder-colocated"}, {"plan.parallel.vision.cp = 3", "llm, which has cp = 2"}},
        {{.llm_tp = 3}, {"which 3 ranks cannot share evenly", "numbers that can"}},
        {{.context_rows = 64}, {"plan.context_rows = 64: rows of llm are not split", "leave context_rows away"}},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        assert_refused("cpu", &rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_gpu_has_run_is_planned_for_cpu_ranks_only),
        cmocka_unit_test(gpus_split_rows_and_matrices),
        cmocka_unit_test(what_ranks_cannot_share_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
