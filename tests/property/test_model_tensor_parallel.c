/* Cuts of parameters over the ranks of a stage: the parts are what a model with as many heads and
 * columns as a rank has would hold, together they are every element as often as its holders say, and
 * any range of a rank's array goes to its slices and back. */
#include "core/model/tensor_parallel.h"

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

#include "support/spec.h"

struct model {
    struct cs_test_spec spec;
    int ranks[6]; /* that must be able to share it; others must not, 0: the end */
};

/* clang-format off */
static const struct model models[] = {
    {{.llm_layers = 2}, {2, 4}},
    {{.is_qwen2 = true, .is_tied = true}, {2, 4}},
    {{.is_qwen3 = true}, {2, 4}},
    {{.llm_keys = CS_TEST_GEMMA4}, {2, 4}},
    {{.llm_keys = CS_TEST_PHI3}, {2}},
    {{.is_recurrent = true}, {2}},
    {{.has_experts = true}, {2, 4}},
    {{.llm_keys = "{\"num_attention_heads\": 6, \"num_key_value_heads\": 3, \"head_dim\": 8, \"intermediate_size\": 50}"}, {2, 3, 6}},
    {{.llm_keys = "{\"num_attention_heads\": 6, \"num_key_value_heads\": 1, \"head_dim\": 8, \"intermediate_size\": 7}"}, {2, 3, 6}},
    {{.llm_keys = "{\"num_attention_heads\": 5, \"num_key_value_heads\": 5, \"head_dim\": 8}"}, {2, 3, 4, 5}},
    {{.llm_keys = "{\"model_type\": \"phi3\", \"num_attention_heads\": 6, \"num_key_value_heads\": 3}"}, {2, 3}},
};

/* clang-format on */

/* The tensors of a model that is as small as the rank's. */
static void check_shapes(const struct cs_tp_view *view, struct cs_arena *arena)
{
    for (int32_t m = 0; m < view->graph->n_modules; m++) {
        const struct cs_module *module = &view->graph->modules[m];
        struct cs_tensor_info *info;
        const int n = cs_arch_tensors(&module->arch, arena, &info);
        int k = 0;
        for (int32_t i = 0; i < view->graph->n_params; i++) {
            const struct cs_param *param = &view->graph->params[i];
            if (param->module != m || param->role == CS_PARAM_ADAPTER_A ||
                param->role == CS_PARAM_ADAPTER_B)
                continue;
            assert_true(k < n);
            assert_string_equal(param->tensor, info[k].name);
            assert_int_equal(param->n_dims, info[k].n_dims);
            for (int32_t d = 0; d < param->n_dims; d++)
                if (param->dim[d] != info[k].dim[d])
                    fail_msg("%s has %d for dimension %d, a model of that size %d", param->name,
                             (int)param->dim[d], d, (int)info[k].dim[d]);
            k++;
        }
        assert_int_equal(k, n);
    }
}

/* Any range of the rank's array as slices: all of its elements, each from its place in the whole. */
static void check_ranges(const struct cs_tp_part *part, const struct cs_param *whole,
                         const struct cs_param *own, const float *all, const float *mine)
{
    const struct cs_slice frame = cs_slice_whole(whole);
    float *slice = malloc((size_t)own->count * sizeof *slice),
          *back = malloc((size_t)own->count * sizeof *back);
    assert_true(slice != NULL && back != NULL);
    for (int k = 0; k < 7; k++) {
        struct cs_tp_slice out[CS_TP_SLICES];
        const int64_t at = own->count * k / 9, n = own->count - at - own->count * (k % 3) / 11;
        const int n_slices = cs_tp_slices(part, own, at, n, out);
        int64_t total = 0;
        memset(back, 0xff, (size_t)own->count * sizeof *back);
        for (int i = 0; i < n_slices; i++) {
            const struct cs_slice *s = &out[i].whole;
            cs_tp_slice_take(&out[i], mine + at, slice);
            cs_tp_slice_put(&out[i], slice, back);
            const int64_t runs = cs_slice_runs(s, &frame, s);
            for (int64_t r = 0; r < runs; r++) {
                const struct cs_copy_run run = cs_slice_run(s, &frame, s, r);
                assert_memory_equal(slice + run.to, all + run.from, (size_t)run.n * sizeof *all);
            }
            total += cs_slice_count(s);
        }
        assert_int_equal(total, n);
        assert_memory_equal(back, mine + at, (size_t)n * sizeof *back);
    }
    free(slice);
    free(back);
}

