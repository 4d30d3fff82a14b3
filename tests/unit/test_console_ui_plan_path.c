/* The Plan screen of every schedule: a job is previewed as it is, shared ranks have one row, and
 * the critical path is a chain whose reasons hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "console/views/state/view.h"
#include "core/base/str.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "tests/support/plan_screen.h"

/* Shown times of the listed actions add up to the step; each starts when the one before ends. */
static void the_path_list_is_a_chain_as_long_as_the_step(void **state)
{
    struct plan_screen *f = *state;
    double sum = 0, end = 0;
    int n = 0;
    plan_screen_show(f, "c");
    int at = plan_screen_find(f, 0, "start ms");
    for (int i = at + 1; i < f->n_lines; i++) {
        double start, takes;
        int number, rank;
        char idle[16];
        if (sscanf(f->line[i], "%d %lf %lf %15s %d", &number, &start, &takes, idle, &rank) != 5)
            break;
        assert_int_equal(number, ++n);
        assert_shown(start, end, 0.3);
        end = start + takes;
        sum += takes;
    }
    assert_int_equal(n, (int)shown_after(f->line[at - 1], " "));
    assert_shown(sum, (double)f->replay.predicted.makespan_ns / 1e6, 0.5);
}

static double bubble_on(struct cs_store *store, struct cs_screen *screen, enum cs_view view)
{
    struct cs_buf text = {0};
    struct cs_canvas *canvas = cs_canvas_new(120, 30);
    screen->view = view;
    while (cs_screen_prepare(screen, store))
        ;
    cs_screen_draw(store, screen, canvas);
    cs_canvas_text(canvas, &text);
    double bubble = shown_after(cs_buf_str(&text), "bubble ");
    cs_buf_free(&text);
    cs_canvas_free(canvas);
    return bubble;
}

/* A job of any schedule is previewed as it is, and cycling through all schedules ends there. */
static void check_own_schedule(const char *schedule, const char *modality, int pp)
{
    struct cs_err err = {.text = ""};
    const struct cs_test_spec options = {.vision_layers = 6,
                                         .llm_layers = 12,
                                         .vision_pp = pp,
                                         .llm_pp = 3,
                                         .slots = 8,
                                         .modality = modality};
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 64};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_store *store = cs_store_new();
    struct cs_screen screen;
    struct cs_plan *plan = NULL;
    struct cs_spec *read = NULL;
    json_t *spec = NULL;
    struct cs_graph *graph = cs_test_graph(&options, arena, &spec);
    assert_int_equal(cs_spec_read(spec, arena, &read, &err), CS_OK);
    read->schedule = schedule; /* whether or not jobs may ask for it yet */
    if (cs_plan_make(read, graph, &cluster, arena, &plan, &err) != CS_OK)
        fail_msg("%s: %s", schedule, err.text);
    json_t *json = cs_plan_json(plan, graph);
    cs_store_select(store, 1);
    cs_store_documents(store, spec, json);
    assert_string_equal(store->model_error, "");
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    screen.view = CS_VIEW_PLAN;
    screen.plan_part = CS_PLAN_WHATIF;
    while (cs_screen_prepare(&screen, store))
        ;
    const struct cs_preview *p = &screen.previews->preview;
    assert_string_equal(p->error, "");
    assert_true(p->made.is_own);
    assert_int_equal(p->forecast.makespan_ns, store->predicted.spans.makespan_ns);
    assert_int_equal(screen.previews->whatif.row[0].step_ns, p->forecast.makespan_ns);
    double elsewhere = bubble_on(store, &screen, CS_VIEW_PIPELINE);
    assert_shown(bubble_on(store, &screen, CS_VIEW_PLAN), elsewhere, 0.1);
    for (int i = 0; cs_variant_schedule(i); i++) {
        assert_int_equal(cs_screen_keys(&screen, store, "s", &err), CS_OK);
        while (cs_screen_prepare(&screen, store))
            ;
        if (p->error[0])
            assert_non_null(strstr(p->error, "schedule ")); /* refused in words */
        else
            assert_int_equal(p->forecast.n_ranks, store->model.plan->n_ranks);
    }
    assert_string_equal(screen.variant.schedule, schedule);
    cs_screen_free(&screen);
    cs_store_free(store);
    json_decref(spec);
    json_decref(json);
    cs_arena_free(arena);
}

