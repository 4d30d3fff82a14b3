/* The figures on the Plan screen (timeline, memory, what if) are the simulator's and the planner's:
 * read back from the text and compared with what those say when asked directly; also of hundreds
 * of stages and of plans that do not fit. */
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

#include "console/screen/dump.h"
#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "console/views/state/view.h"
#include "console/whatif/whatif.h"
#include "core/base/str.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "core/search/search.h"
#include "tests/support/plan_screen.h"

static double gib(int64_t bytes)
{
    return (double)bytes / (1 << 30);
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
        most = cs_rank_needs_bytes(&f->rank[r].needs) > most
                   ? cs_rank_needs_bytes(&f->rank[r].needs)
                   : most;
    return most;
}

static void check_summary(const struct plan_screen *f, const struct cs_forecast *c)
{
    const char *line = f->line[plan_screen_find(f, 0, " step ")];
    double ms = shown_after(line, "step ");
    assert_shown(ms, (double)c->makespan_ns / 1e6, ms > 100 ? 0.1 : 0.01);
    assert_shown(shown_after(line, "bubble "), 100 * mean_bubble(c), 0.1);
    assert_shown(shown_after(line, "peak "), gib(peak_bytes(c)), 0.0001);
}

static void the_timeline_is_the_simulators(void **state)
{
    struct plan_screen *f = *state;
    struct cs_forecast c;
    plan_screen_show(f, "t");
    plan_screen_forecast(f, f->replay.plan, "1f1b", f->replay.plan->slots, &c);
    assert_int_equal(c.makespan_ns, f->replay.predicted.makespan_ns);
    check_summary(f, &c);
    int at = plan_screen_find(f, 0, " rank stage");
    const char *axis = f->line[at];
    int first = (int)(strchr(axis, '0') - axis), width = (int)(strstr(axis, "ms ") - axis) - first;
    for (int32_t s = 0; s < c.n_stages; s++) {
        const char *line = f->line[at + 1 + s];
        int busy = 0;
        assert_non_null(strstr(line, c.stage[s].name));
        assert_shown(shown_from_end(line, 2), 100 * c.stage[s].bubble, 0.1);
        assert_shown(shown_from_end(line, 1), (double)c.stage[s].exposed_ns / 1e6, 0.01);
        for (int i = 0; i < width; i++)
            busy += line[first + i] != '.' && line[first + i] != '=';
        if (s > 0) /* the spans of stage 0 are shorter than a column */
            assert_in_range((int)fabs(busy - (1 - c.stage[s].bubble) * width), 0, 12);
    }
}

