/* The figures on the Plan screen are the simulator's, the planner's and the balancer's: read back
 * from the text and compared with what those say when asked directly. */
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

#include "console/dump.h"
#include "console/keys.h"
#include "console/view.h"
#include "core/base/str.h"
#include "core/sched/forecast.h"
#include "core/sched/predict.h"
#include "tests/support/replay.h"
#include "tests/support/tmpdir.h"

enum { COLS = 120, ROWS = 60, LINES = 64 };

struct fixture {
    struct cs_test_replay replay;
    char *dir;
    char trace[512];
    struct cs_buf text;
    char *line[LINES];
    int n_lines;
};

static void fixture_new(struct fixture **out, const struct cs_test_spec *spec)
{
    struct fixture *f = *out = calloc(1, sizeof *f);
    assert_non_null(f);
    cs_test_replay_new(&f->replay, spec, 2);
    f->dir = tmpdir_new();
    snprintf(f->trace, sizeof f->trace, "%s", cs_test_replay_write(&f->replay, f->dir));
}

static void fixture_free(struct fixture *f)
{
    cs_test_replay_free(&f->replay);
    cs_buf_free(&f->text);
    tmpdir_free(f->dir);
    free(f);
}

static int set_up(void **state)
{
    const struct cs_test_spec spec = cs_test_replay_spec();
    struct fixture *f = NULL;
    fixture_new(&f, &spec);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_free(*state);
    return 0;
}