static void copy_range(void *user, int64_t first, int64_t n, float *out)
{
    memcpy(out, (const float *)user + first, (size_t)n * sizeof *out);
}

/* Made piece by piece on several threads it is what is taken from the whole. */
static void check_made(const struct cs_tp_part *part, const struct cs_param *whole,
                       const struct cs_param *own, float *all, const float *mine)
{
    float *made = calloc((size_t)own->count + 1, sizeof *made);
    assert_non_null(made);
    for (int64_t grain = 1; grain < 200; grain = 5 * grain + 2) {
        const struct cs_tp_making making = {
            .make = copy_range, .user = all, .threads = grain == 1 ? 1 : 3, .grain = grain};
        memset(made, 0, (size_t)(own->count + 1) * sizeof *made);
        cs_tp_make(part, whole, &making, made);
        assert_memory_equal(made, mine, (size_t)own->count * sizeof *made);
        assert_true(fabsf(made[own->count]) <= 0);
    }
    free(made);
}

/* Every element is held by as many ranks as its holders say, each once; parts put back are the whole. */
static void check_param(const struct cs_tp_view *views, int ranks, int32_t id)
{
    const struct cs_param *whole = &views[0].whole->params[id];
    const size_t bytes = (size_t)whole->count * sizeof(float);
    float *all = malloc(bytes), *again = malloc(bytes), *mine = malloc(bytes);
    int *held = calloc((size_t)whole->count, sizeof *held);
    int64_t total = 0;
    assert_true(all != NULL && again != NULL && mine != NULL && held != NULL);
    for (int64_t i = 0; i < whole->count; i++)
        all[i] = (float)(i + 1);
    memset(again, 0, bytes);
    for (int r = 0; r < ranks; r++) {
        const struct cs_tp_part *part = &views[r].part[id];
        const struct cs_param *own = &views[r].graph->params[id];
        assert_int_equal(part->holders, views[0].part[id].holders);
        assert_in_range(part->holder, 0, part->holders - 1);
        cs_tp_take(part, whole, all, mine);
        for (int64_t i = 0; i < own->count; i++)
            held[(int64_t)mine[i] - 1]++;
        cs_tp_put(part, whole, mine, again);
        check_ranges(part, whole, own, all, mine);
        check_made(part, whole, own, all, mine);
        total += own->count;
    }
    assert_memory_equal(all, again, bytes);
    for (int64_t i = 0; i < whole->count; i++)
        assert_int_equal(held[i], views[0].part[id].holders);
    assert_int_equal(total, whole->count * views[0].part[id].holders);
    free(all);
    free(again);
    free(mine);
    free(held);
}

static void check_ranks(const struct cs_graph *graph, int ranks, struct cs_arena *arena)
{
    struct cs_tp_view views[CS_TP_MOST];
    int64_t n_cut = 0;
    for (int r = 0; r < ranks; r++) {
        struct cs_tp tp[8] = {{0}};
        tp[graph->llm] = (struct cs_tp){.ranks = ranks, .at = r};
        cs_tp_view_make(graph, tp, arena, &views[r]);
        check_shapes(&views[r], arena);
    }
    for (int32_t i = 0; i < graph->n_params; i++) {
        if (graph->modules[graph->params[i].module].branch == graph->llm)
            check_param(views, ranks, i);
        n_cut += views[0].part[i].dim >= 0;
    }
    assert_true(n_cut > 4);
    assert_true(views[0].graph->n_elements < graph->n_elements);
}

static bool is_listed(const struct model *model, int ranks)
{
    for (int i = 0; i < 6; i++)
        if (model->ranks[i] == ranks)
            return true;
    return false;
}

static void parts_are_those_of_smaller_models(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct cs_arena *arena = cs_arena_new(0);
        json_t *root;
        const struct cs_graph *graph = cs_test_graph(&models[m].spec, arena, &root);
        for (int ranks = 2; ranks <= 6; ranks++) {
            struct cs_err err = {0};
            const enum cs_status status = cs_tp_check(graph, graph->llm, ranks, &err);
            if (is_listed(&models[m], ranks) != (status == CS_OK))
                fail_msg("model %zu over %d ranks: %s", m, ranks,
                         status == CS_OK ? "is not refused" : err.text);
            if (status == CS_OK)
                check_ranks(graph, ranks, arena);
            else
                assert_true(strstr(err.text, "plan.parallel.llm.tp") != NULL &&
                            strstr(err.text, "numbers that can: 1") != NULL);
        }
        cs_arena_free(arena);
        json_decref(root);
    }
}