static void jobs_of_every_schedule_are_previewed(void **state)
{
    (void)state;
    check_own_schedule("gpipe", "encoder-parallel", 2);
    check_own_schedule("interleaved", "encoder-parallel", 1);
    check_own_schedule("zb-h1", "encoder-parallel", 1);
    check_own_schedule("1f1b", "encoder-colocated", 3);
    check_own_schedule("three-phase", "encoder-colocated", 1);
    check_own_schedule("anchors", "encoder-colocated", 1);
}

/* Where stages share ranks a row is a rank, with all that its stages do. */
static void shared_ranks_have_a_row_each(void **state)
{
    struct plan_screen *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_plan *plan = NULL;
    struct cs_forecast c;
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 64};
    assert_int_equal(cs_spec_read(f->replay.spec, f->replay.arena, &spec, &err), CS_OK);
    spec->schedule = "three-phase";
    spec->modality = "encoder-colocated";
    for (int32_t i = 0; i < spec->n_parallel; i++)
        spec->parallel[i].pp = strcmp(spec->parallel[i].branch, "llm") == 0 ? 4 : 1;
    assert_int_equal(cs_plan_make(spec, f->replay.graph, &cluster, f->replay.arena, &plan, &err),
                     CS_OK);
    plan_screen_forecast(f, plan, "three-phase", plan->slots, &c);
    plan_screen_show(f, "w j j j j j j j Enter t");
    int at = plan_screen_find(f, 0, " rank stage");
    for (int32_t r = 0; r < c.n_ranks; r++) {
        double busy = 0;
        for (int32_t s = 0; s < c.n_stages; s++)
            busy += c.stage[s].rank == r ? (double)c.stage[s].busy_ns : 0;
        const char *line = f->line[at + 1 + r];
        assert_shown(shown_from_end(line, 2), 100 * (1 - busy / (double)c.makespan_ns), 0.1);
        assert_non_null(strstr(line, " +1"));
    }
    assert_non_null(strstr(f->line[at + 1 + c.n_ranks], " critical path"));
    plan_screen_show(f, "w j j j j j j j Enter t a"); /* every stage */
    assert_non_null(
        strstr(f->line[plan_screen_find(f, 0, " rank stage") + 2 * c.n_ranks], " llm.3"));
}

/* How long a rank computed nothing before a time, from all its actions. */
static int64_t idle_before(const struct cs_forecast *f, int32_t rank, int64_t start_ns)
{
    int64_t last_ns = 0;
    for (uint32_t i = 0; i < f->rank[rank].n_actions; i++) {
        const struct cs_forecast_action *a = &f->rank[rank].action[i];
        bool is_compute = cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE;
        if (is_compute && a->start_ns < start_ns && a->end_ns > last_ns && a->end_ns > a->start_ns)
            last_ns = a->end_ns;
    }
    return start_ns - last_ns;
}

static void check_link(const struct cs_preview *p, int32_t i, int32_t cores)
{
    const struct cs_preview_link *link = &p->link[i];
    const struct cs_forecast_action *a = cs_preview_action(p, i);
    bool is_compute = cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE;
    assert_int_equal(link->idle_ns,
                     is_compute ? idle_before(&p->forecast, link->rank, a->start_ns) : 0);
    if (i == 0) {
        assert_int_equal(link->why, CS_WHY_FIRST);
        return;
    }
    const struct cs_forecast_action *b = cs_preview_action(p, i - 1);
    bool was_compute = cs_op_stream((enum cs_op)b->op) == CS_STREAM_COMPUTE;
    assert_int_equal(a->start_ns, b->end_ns);
    switch (link->why) {
    case CS_WHY_FIRST:
        fail_msg("link %d is not the first", i);
        break;
    case CS_WHY_BUSY:
        assert_true(is_compute && was_compute && link->rank == p->link[i - 1].rank);
        break;
    case CS_WHY_MESSAGE:
        assert_int_equal(b->op, CS_OP_SEND);
        assert_int_equal(b->peer, link->rank);
        assert_true(is_compute);
        break;
    case CS_WHY_SENT:
        assert_int_equal(a->op, CS_OP_SEND);
        assert_int_equal(p->link[i - 1].rank, link->rank);
        break;
    case CS_WHY_MEETING: /* a sum over ranks, or what comes after one */
        assert_true((!is_compute && a->op != CS_OP_SEND) || (!was_compute && b->op != CS_OP_SEND));
        break;
    case CS_WHY_CORE:
        assert_true(cores > 0 && is_compute && was_compute && link->rank != p->link[i - 1].rank);
        break;
    }
}