/* Every column of the row names a rank that computes there, or a message under way. */
static void the_path_row_is_the_critical_path(void **state)
{
    struct plan_screen *f = *state;
    struct cs_forecast c;
    int columns[8] = {0};
    plan_screen_show(f, "t");
    plan_screen_forecast(f, f->replay.plan, "1f1b", f->replay.plan->slots, &c);
    int at = plan_screen_find(f, 0, " rank stage");
    const char *axis = f->line[at], *row = f->line[plan_screen_find(f, at, " critical path  ")];
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

static void memory_adds_up_to_what_ranks_need(void **state)
{
    struct plan_screen *f = *state;
    struct cs_forecast c;
    plan_screen_show(f, "m");
    plan_screen_forecast(f, f->replay.plan, "1f1b", f->replay.plan->slots, &c);
    int at = plan_screen_find(f, 0, " rank  stages");
    for (int32_t r = 0; r < c.n_ranks; r++) {
        double weights, grads, optimizer, activations, work, boundary, total;
        char name[32];
        int rank;
        assert_int_equal(sscanf(f->line[at + 1 + r], "%d %31s %lf %lf %lf %lf %lf %lf %lf", &rank,
                                name, &weights, &grads, &optimizer, &activations, &work, &boundary,
                                &total),
                         9);
        const struct cs_stage *stage = &f->replay.plan->stages[r];
        assert_int_equal(rank, r);
        assert_string_equal(name, stage->name);
        assert_shown(total, gib(cs_rank_needs_bytes(&c.rank[r].needs)), 0.0001);
        assert_shown(weights, gib(stage->weight_bytes), 0.0001);
        assert_shown(grads, gib(stage->state_bytes / 3), 0.0001);
        assert_shown(grads + optimizer, gib(stage->state_bytes), 0.0002);
        assert_shown(weights + grads + optimizer + activations + work + boundary, total, 0.0007);
    }
}

static int row_of(const struct plan_screen *f, const char *name)
{
    int at = plan_screen_find(f, plan_screen_find(f, 0, "what if"), name);
    return at;
}

static void check_row(const struct plan_screen *f, const char *name, const struct cs_forecast *c,
                      double slots_ratio)
{
    const char *line = f->line[row_of(f, name)];
    double own_ns = (double)f->replay.predicted.makespan_ns;
    double ms = shown_from_end(line, 4);
    assert_shown(ms, (double)c->makespan_ns / 1e6, ms > 100 ? 0.1 : 0.01);
    assert_shown(shown_from_end(line, 3), 100 * ((double)c->makespan_ns / slots_ratio / own_ns - 1),
                 0.1);
    assert_shown(shown_from_end(line, 2), 100 * mean_bubble(c), 0.1);
    assert_shown(shown_from_end(line, 1), gib(peak_bytes(c)), 0.0001);
}

static void what_if_rows_are_simulated_plans(void **state)
{
    struct plan_screen *f = *state;
    const struct cs_plan *plan = f->replay.plan;
    struct cs_forecast c;
    plan_screen_show(f, "w");
    plan_screen_forecast(f, plan, "1f1b", plan->slots, &c);
    check_row(f, "this plan", &c, 1);
    plan_screen_forecast(f, plan, "gpipe", plan->slots, &c);
    check_row(f, " gpipe", &c, 1);
    plan_screen_forecast(f, plan, "zb-h1", plan->slots, &c);
    check_row(f, " zb-h1", &c, 1);
    plan_screen_forecast(f, plan, "1f1b", 2 * plan->slots, &c);
    check_row(f, " 12 slots", &c, 2);
    assert_non_null(strstr(f->line[row_of(f, " zb-h2")], "6 slots on a path"));
}

/* A model whose cut depends on what is frozen: the first half of the llm needs no backward. */
static void the_other_cut_is_the_planners(void **state)
{
    struct plan_screen *f = NULL;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_plan *plan = NULL;
    struct cs_forecast c;
    struct cs_test_spec options = cs_test_replay_spec();
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 64};
    (void)state;
    options.rules = "train:* freeze:vision* freeze:llm.embed freeze:llm.layers.0-5";
    plan_screen_new(&f, &options);
    json_t *other = json_deep_copy(f->replay.spec);
    json_object_set_new(json_object_get(other, "plan"), "stages", json_string("frozen-blind"));
    if (cs_spec_read(other, f->replay.arena, &spec, &err) != CS_OK ||
        cs_plan_make(spec, f->replay.graph, &cluster, f->replay.arena, &plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_not_equal(plan->stages[1].n_layers, f->replay.plan->stages[1].n_layers);
    plan_screen_forecast(f, plan, "1f1b", plan->slots, &c);
    assert_true(c.makespan_ns > f->replay.predicted.makespan_ns * 11 / 10);
    plan_screen_show(f, "w");
    check_row(f, "frozen-blind cut", &c, 1);
    plan_screen_show(f, "t f");
    check_summary(f, &c);
    plan_screen_show(f, "t f f");
    plan_screen_forecast(f, f->replay.plan, "1f1b", plan->slots, &c);
    check_summary(f, &c);
    json_decref(other);
    plan_screen_free(f);
}

/* What the search finds is told as the job that it would be, with its contexts and replicas, and can be
 * looked at. */
static void searched_plans_are_those_of_jobs(void **state)
{
    struct plan_screen *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    struct cs_search_result found;
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    assert_int_equal(cs_spec_read(f->replay.spec, f->replay.arena, &spec, &err), CS_OK);
    const struct cs_search_options options = {.batch_slots = spec->slots, .top = 16};
    if (cs_search(spec, f->replay.graph, &cluster, NULL, &options, f->replay.arena, &found, &err) !=
        CS_OK)
        fail_msg("%s", err.text);
    bool has_context = false, has_replicas = false;
    plan_screen_show(f, "w");
    const struct cs_search_plan *first = NULL;
    int n = 0;
    for (int32_t i = 0; i < found.n_plans && n < 5; i++) {
        const struct cs_search_plan *plan = &found.plan[i];
        char name[32];
        if (!plan->runs)
            continue;
        first = first ? first : plan;
        snprintf(name, sizeof name, "search: no. %d", ++n);
        const char *line = f->line[row_of(f, name)];
        const double ms = shown_from_end(line, 4);
        assert_shown(ms, (double)plan->job.step_ns / 1e6, ms > 100 ? 0.1 : 0.01);
        assert_shown(shown_from_end(line, 2), 100 * plan->job.bubble, 0.1);
        assert_shown(shown_from_end(line, 1), gib(plan->job.peak_bytes), 0.0001);
        assert_shown(shown_from_end(line, 5), plan->n_ranks, 1);
        has_context = has_context || plan->layout.branch[plan->layout.llm].cp > 1;
        has_replicas = has_replicas || plan->layout.dp > 1;
    }
    assert_true(n > 1 && has_context && has_replicas); /* else this shows little */
    char keys[128] = "w", groups[64];
    for (int at = row_of(f, "search: no. 1") - row_of(f, "*this plan"); at > 0; at--)
        strcat(keys, " j");
    strcat(keys, " Enter t");
    plan_screen_show(f, keys);
    const char *line = f->line[plan_screen_find(f, 0, " step ")];
    const double ms = shown_after(line, "step ");
    assert_shown(ms, (double)first->job.step_ns / 1e6, ms > 100 ? 0.1 : 0.01);
    assert_shown(shown_after(line, "bubble "), 100 * first->job.bubble, 0.1);
    snprintf(groups, sizeof groups, "%d replicas, ", first->layout.dp);
    assert_true(first->layout.dp == 1 || strstr(line, groups) != NULL);
    plan_screen_find(f, 0, "[preview]");
    plan_screen_show(f, strcat(keys, " u"));
    plan_screen_find(f, 0, "[own plan]");
}

/* nanoseconds that are the same at any number of rows */
static json_t *costs_of(const char *kind, double fwd, double bwd)
{
    return json_pack("{s:s s:s s:i s:i s:[i,i,f] s:[i,i,f] s:[i,i,f]}", "module", "llm", "kind",
                     kind, "tp", 1, "cp", 1, "fwd", 0, 0, fwd, "bwd_input", 0, 0, bwd, "bwd_weight",
                     0, 0, bwd);
}

/* A job whose script has a profile is searched at its costs, as it was planned: of layers that take no time
 * other plans are the best than of those of a roofline. */
static void the_search_has_the_costs_of_the_profile(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 8, .slots = 8};
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {.text = ""};
    struct cs_search_result at_profile, at_roofline;
    struct cs_profile *profile = NULL;
    struct cs_spec *spec = NULL;
    struct cs_plan *plan = NULL;
    struct cs_whatif w;
    char key[65];
    json_t *first = NULL, *root = cs_test_spec_json(&options);
    const struct cs_graph *graph = cs_test_graph(&options, arena, &first);
    (void)state;
    cs_profile_key(graph, cluster.device, key);
    json_object_set_new(json_object_get(root, "plan"), "profile",
                        json_pack("{s:s s:s s:s s:[o,o,o]}", "schema", "cornstarch.profile/1",
                                  "key", key, "device", "cpu", "layers", costs_of("embed", 10, 10),
                                  costs_of("block", 10, 10), costs_of("head", 10, 10)));
    if (cs_spec_read(root, arena, &spec, &err) != CS_OK ||
        cs_plan_make(spec, graph, &cluster, arena, &plan, &err) != CS_OK ||
        cs_spec_profile(spec, arena, &profile, &err) != CS_OK)
        fail_msg("%s", err.text);
    const struct cs_search_options search = {.batch_slots = plan->slots, .top = 16};
    if (cs_search(spec, graph, &cluster, profile, &search, arena, &at_profile, &err) != CS_OK ||
        cs_search(spec, graph, &cluster, NULL, &search, arena, &at_roofline, &err) != CS_OK)
        fail_msg("%s", err.text);
    const struct cs_variant_base base = {
        .spec = spec, .graph = graph, .cluster = &cluster, .plan = plan};
    cs_whatif_list(&w, &base);
    while (cs_whatif_next(&w, &base))
        continue;
    int n = 0, n_other = 0;
    for (int i = 0; i < w.n; i++) {
        if (strncmp(w.row[i].name, "search: no. ", 12) != 0)
            continue;
        const struct cs_search_plan *best = &at_profile.plan[n], *other = &at_roofline.plan[n++];
        assert_true(best->runs && other->runs); /* else rows are others */
        assert_string_equal(w.row[i].schedule, best->schedule);
        assert_int_equal(w.row[i].ranks, best->n_ranks);
        assert_int_equal(w.row[i].variant.pp[0], best->layout.branch[0].pp);
        assert_int_equal(w.row[i].variant.layout.dp, best->layout.dp);
        assert_int_equal(w.row[i].step_ns, best->job.step_ns);
        n_other += best->n_ranks != other->n_ranks || best->layout.dp != other->layout.dp ||
                   best->layout.branch[0].pp != other->layout.branch[0].pp;
    }
    assert_int_equal(n, CS_WHATIF_BEST);
    assert_true(n_other > 0); /* else this shows nothing */
    json_decref(first);
    json_decref(root);
    cs_arena_free(arena);
}

/* Layers that took three times as long take that in any layout: the planner's stages of ranks that share
 * a context, stretched as those of the job were that has none. */
static void measured_costs_stretch_stages_of_every_layout(void **state)
{
    struct cs_test_spec options = cs_test_replay_spec();
    struct cs_test_replay replay, shared;
    struct cs_spec *spec = NULL;
    struct cs_variant_plan made;
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 64};
    (void)state;
    cs_test_replay_new(&replay, &options, 1);
    options.llm_cp = options.dp = 2;
    cs_test_replay_new(&shared, &options, 1);
    const struct cs_plan *plan = replay.plan;
    assert_int_equal(cs_spec_read(replay.spec, replay.arena, &spec, NULL), CS_OK);
    struct cs_measured *m =
        cs_measured_new(plan->n_stages, plan->n_ranks, cluster.device, replay.arena);
    for (int32_t s = 0; s < plan->n_stages; s++) { /* microseconds, of 20 */
        const struct cs_stage *st = &plan->stages[s];
        m->row[s][CS_OP_FWD] = (struct cs_measured_cost){.n = 20, .cpu_us = 60 * st->fwd_ns / 1000};
        m->row[s][CS_OP_BWD] = (struct cs_measured_cost){
            .n = 20, .cpu_us = 60 * (st->bwd_input_ns + st->bwd_weight_ns) / 1000};
    }
    struct cs_variant_base base = {.spec = spec,
                                   .graph = replay.graph,
                                   .cluster = &cluster,
                                   .plan = plan,
                                   .measured = m,
                                   .cores = 8};
    cs_variant_stretch(&base, replay.arena);
    struct cs_variant variant = cs_variant_own(&base);
    assert_int_equal(cs_variant_ranks(&variant, replay.graph), cs_plan_world(plan));
    variant.is_found = true;
    variant.layout.dp = 2;
    variant.layout.branch[replay.graph->llm].cp = 2;
    assert_int_equal(cs_variant_ranks(&variant, replay.graph), cs_plan_world(shared.plan));
    assert_int_equal(cs_variant_make(&base, &variant, replay.arena, &made, NULL), CS_OK);
    assert_int_equal(cs_plan_world(made.plan), cs_plan_world(shared.plan));
    for (int32_t s = 0; s < shared.plan->n_stages; s++) {
        const struct cs_stage *st = &shared.plan->stages[s], *other = &made.plan->stages[s];
        assert_int_equal(other->n_layers, st->n_layers);
        assert_true(fabs((double)other->fwd_ns / (3.0 * (double)st->fwd_ns) - 1) < 1e-2);
        assert_true(fabs((double)(other->bwd_input_ns + other->bwd_weight_ns) /
                             (3.0 * (double)(st->bwd_input_ns + st->bwd_weight_ns)) -
                         1) < 1e-2);
    }
    cs_test_replay_free(&shared);
    cs_test_replay_free(&replay);
}