static void show(struct fixture *f, const char *keys)
{
    struct cs_err err = {.text = ""};
    const struct cs_dump dump = {.trace = f->trace,
                                 .view = "plan",
                                 .keys = keys,
                                 .cols = COLS,
                                 .rows = ROWS,
                                 .glyphs = CS_GLYPHS_ASCII};
    cs_buf_reset(&f->text);
    f->n_lines = 0;
    if (cs_dump_replay(&dump, &f->text, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (char *at = strtok(f->text.data, "\n"); at && f->n_lines < LINES; at = strtok(NULL, "\n"))
        f->line[f->n_lines++] = at;
}

/* first line at or after `from` that holds the text */
static int find(const struct fixture *f, int from, const char *text)
{
    for (int i = from; i < f->n_lines; i++)
        if (strstr(f->line[i], text))
            return i;
    fail_msg("no line holds \"%s\"", text);
    return -1;
}

static double number_after(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    assert_non_null(at);
    return strtod(at + strlen(word), NULL);
}

/* the n-th number from the end of a line */
static double number_from_end(const char *line, int n)
{
    const char *at = line + strlen(line);
    for (int i = 0; i < n; i++) {
        while (at > line && at[-1] == ' ')
            at--;
        while (at > line && at[-1] != ' ')
            at--;
    }
    return strtod(at, NULL);
}

/* half a unit of the last digit shown is the most it may be off */
static void assert_near(double shown, double true_value, double unit)
{
    if (!(fabs(shown - true_value) <= unit * 0.5 + 1e-9))
        fail_msg("shown %.6f, computed %.6f", shown, true_value);
}

static double gib(int64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* What the simulator says of a plan under a schedule. */
static void forecast(const struct fixture *f, const struct cs_plan *plan, const char *schedule,
                     int32_t slots, struct cs_forecast *out)
{
    struct cs_err err = {.text = ""};
    struct cs_plan asked = *plan;
    struct cs_program *program = NULL;
    struct cs_device_class device = *cs_device_class_find("cpu");
    const struct cs_program_options how = {.n_slots = slots};
    const struct cs_sim_options sim = {.cost = cs_predict_cost, .user = &device};
    asked.schedule = schedule;
    if (cs_program_make_with(&asked, f->replay.graph, &how, f->replay.arena, &program, &err) !=
            CS_OK ||
        cs_forecast_program(program, &sim, 4, f->replay.arena, out, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static double mean_bubble(const struct cs_forecast *f)
{
    double sum = 0;
    for (int32_t s = 0; s < f->n_stages; s++)
        sum += f->stage[s].bubble;
    return sum / f->n_ranks;
}

static int64_t peak_bytes(const struct cs_forecast *f)
{
    int64_t most = 0;
    for (int32_t r = 0; r < f->n_ranks; r++)
        most = f->rank[r].peak_bytes > most ? f->rank[r].peak_bytes : most;
    return most;
}

static void check_summary(const struct fixture *f, const struct cs_forecast *c)
{
    const char *line = f->line[find(f, 0, " step ")];
    double ms = number_after(line, "step ");
    assert_near(ms, (double)c->makespan_ns / 1e6, ms > 100 ? 0.1 : 0.01);
    assert_near(number_after(line, "bubble "), 100 * mean_bubble(c), 0.1);
    assert_near(number_after(line, "peak "), gib(peak_bytes(c)), 0.0001);
}

static void the_timeline_is_the_simulators(void **state)
{
    struct fixture *f = *state;
    struct cs_forecast c;
    show(f, "t");
    forecast(f, f->replay.plan, "1f1b", f->replay.plan->slots, &c);
    assert_int_equal(c.makespan_ns, f->replay.predicted.makespan_ns);
    check_summary(f, &c);
    int at = find(f, 0, " rank stage");
    const char *axis = f->line[at];
    int first = (int)(strchr(axis, '0') - axis), width = (int)(strstr(axis, "ms ") - axis) - first;
    for (int32_t s = 0; s < c.n_stages; s++) {
        const char *line = f->line[at + 1 + s];
        int busy = 0;
        assert_non_null(strstr(line, c.stage[s].name));
        assert_near(number_from_end(line, 2), 100 * c.stage[s].bubble, 0.1);
        assert_near(number_from_end(line, 1), (double)c.stage[s].exposed_ns / 1e6, 0.01);
        for (int i = 0; i < width; i++)
            busy += line[first + i] != '.' && line[first + i] != '=';
        if (s > 0) /* the spans of stage 0 are shorter than a column */
            assert_in_range((int)fabs(busy - (1 - c.stage[s].bubble) * width), 0, 12);
    }
}

/* Every column of the row names a rank that computes there, or a message under way. */
static void the_path_row_is_the_critical_path(void **state)
{
    struct fixture *f = *state;
    struct cs_forecast c;
    int columns[8] = {0};
    show(f, "t");
    forecast(f, f->replay.plan, "1f1b", f->replay.plan->slots, &c);
    int at = find(f, 0, " rank stage");
    const char *axis = f->line[at], *row = f->line[find(f, at, " critical path  ")];
    int first = (int)(strchr(axis, '0') - axis), width = (int)(strstr(axis, "ms ") - axis) - first;
    for (int i = 0; i < width && row[first + i]; i++)
        if (row[first + i] >= '0' && row[first + i] <= '7')
            columns[row[first + i] - '0']++;
    for (int32_t r = 0; r < c.n_ranks; r++) {
        double ns = 0;
        for (int32_t i = 0; i < c.n_critical; i++) {
            const struct cs_forecast_step *step = &c.critical[i];
            const struct cs_forecast_action *a = &c.rank[step->rank].action[step->id];
            if (step->rank == r && cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE)
                ns += (double)(a->end_ns - a->start_ns);
        }
        double expected = ns / (double)c.makespan_ns * width;
        assert_in_range((int)fabs(columns[r] - expected), 0, 8);
    }
}

static void memory_adds_up_to_the_simulators_peak(void **state)
{
    struct fixture *f = *state;
    struct cs_forecast c;
    show(f, "m");
    forecast(f, f->replay.plan, "1f1b", f->replay.plan->slots, &c);
    int at = find(f, 0, " rank  stages");
    for (int32_t r = 0; r < c.n_ranks; r++) {
        double weights, grads, optimizer, activations, boundary, total;
        char name[32];
        int rank;
        assert_int_equal(sscanf(f->line[at + 1 + r], "%d %31s %lf %lf %lf %lf %lf %lf", &rank, name,
                                &weights, &grads, &optimizer, &activations, &boundary, &total),
                         8);
        const struct cs_stage *stage = &f->replay.plan->stages[r];
        assert_int_equal(rank, r);
        assert_string_equal(name, stage->name);
        assert_near(total, gib(c.rank[r].peak_bytes), 0.0001);
        assert_near(weights, gib(stage->weight_bytes), 0.0001);
        assert_near(grads, gib(stage->state_bytes / 3), 0.0001);
        assert_near(grads + optimizer, gib(stage->state_bytes), 0.0002);
        assert_near(weights + grads + optimizer + activations + boundary, total, 0.0006);
    }
}

static int row_of(const struct fixture *f, const char *name)
{
    int at = find(f, find(f, 0, "what if"), name);
    return at;
}

static void check_row(const struct fixture *f, const char *name, const struct cs_forecast *c,
                      double slots_ratio)
{
    const char *line = f->line[row_of(f, name)];
    double own_ns = (double)f->replay.predicted.makespan_ns;
    double ms = number_from_end(line, 4);
    assert_near(ms, (double)c->makespan_ns / 1e6, ms > 100 ? 0.1 : 0.01);
    assert_near(number_from_end(line, 3), 100 * ((double)c->makespan_ns / slots_ratio / own_ns - 1),
                0.1);
    assert_near(number_from_end(line, 2), 100 * mean_bubble(c), 0.1);
    assert_near(number_from_end(line, 1), gib(peak_bytes(c)), 0.0001);
}

static void what_if_rows_are_simulated_plans(void **state)
{
    struct fixture *f = *state;
    const struct cs_plan *plan = f->replay.plan;
    struct cs_forecast c;
    show(f, "w");
    forecast(f, plan, "1f1b", plan->slots, &c);
    check_row(f, "this plan", &c, 1);
    forecast(f, plan, "gpipe", plan->slots, &c);
    check_row(f, " gpipe", &c, 1);
    forecast(f, plan, "zb-h1", plan->slots, &c);
    check_row(f, " zb-h1", &c, 1);
    forecast(f, plan, "1f1b", 2 * plan->slots, &c);
    check_row(f, " 12 slots", &c, 2);
    assert_non_null(strstr(f->line[row_of(f, " zb-h2")], "6 slots on a path"));
}

/* A model whose cut depends on what is frozen: the first half of the llm needs no backward. */
static void the_other_cut_is_the_planners(void **state)
{
    struct fixture *f = NULL;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_plan *plan = NULL;
    struct cs_forecast c;
    struct cs_test_spec options = cs_test_replay_spec();
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 64};
    (void)state;
    options.rules = "train:* freeze:vision* freeze:llm.embed freeze:llm.layers.0-5";
    fixture_new(&f, &options);
    json_t *other = json_deep_copy(f->replay.spec);
    json_object_set_new(json_object_get(other, "plan"), "stages", json_string("frozen-blind"));
    if (cs_spec_read(other, f->replay.arena, &spec, &err) != CS_OK ||
        cs_plan_make(spec, f->replay.graph, &cluster, f->replay.arena, &plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_not_equal(plan->stages[1].n_layers, f->replay.plan->stages[1].n_layers);
    forecast(f, plan, "1f1b", plan->slots, &c);
    assert_true(c.makespan_ns > f->replay.predicted.makespan_ns * 11 / 10);
    show(f, "w");
    check_row(f, "frozen-blind cut", &c, 1);
    show(f, "t f");
    check_summary(f, &c);
    show(f, "t f f");
    forecast(f, f->replay.plan, "1f1b", plan->slots, &c);
    check_summary(f, &c);
    json_decref(other);
    fixture_free(f);
}

static void keys_change_the_preview_and_u_goes_back(void **state)
{
    struct fixture *f = *state;
    struct cs_forecast c;
    show(f, "t s"); /* 1f1b -> gpipe */
    forecast(f, f->replay.plan, "gpipe", f->replay.plan->slots, &c);
    check_summary(f, &c);
    find(f, 0, "[preview]");
    show(f, "t s ]");
    forecast(f, f->replay.plan, "gpipe", 2 * f->replay.plan->slots, &c);
    check_summary(f, &c);
    show(f, "t s ] u");
    forecast(f, f->replay.plan, "1f1b", f->replay.plan->slots, &c);
    check_summary(f, &c);
    find(f, 0, "[own plan]");
    show(f, "w j j j j Enter m"); /* the row of zb-h1 */
    forecast(f, f->replay.plan, "zb-h1", f->replay.plan->slots, &c);
    check_summary(f, &c);
}

/* Shown times of the listed actions add up to the step; each starts when the one before ends. */
static void the_path_list_is_a_chain_as_long_as_the_step(void **state)
{
    struct fixture *f = *state;
    double sum = 0, end = 0;
    int n = 0;
    show(f, "c");
    int at = find(f, 0, "start ms");
    for (int i = at + 1; i < f->n_lines; i++) {
        double start, takes;
        int number, rank;
        char idle[16];
        if (sscanf(f->line[i], "%d %lf %lf %15s %d", &number, &start, &takes, idle, &rank) != 5)
            break;
        assert_int_equal(number, ++n);
        assert_near(start, end, 0.3);
        end = start + takes;
        sum += takes;
    }
    assert_int_equal(n, (int)number_after(f->line[at - 1], " "));
    assert_near(sum, (double)f->replay.predicted.makespan_ns / 1e6, 0.5);
}

static double bubble_on(struct cs_store *store, struct cs_screen *screen, enum cs_view view)
{
    struct cs_buf text = {0};
    struct cs_canvas *canvas = cs_canvas_new(120, 30);
    screen->view = view;
    while (cs_screen_prepare(store, screen))
        ;
    cs_screen_draw(store, screen, canvas);
    cs_canvas_text(canvas, &text);
    double bubble = number_after(cs_buf_str(&text), "bubble ");
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
    while (cs_screen_prepare(store, &screen))
        ;
    const struct cs_preview *p = &store->previews.preview;
    assert_string_equal(p->error, "");
    assert_true(p->made.is_own);
    assert_int_equal(p->forecast.makespan_ns, store->predicted.spans.makespan_ns);
    assert_int_equal(store->previews.whatif.row[0].step_ns, p->forecast.makespan_ns);
    double elsewhere = bubble_on(store, &screen, CS_VIEW_PIPELINE);
    assert_near(bubble_on(store, &screen, CS_VIEW_PLAN), elsewhere, 0.1);
    for (int i = 0; cs_variant_schedule(i); i++) {
        assert_int_equal(cs_screen_keys(&screen, store, "s", &err), CS_OK);
        while (cs_screen_prepare(store, &screen))
            ;
        if (p->error[0])
            assert_non_null(strstr(p->error, "schedule ")); /* refused in words */
        else
            assert_int_equal(p->forecast.n_ranks, store->model.plan->n_ranks);
    }
    assert_string_equal(screen.variant.schedule, schedule);
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
    struct fixture *f = *state;
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
    forecast(f, plan, "three-phase", plan->slots, &c);
    show(f, "w j j j j j j j Enter t");
    int at = find(f, 0, " rank stage");
    for (int32_t r = 0; r < c.n_ranks; r++) {
        double busy = 0;
        for (int32_t s = 0; s < c.n_stages; s++)
            busy += c.stage[s].rank == r ? (double)c.stage[s].busy_ns : 0;
        const char *line = f->line[at + 1 + r];
        assert_near(number_from_end(line, 2), 100 * (1 - busy / (double)c.makespan_ns), 0.1);
        assert_non_null(strstr(line, " +1"));
    }
    assert_non_null(strstr(f->line[at + 1 + c.n_ranks], " critical path"));
    show(f, "w j j j j j j j Enter t a"); /* every stage */
    assert_non_null(strstr(f->line[find(f, 0, " rank stage") + 2 * c.n_ranks], " llm.3"));
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
    struct fixture *f = *state;
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
            m->row[row][op] = (struct cs_measured_cost){20, 20 * (900 + 70 * row)};
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

/* --- balance -----------------------------------------------------------------------------------
 */

static void check_rule(const struct fixture *f, const struct cs_batch *b, enum cs_balance_how how)
{
    const struct cs_batch_rule *rule = &b->rule[how];
    char name[32];
    snprintf(name, sizeof name, " %s ", cs_balance_how_name(how));
    const char *line = f->line[find(f, find(f, 0, "max/mean"), name)];
    double slot, batch;
    assert_int_equal(sscanf(strstr(line, name) + strlen(name), "%lf %lf", &slot, &batch), 2);
    assert_near(slot, rule->slot_ratio, 0.001);
    assert_near(batch, rule->batch_ratio, 0.001);
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
    struct fixture *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_batch batch = {0};
    const struct cs_batch_want want = {.ranks = 6, .slot = 1, .mask = CS_MASK_FULL};
    show(f, "b + + l r");
    assert_int_equal(cs_spec_read(f->replay.spec, f->replay.arena, &spec, &err), CS_OK);
    cs_batch_make(&batch, spec, f->replay.graph, &f->replay.plan->budget, f->replay.plan->slots,
                  &want);
    assert_string_equal(batch.error, "");
    find(f, 0, "mask full");
    find(f, 0, "slot 2 of 6");
    for (int how = 0; how < CS_BALANCE_HOWS; how++)
        check_rule(f, &batch, (enum cs_balance_how)how);
    check_loads(&batch, f->replay.arena);
    int bars = find(f, 0, "uniform, slot 2");
    for (int32_t r = 0; r < want.ranks; r++) {
        int rank;
        double load;
        assert_int_equal(sscanf(f->line[bars + 1 + r], " r%d %lf", &rank, &load), 2);
        assert_int_equal(rank, r);
        const struct cs_batch_rule *rule = &batch.rule[CS_BALANCE_UNIFORM];
        assert_near(load, rule->load[r] / rule->mean, 0.001);
    }
    cs_batch_clear(&batch);
}

/* Over the batch every slot waits for its own fullest rank. */
static void the_batch_waits_for_the_fullest_rank_of_every_slot(void **state)
{
    struct fixture *f = *state;
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
    struct fixture *f = *state;
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

/* --- hundreds of ranks, one stage each ---------------------------------------------------------
 */

struct big {
    struct cs_arena *arena;
    json_t *spec, *plan_json;
    struct cs_plan *plan;
    struct cs_store *store;
};

/* an LLM with a stage per block, and an encoder */
static void big_new(struct big *b)
{
    struct cs_err err = {.text = ""};
    const struct cs_test_spec options = {.llm_layers = 600, .llm_pp = 600, .slots = 8};
    const struct cs_cluster cluster = {cs_device_class_find("h100-80g"), 512, 8};
    struct cs_spec *spec = NULL;
    *b = (struct big){.arena = cs_arena_new(0), .store = cs_store_new()};
    struct cs_graph *graph = cs_test_graph(&options, b->arena, &b->spec);
    json_object_set_new(json_object_get(b->spec, "plan"), "cluster",
                        json_pack("{s:s,s:i}", "preset", "h100x8", "nodes", 512));
    if (cs_spec_read(b->spec, b->arena, &spec, &err) != CS_OK ||
        cs_plan_make(spec, graph, &cluster, b->arena, &b->plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    b->plan_json = cs_plan_json(b->plan, graph);
    cs_store_select(b->store, 1);
    cs_store_connected(b->store, true);
    cs_store_documents(b->store, b->spec, b->plan_json);
    assert_string_equal(b->store->model_error, "");
}

static void big_free(struct big *b)
{
    cs_store_free(b->store);
    json_decref(b->spec);
    json_decref(b->plan_json);
    cs_arena_free(b->arena);
}

static void draw(struct big *b, const char *keys, struct cs_buf *out)
{
    struct cs_err err = {.text = ""};
    struct cs_screen screen;
    struct cs_canvas *canvas = cs_canvas_new(100, 30);
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    screen.view = CS_VIEW_PLAN;
    assert_int_equal(cs_screen_keys(&screen, b->store, keys, &err), CS_OK);
    while (cs_screen_prepare(b->store, &screen))
        ;
    cs_screen_draw(b->store, &screen, canvas);
    cs_buf_reset(out);
    cs_canvas_text(canvas, out);
    cs_canvas_free(canvas);
}

static void long_pipelines_are_shown_in_groups(void **state)
{
    struct big b;
    struct cs_buf text = {0};
    (void)state;
    big_new(&b);
    draw(&b, "t", &text);
    assert_non_null(strstr(cs_buf_str(&text), "601 stages, "));
    assert_non_null(strstr(cs_buf_str(&text), "a row (a: each)"));
    draw(&b, "t a", &text); /* each */
    assert_non_null(strstr(cs_buf_str(&text), " 0 vision.0 "));
    assert_non_null(strstr(cs_buf_str(&text), "stages 0-"));
    draw(&b, "t a G", &text);
    assert_non_null(strstr(cs_buf_str(&text), " 600 llm.599 "));
    draw(&b, "m", &text);
    assert_non_null(strstr(cs_buf_str(&text), "601 ranks, "));
    assert_non_null(strstr(cs_buf_str(&text), "80.0 GiB of a h100-80g"));
    draw(&b, "w", &text); /* what would take long says so */
    assert_non_null(strstr(cs_buf_str(&text), "too many to search here"));
    draw(&b, "t ] ] ] ] ] ] ]", &text);
    assert_non_null(strstr(cs_buf_str(&text), "601 stages with 1024 slots are too many"));
    cs_buf_free(&text);
    big_free(&b);
}

/* A group's bubble is the mean of its stages'; its memory that of the fullest. */
static void groups_show_means_and_maxima(void **state)
{
    struct big b;
    struct cs_buf text = {0};
    (void)state;
    big_new(&b);
    draw(&b, "t", &text);
    const struct cs_forecast *f = &b.store->previews.preview.forecast;
    const char *note = strstr(cs_buf_str(&text), "601 stages, ");
    int per = (int)strtol(note + strlen("601 stages, "), NULL, 10);
    const char *row = strstr(cs_buf_str(&text), "\n 0 vision.0");
    double bubble = 0;
    assert_non_null(row);
    for (int32_t s = 0; s < per; s++)
        bubble += f->stage[s].bubble / per;
    char line[256] = "";
    snprintf(line, sizeof line, "%.*s", (int)strcspn(row + 1, "\n"), row + 1);
    assert_near(number_from_end(line, 1), 100 * bubble, 0.1);
    cs_buf_free(&text);
    big_free(&b);
}

/* On devices of a size: what needs more can be looked at, and is marked everywhere. */
static void what_does_not_fit_is_marked(void **state)
{
    struct cs_err err = {.text = ""};
    struct cs_buf text = {0};
    const struct cs_test_spec options = {.vision_layers = 4,
                                         .llm_layers = 24,
                                         .llm_width = 4096,
                                         .llm_pp = 4,
                                         .slots = 32,
                                         .seq_tokens = 8192};
    struct big b = {.store = cs_store_new()};
    json_t *spec = cs_test_spec_json(&options);
    (void)state;
    json_object_set_new(json_object_get(spec, "plan"), "cluster",
                        json_pack("{s:s}", "preset", "h100x8"));
    if (cs_store_script(b.store, spec, &err) != CS_OK)
        fail_msg("%s", err.text);
    draw(&b, "w j j", &text); /* gpipe keeps every slot */
    const char *row = strstr(cs_buf_str(&text), "gpipe");
    assert_non_null(row);
    assert_true(memchr(row, '!', strcspn(row, "\n")) != NULL);
    assert_non_null(strstr(cs_buf_str(&text), "! does not fit"));
    const struct cs_whatif *w = &b.store->previews.whatif;
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->row[i].name, "gpipe") == 0)
            assert_true(w->row[i].peak_bytes > b.store->model.device->mem_bytes);
    assert_true(w->row[0].peak_bytes < b.store->model.device->mem_bytes);
    draw(&b, "m s", &text);
    assert_non_null(strstr(cs_buf_str(&text), "does not fit: "));
    const struct cs_preview *p = &b.store->previews.preview;
    char where[64];
    snprintf(where, sizeof where, "GiB on rank %d", p->peak_rank);
    assert_true(p->peak_rank > 0 && strstr(cs_buf_str(&text), where) != NULL);
    draw(&b, "w j j j j j j j", &text); /* three-phase */
    assert_non_null(strstr(cs_buf_str(&text), "workers do not run such plans yet"));
    draw(&b, "w j j j", &text); /* interleaved */
    assert_null(strstr(cs_buf_str(&text), "workers do not run such plans yet"));
    cs_buf_free(&text);
    cs_store_free(b.store);
    json_decref(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timeline_is_the_simulators),
        cmocka_unit_test(the_path_row_is_the_critical_path),
        cmocka_unit_test(memory_adds_up_to_the_simulators_peak),
        cmocka_unit_test(what_if_rows_are_simulated_plans),
        cmocka_unit_test(the_other_cut_is_the_planners),
        cmocka_unit_test(keys_change_the_preview_and_u_goes_back),
        cmocka_unit_test(the_path_list_is_a_chain_as_long_as_the_step),
        cmocka_unit_test(shared_ranks_have_a_row_each),
        cmocka_unit_test(reasons_of_the_critical_path_are_true),
        cmocka_unit_test(jobs_of_every_schedule_are_previewed),
        cmocka_unit_test(balance_shows_what_the_balancer_says),
        cmocka_unit_test(the_batch_waits_for_the_fullest_rank_of_every_slot),
        cmocka_unit_test(a_drawn_batch_fills_its_slot_within_the_budgets),
        cmocka_unit_test(long_pipelines_are_shown_in_groups),
        cmocka_unit_test(what_does_not_fit_is_marked),
        cmocka_unit_test(groups_show_means_and_maxima),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