/* Ranks of experts, each with its columns of them: every element of an expert is at one of them, what is
 * not of experts at all that share no columns. */
static void check_spread(const struct cs_graph *graph, int ep, int tp, struct cs_arena *arena)
{
    struct cs_tp_view views[64];
    for (int r = 0; r < ep * tp; r++) {
        struct cs_tp own[8] = {{0}};
        own[graph->llm] = (struct cs_tp){.ranks = tp, .at = r % tp, .ep = ep, .ep_at = r / tp};
        cs_tp_view_make(graph, own, arena, &views[r]);
        assert_int_equal(views[r].graph->modules[graph->n_modules - 1].arch.experts.ranks, ep);
    }
    for (int32_t i = 0; i < graph->n_params; i++) {
        const struct cs_param *whole = &graph->params[i];
        const size_t bytes = (size_t)whole->count * sizeof(float);
        float *all = malloc(bytes), *again = malloc(bytes), *mine = malloc(bytes);
        int64_t total = 0;
        if (graph->modules[whole->module].branch == graph->llm && cs_param_is_of_expert(whole)) {
            assert_true(all != NULL && again != NULL && mine != NULL);
            memset(again, 0, bytes);
            for (int64_t k = 0; k < whole->count; k++)
                all[k] = (float)(k + 1);
            for (int r = 0; r < ep * tp; r++) {
                const struct cs_param *own = &views[r].graph->params[i];
                cs_tp_take(&views[r].part[i], whole, all, mine);
                cs_tp_put(&views[r].part[i], whole, mine, again);
                check_ranges(&views[r].part[i], whole, own, all, mine);
                check_made(&views[r].part[i], whole, own, all, mine);
                total += own->count;
            }
            assert_int_equal(total, whole->count);
            assert_memory_equal(all, again, bytes);
        } else {
            assert_int_equal(views[0].part[i].dim, views[(ep - 1) * tp].part[i].dim);
        }
        free(all);
        free(again);
        free(mine);
    }
}

static void experts_go_to_ranks_whole(void **state)
{
    static const struct {
        struct cs_test_spec spec;
        int experts;
    } rows[] = {
        {{.has_experts = true},              5},
        {{.llm_keys = CS_TEST_MIXTRAL},      6},
        {{.llm_keys = CS_TEST_QWEN3_VL_MOE}, 5},
        {{.is_qwen3 = true},                 0},
    };

    (void)state;
    for (size_t m = 0; m < sizeof rows / sizeof *rows; m++) {
        struct cs_arena *arena = cs_arena_new(0);
        json_t *root;
        const struct cs_graph *graph = cs_test_graph(&rows[m].spec, arena, &root);
        for (int ep = 2; ep <= 7; ep++)
            for (int tp = 1; tp <= 2; tp++) {
                struct cs_err err = {.text = ""};
                const enum cs_status status = cs_ep_check(graph, graph->llm, ep, &err);
                const bool may = ep <= rows[m].experts;
                if (may != (status == CS_OK))
                    fail_msg("model %zu, ep %d, tp %d: %s", m, ep, tp, err.text);
                if (may)
                    check_spread(graph, ep, tp, arena);
                else
                    assert_non_null(strstr(err.text, "plan.parallel.llm.ep"));
            }
        cs_arena_free(arena);
        json_decref(root);
    }
}

static void a_tower_is_cut_too(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root;
    struct cs_err err = {0};
    const struct cs_test_spec spec = {.vision_layers = 2};
    struct cs_tp_view views[2];
    (void)state;
    const struct cs_graph *graph = cs_test_graph(&spec, arena, &root);
    assert_int_equal(cs_tp_check(graph, 0, 2, &err), CS_OK);
    for (int r = 0; r < 2; r++) {
        struct cs_tp tp[8] = {
            {.ranks = 2, .at = r}
        };
        cs_tp_view_make(graph, tp, arena, &views[r]);
        check_shapes(&views[r], arena);
    }
    for (int32_t i = 0; i < graph->n_params; i++)
        if (graph->modules[graph->params[i].module].branch == 0)
            check_param(views, 2, i);
    cs_arena_free(arena);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_those_of_smaller_models),
        cmocka_unit_test(experts_go_to_ranks_whole),
        cmocka_unit_test(a_tower_is_cut_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