/* What a screen keeps of one is not shown for the other. */
static void variants_with_encoders_elsewhere_or_rows_split_are_others(void **state)
{
    struct cs_test_spec options = cs_test_replay_spec();
    struct cs_test_replay replay;
    struct cs_spec *spec = NULL;
    struct cs_variant_plan made;
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 64};
    (void)state;
    cs_test_replay_new(&replay, &options, 1);
    assert_int_equal(cs_spec_read(replay.spec, replay.arena, &spec, NULL), CS_OK);
    const struct cs_variant_base base = {
        .spec = spec, .graph = replay.graph, .cluster = &cluster, .plan = replay.plan};
    struct cs_variant own = cs_variant_own(&base);
    const int32_t llm = replay.graph->llm, encoder = llm == 0 ? 1 : 0;
    snprintf(own.modality, sizeof own.modality, "mixed");
    struct cs_variant other = own;
    assert_true(cs_variant_is_equal(&own, &other, replay.graph));
    other.layout.branch[encoder].place = CS_PLACE_REPLICATED;
    other.pp[encoder] = own.pp[encoder] = 1;
    assert_false(cs_variant_is_equal(&own, &other, replay.graph));
    assert_false(cs_variant_is_equal(&other, &own, replay.graph));
    assert_int_equal(cs_variant_make(&base, &other, replay.arena, &made, NULL), CS_OK);
    assert_int_equal(cs_plan_world(made.plan), cs_variant_ranks(&other, replay.graph));
    assert_int_equal(made.plan->stages[0].copies > 1, own.pp[llm] > 1);
    other = own;
    own.layout.branch[llm].tp = other.layout.branch[llm].tp = 2;
    other.layout.branch[llm].sp = true;
    assert_false(cs_variant_is_equal(&own, &other, replay.graph));
    cs_test_replay_free(&replay);
}