static void reasons_of_the_critical_path_are_true(void **state)
{
    struct plan_screen *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_preview preview = {0};
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 64};
    struct cs_arena *arena = f->replay.arena;
    const struct cs_plan *plan = f->replay.plan;
    int32_t n_cores = 0;
    assert_int_equal(cs_spec_read(f->replay.spec, arena, &spec, &err), CS_OK);
    struct cs_measured *m = cs_measured_new(plan->n_stages, plan->n_ranks, cluster.device, arena);
    for (int32_t row = 0; row < plan->n_stages; row++)
        for (int op = CS_OP_FWD; op <= CS_OP_BWD; op++)
            m->row[row][op] = (struct cs_measured_cost){.n = 20, .cpu_us = 20 * (900 + 70 * row)};
    for (int32_t cores = 0; cores <= 2; cores++) {
        struct cs_variant_base base = {.spec = spec,
                                       .graph = f->replay.graph,
                                       .cluster = &cluster,
                                       .plan = plan,
                                       .measured = cores > 0 ? m : NULL,
                                       .cores = cores};
        if (cores > 0)
            cs_variant_stretch(&base, arena);
        for (int s = 0; cs_variant_schedule(s); s++) {
            struct cs_variant variant = cs_variant_own(&base);
            cs_variant_set_schedule(&base, cs_variant_schedule(s), &variant);
            variant.slots = 12;
            cs_preview_make(&preview, &base, &variant);
            assert_string_equal(preview.error, "");
            assert_true(preview.n_links > 10);
            for (int32_t i = 0; i < preview.n_links; i++) {
                check_link(&preview, i, cores);
                n_cores += preview.link[i].why == CS_WHY_CORE;
            }
        }
    }
    assert_true(n_cores > 0);
    cs_preview_clear(&preview);
}

/* A job that says nothing of chunks has the usual two; other schedules have none, whatever is said. */
static void chunks_that_nobody_named_are_the_usual_ones(void **state)
{
    static const struct {
        const char *schedule;
        int32_t one, other;
        bool is_equal;
    } rows[] = {
        {"interleaved", 0, 2, true },
        {"interleaved", 0, 4, false},
        {"interleaved", 2, 4, false},
        {"interleaved", 4, 4, true },
        {"1f1b",        0, 2, true },
        {"1f1b",        0, 1, true },
    };
    const struct cs_graph graph = {.n_branches = 1, .llm = 0};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_variant a = {.slots = 4, .modality = "encoder-parallel", .pp = {2}};
        a.layout = (struct cs_layout){.n_branches = 1, .dp = 1};
        a.layout.branch[0] = (struct cs_branch_layout){.tp = 1, .cp = 1, .pp = 2};
        cs_str_copy(a.schedule, sizeof a.schedule, rows[i].schedule);
        struct cs_variant b = a;
        a.layout.branch[0].vpp = rows[i].one;
        b.layout.branch[0].vpp = rows[i].other;
        assert_int_equal(cs_variant_is_equal(&a, &b, &graph), rows[i].is_equal);
        assert_int_equal(cs_variant_is_equal(&b, &a, &graph), rows[i].is_equal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_list_is_a_chain_as_long_as_the_step),
        cmocka_unit_test(shared_ranks_have_a_row_each),
        cmocka_unit_test(reasons_of_the_critical_path_are_true),
        cmocka_unit_test(chunks_that_nobody_named_are_the_usual_ones),
        cmocka_unit_test(jobs_of_every_schedule_are_previewed),
    };
    return cmocka_run_group_tests(tests, plan_screen_set_up, plan_screen_tear_down);
}