static void keys_change_the_preview_and_u_goes_back(void **state)
{
    struct plan_screen *f = *state;
    struct cs_forecast c;
    plan_screen_show(f, "t s"); /* 1f1b -> gpipe */
    plan_screen_forecast(f, f->replay.plan, "gpipe", f->replay.plan->slots, &c);
    check_summary(f, &c);
    plan_screen_find(f, 0, "[preview]");
    plan_screen_show(f, "t s ]");
    plan_screen_forecast(f, f->replay.plan, "gpipe", 2 * f->replay.plan->slots, &c);
    check_summary(f, &c);
    plan_screen_show(f, "t s ] u");
    plan_screen_forecast(f, f->replay.plan, "1f1b", f->replay.plan->slots, &c);
    check_summary(f, &c);
    plan_screen_find(f, 0, "[own plan]");
    plan_screen_show(f, "w j j j j Enter m"); /* the row of zb-h1 */
    plan_screen_forecast(f, f->replay.plan, "zb-h1", f->replay.plan->slots, &c);
    check_summary(f, &c);
}

/* --- hundreds of ranks, one stage each -------------------------------------------------------- */

struct big {
    struct cs_previews *previews;
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
    struct cs_screen last = {.previews = b->previews};
    cs_screen_free(&last);
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
    screen.previews = b->previews; /* simulated once, looked at often */
    screen.view = CS_VIEW_PLAN;
    assert_int_equal(cs_screen_keys(&screen, b->store, keys, &err), CS_OK);
    while (cs_screen_prepare(&screen, b->store))
        ;
    cs_screen_draw(b->store, &screen, canvas);
    cs_buf_reset(out);
    cs_canvas_text(canvas, out);
    cs_canvas_free(canvas);
    b->previews = screen.previews;
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
    const struct cs_forecast *f = &b.previews->preview.forecast;
    const char *note = strstr(cs_buf_str(&text), "601 stages, ");
    int per = (int)strtol(note + strlen("601 stages, "), NULL, 10);
    const char *row = strstr(cs_buf_str(&text), "\n 0 vision.0");
    double bubble = 0;
    assert_non_null(row);
    for (int32_t s = 0; s < per; s++)
        bubble += f->stage[s].bubble / per;
    char line[256] = "";
    snprintf(line, sizeof line, "%.*s", (int)strcspn(row + 1, "\n"), row + 1);
    assert_shown(shown_from_end(line, 1), 100 * bubble, 0.1);
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
    const struct cs_whatif *w = &b.previews->whatif;
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->row[i].name, "gpipe") == 0)
            assert_true(w->row[i].peak_bytes > b.store->model.device->mem_bytes);
    assert_true(w->row[0].peak_bytes < b.store->model.device->mem_bytes);
    draw(&b, "m s", &text);
    assert_non_null(strstr(cs_buf_str(&text), "does not fit: "));
    const struct cs_preview *p = &b.previews->preview;
    char where[64];
    snprintf(where, sizeof where, "GiB on rank %d", p->peak_rank);
    assert_true(p->peak_rank > 0 && strstr(cs_buf_str(&text), where) != NULL);
    draw(&b, "w j j j j j j j", &text); /* three-phase: it runs as all others do */
    assert_null(strstr(cs_buf_str(&text), "workers do not run such plans yet"));
    cs_buf_free(&text);
    struct cs_screen last = {.previews = b.previews};
    cs_screen_free(&last);
    cs_store_free(b.store);
    json_decref(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timeline_is_the_simulators),
        cmocka_unit_test(the_path_row_is_the_critical_path),
        cmocka_unit_test(memory_adds_up_to_what_ranks_need),
        cmocka_unit_test(what_if_rows_are_simulated_plans),
        cmocka_unit_test(the_other_cut_is_the_planners),
        cmocka_unit_test(searched_plans_are_those_of_jobs),
        cmocka_unit_test(the_search_has_the_costs_of_the_profile),
        cmocka_unit_test(measured_costs_stretch_stages_of_every_layout),
        cmocka_unit_test(variants_with_encoders_elsewhere_or_rows_split_are_others),
        cmocka_unit_test(keys_change_the_preview_and_u_goes_back),
        cmocka_unit_test(long_pipelines_are_shown_in_groups),
        cmocka_unit_test(what_does_not_fit_is_marked),
        cmocka_unit_test(groups_show_means_and_maxima),
    };
    return cmocka_run_group_tests(tests, plan_screen_set_up, plan_screen_tear_down);
}
