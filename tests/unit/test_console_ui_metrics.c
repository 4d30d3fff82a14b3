/* The Metrics view and what it is made of: names and values of a row, axes, curves in bounded memory,
 * jobs laid over, differences of documents, any keys on any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <math.h>

#include "console/draw/chart.h"
#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "console/store/spec_diff.h"
#include "console/views/metrics/data.h"
#include "core/wire/wire.h"
#include "tests/support/journal.h"

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9 * fmax(1, fabs(b))); /* fails on NaN */
}

/* --- metrics of a row ------------------------------------------------------------------------- */

static void rows_of_messages_and_of_the_history_say_the_same(void **state)
{
    (void)state;
    json_t *message = json_pack("{s:i,s:s,s:f,s:i,s:i,s:i,s:[f,f],s:i,s:i,s:{s:{s:f}}}", "step", 7,
                                "kind", "train", "loss", 2.5, "step_ns", 250000000, "tokens", 1000,
                                "energy_mj", 500000, "bubble", 0.25, 0.75, "data_wait_us", 1500,
                                "mem_bytes", 1 << 29, "sources", "a", "loss", 3.0);
    json_t *columns =
        json_pack("[s,s,s,s,s,s,s,s,s,s]", "step", "kind", "loss", "step_ms", "tokens", "energy_mj",
                  "bubble", "data_wait_us", "mem_bytes", "sources");
    json_t *values = json_pack("[i,s,f,f,f,i,f,i,i,{s:{s:f}}]", 7, "train", 2.5, 250.0, 1000.0,
                               500000, 0.5, 1500, 1 << 29, "a", "loss", 3.0);
    json_t *row = cs_metric_row(columns, values);

    static const struct {
        const char *name;
        double value;
    } want[] = {
        {"loss",         2.5 },
        {"loss/a",       3   },
        {"step_ms",      250 },
        {"tokens_per_s", 4000},
        {"power_w",      2000},
        {"tokens_per_j", 2   },
        {"bubble",       0.5 },
        {"data_wait_ms", 1.5 },
        {"memory_gib",   0.5 },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(want); i++) {
        assert_near(cs_metric_get(message, want[i].name), want[i].value);
        assert_near(cs_metric_get(row, want[i].name), want[i].value);
    }
    assert_true(isnan(cs_metric_get(row, "grad_norm")));
    assert_true(isnan(cs_metric_get(row, "loss/b")));
    assert_true(isnan(cs_metric_get(row, "nothing")));
    assert_non_null(cs_metric_find("loss/a"));
    assert_null(cs_metric_find("lr/a"));
    assert_null(cs_metric_find("loss/"));
    json_decref(message);
    json_decref(columns);
    json_decref(values);
    json_decref(row);
}

/* --- axes ------------------------------------------------------------------------------------- */

static void ticks_are_round_and_inside(void **state)
{
    (void)state;
    srand(5);
    for (int round = 0; round < 20000; round++) {
        const double low = pow(10, rand() % 20 - 10) * ((rand() % 2000) - 1000),
                     high = low + pow(10, rand() % 20 - 10) * (rand() % 1000);
        const struct cs_axis axis = cs_axis_fit(low, high, rand() % 2);
        const int most = 1 + rand() % 12;
        double tick[CS_AXIS_TICKS];
        const int n = cs_axis_ticks(&axis, most, tick);
        assert_true(axis.low < axis.high);
        assert_in_range(n, 0, most);
        for (int i = 0; i < n; i++) {
            const double share = cs_axis_share(&axis, tick[i]);
            assert_true(share >= -1e-6 && share <= 1 + 1e-6);
            assert_true(i == 0 || tick[i] > tick[i - 1]);
        }
        assert_true(fabs(cs_axis_share(&axis, cs_axis_value(&axis, 0.25)) - 0.25) < 1e-6);
    }
}

static void labels_have_the_digits_that_tell_them_apart(void **state)
{
    (void)state;

    static const struct {
        double value, apart;
        const char *text;
    } rows[] = {
        {2,       0.5,    "2.0"   },
        {0.5,     0.1,    "0.5"   },
        {0,       1,      "0"     },
        {75000,   25000,  "75k"   },
        {1200000, 200000, "1.2M"  },
        {3.6e-4,  0,      "3.6e-4"},
        {1e-5,    1e-5,   "1e-5"  },
        {2.1134,  0,      "2.113" },
        {-1.5,    0.5,    "-1.5"  },
        {1250,    50,     "1250"  },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        char text[32];
        cs_axis_label(text, sizeof text, rows[i].value, rows[i].apart);
        assert_string_equal(text, rows[i].text);
    }
}

/* --- curves ----------------------------------------------------------------------------------- */

static void add_rows(struct cs_metrics *metrics, int64_t from, int64_t to, int64_t steps)
{
    for (int64_t step = from; step < to; step++) {
        json_t *row = cs_test_step_row(step, steps, false);
        cs_metrics_add(metrics, row);
        json_decref(row);
    }
}

/* a job that went back 100 steps: its curves are those of a job that did not */
static void steps_that_are_made_again_supersede(void **state)
{
    struct cs_metrics once, again;
    (void)state;
    cs_metrics_init(&once);
    cs_metrics_init(&again);
    add_rows(&once, 0, 500, 1000);
    add_rows(&again, 0, 400, 1000);
    add_rows(&again, 300, 500, 1000);
    assert_int_equal(once.n, again.n);
    assert_int_equal(again.last_step, 499);
    assert_near(again.sum_tokens, once.sum_tokens);
    assert_near(again.sum_seconds, once.sum_seconds);
    for (int i = 0; i < once.n; i++) {
        struct cs_series_bucket a[600], b[600];
        const uint32_t n = cs_series_read(once.curve[i].series, 0, 500, 600, a);
        assert_int_equal(cs_series_read(again.curve[i].series, 0, 500, 600, b), n);
        assert_memory_equal(a, b, n * sizeof *a);
    }
    cs_metrics_free(&once);
    cs_metrics_free(&again);
}

/* 100 steps as 10 rows of 10 steps: mean, least and greatest are kept */
static void folded_rows_keep_what_they_are_of(void **state)
{
    struct cs_metrics metrics;
    struct cs_series_bucket all;
    (void)state;
    cs_metrics_init(&metrics);
    for (int i = 0; i < 10; i++) {
        json_t *row = json_pack("{s:i,s:s,s:i,s:f,s:f,s:f,s:f,s:f}", "step", 10 * i + 9, "kind",
                                "train", "steps", 10, "loss", 1.0 + i, "loss_min", 0.5, "loss_max",
                                20.0, "tokens", 100.0, "step_ms", 10.0);
        cs_metrics_add(&metrics, row);
        json_decref(row);
    }
    const struct cs_curve *loss = cs_metrics_find(&metrics, "loss", false);
    assert_int_equal(cs_series_read(loss->series, 0, 100, 1, &all), 1);
    assert_int_equal(all.n, 100);
    assert_near(all.sum / 100, 5.5);
    assert_near(all.min, 0.5);
    assert_near(all.max, 20);
    assert_near(metrics.sum_tokens, 10000);
    assert_near(metrics.sum_seconds, 1);
    cs_metrics_free(&metrics);
}

/* --- the view --------------------------------------------------------------------------------- */

static struct cs_store *new_store(int64_t steps)
{
    struct cs_store *store = cs_store_new();
    json_t *jobs = json_pack("{s:s,s:b,s:[{s:i,s:s,s:s},{s:i,s:s,s:s}]}", "type", "jobs.list",
                             "reply", 1, "jobs", "id", 2, "name", "two", "state", "RUN", "id", 1,
                             "name", "one", "state", "DONE");
    cs_store_connected(store, true);
    cs_store_message(store, jobs);
    cs_store_select(store, 2);
    add_rows(&store->metrics, 0, steps, steps);
    json_decref(jobs);
    return store;
}

static void draw_text(const struct cs_store *store, const struct cs_screen *screen, int cols,
                      int rows, struct cs_buf *out)
{
    struct cs_canvas *canvas = cs_canvas_new(cols, rows);
    cs_screen_draw(store, screen, canvas);
    cs_buf_reset(out);
    cs_canvas_text(canvas, out);
    cs_canvas_free(canvas);
}

/* what the title says at the cursor is what the row of that step said */
static void the_cursor_tells_the_values_of_its_step(void **state)
{
    struct cs_store *store = new_store(60);
    struct cs_screen screen;
    struct cs_buf text = {0};
    struct cs_err err = {.text = ""};
    char want[32], at[32];
    (void)state;
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    screen.view = CS_VIEW_METRICS;
    assert_int_equal(cs_screen_keys(&screen, store, "Enter s s s L L", &err), CS_OK);
    draw_text(store, &screen, 100, 30, &text);
    json_t *row = cs_test_step_row(15, 60, false); /* 2 * 8 / 64 of 59 */
    cs_axis_label(want, sizeof want, cs_metric_get(row, "loss"), 0);
    snprintf(at, sizeof at, ">loss  %s", want);
    if (!strstr(cs_buf_str(&text), at))
        fail_msg("no \"%s\" in\n%s", at, cs_buf_str(&text));
    json_decref(row);
    cs_buf_free(&text);
    cs_screen_free(&screen);
    cs_store_free(store);
}

static void two_jobs_are_laid_over_and_compared(void **state)
{
    struct cs_store *store = new_store(100);
    struct cs_screen screen;
    struct cs_buf text = {0};
    struct cs_err err = {.text = ""};
    (void)state;
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    screen.view = CS_VIEW_METRICS;
    assert_int_equal(cs_screen_keys(&screen, store, "s s o Enter o", &err), CS_OK);
    assert_int_equal(store->beside[0].job, 1);
    draw_text(store, &screen, 120, 30, &text);
    assert_non_null(strstr(cs_buf_str(&text), "a job 1 (no figures yet)"));
    json_t *rows =
        json_pack("{s:s,s:b,s:[s,s,s],s:[[i,s,f],[i,s,f]]}", "type", "job.metrics", "reply", 1,
                  "columns", "step", "kind", "loss", "rows", 0, "train", 4.0, 99, "train", 3.25);
    json_t *show = json_pack("{s:s,s:b,s:{s:i,s:{s:f}}}", "type", "job.show", "reply", 1, "spec",
                             "steps", 100, "optimizer", "lr", 0.5);
    cs_store_beside_message(store, 1, rows);
    cs_store_beside_message(store, 1, show);
    store->model.spec_json = json_pack("{s:i,s:{s:f}}", "steps", 100, "optimizer", "lr", 0.25);
    draw_text(store, &screen, 120, 30, &text);
    assert_non_null(strstr(cs_buf_str(&text), "a job 1 3.25"));
    assert_int_equal(cs_screen_keys(&screen, store, "d", &err), CS_OK);
    draw_text(store, &screen, 100, 30, &text);
    assert_non_null(strstr(cs_buf_str(&text), "job 2 and job 1: 1 key differs"));
    assert_non_null(strstr(cs_buf_str(&text), "optimizer.lr"));
    assert_int_equal(cs_screen_keys(&screen, store, "d o Enter", &err), CS_OK);
    assert_int_equal(store->beside[0].job, 0);
    json_decref(rows);
    json_decref(show);
    cs_buf_free(&text);
    cs_screen_free(&screen);
    cs_store_free(store);
}

static void documents_differ_in_the_keys_that_differ(void **state)
{
    struct cs_spec_difference rows[8];
    json_t *a = json_pack("{s:i,s:{s:s,s:[i,i]},s:i}", "same", 1, "deep", "x", "a", "list", 1, 2,
                          "gone", 3);
    json_t *b = json_pack("{s:i,s:{s:s,s:[i,i,i]}}", "same", 1, "deep", "x", "b", "list", 1, 5, 6);
    (void)state;
    assert_int_equal(cs_spec_diff(a, b, rows, 8), 4);
    assert_string_equal(rows[0].path, "deep.list[1]");
    assert_string_equal(rows[0].b, "5");
    assert_string_equal(rows[1].path, "deep.list[2]");
    assert_string_equal(rows[1].a, "-");
    assert_string_equal(rows[2].path, "deep.x");
    assert_string_equal(rows[3].path, "gone");
    assert_int_equal(cs_spec_diff(a, b, rows, 1), 4);
    assert_int_equal(cs_spec_diff(a, a, rows, 8), 0);
    json_decref(a);
    json_decref(b);
}

/* a row of which no chart can be made; then an evaluation, whose step is a whole number */
static void charts_are_there_when_they_have_figures(void **state)
{
    struct cs_store *store = new_store(0);
    struct cs_screen screen;
    struct cs_buf text = {0};
    json_t *odd = json_pack("{s:i,s:s,s:{s:{s:f}}}", "step", 499, "kind", "eval", "sources", "a",
                            "loss", 3.0);
    json_t *eval = json_pack("{s:i,s:s,s:f}", "step", 499, "kind", "eval", "loss", 3.0);
    (void)state;
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    screen.view = CS_VIEW_METRICS;
    cs_metrics_add(&store->metrics, odd);
    draw_text(store, &screen, 100, 30, &text);
    assert_non_null(strstr(cs_buf_str(&text), "no step has ended yet"));
    add_rows(&store->metrics, 0, 600, 600);
    cs_metrics_add(&store->metrics, eval);
    draw_text(store, &screen, 100, 30, &text);
    if (!strstr(cs_buf_str(&text), "@499 "))
        fail_msg("no step 499 in\n%s", cs_buf_str(&text));
    json_decref(odd);
    json_decref(eval);
    cs_buf_free(&text);
    cs_screen_free(&screen);
    cs_store_free(store);
}

/* 4000 keys and sizes: nothing is written beside the screen, and Esc always leads out */
static void any_keys_on_any_size_are_fine(void **state)
{
    static const int keys[] = {'j', 'k', 'h', 'l',          'H',        'L', '+',
                               '-', '0', 'r', 'x',          's',        'o', 'a',
                               'd', '?', 'G', CS_KEY_ENTER, CS_KEY_ESC, '5', CS_KEY_PGDN};
    struct cs_store *store = new_store(700);
    struct cs_screen screen;
    (void)state;
    srand(11);
    cs_screen_init(&screen, CS_GLYPHS_UTF8);
    for (int i = 0; i < 4000; i++) {
        struct cs_canvas *canvas = cs_canvas_new(1 + rand() % 210, 1 + rand() % 70);
        if (cs_screen_key(&screen, store, keys[(size_t)rand() % CS_ARRAY_LEN(keys)]) & CS_DO_BESIDE)
            cs_store_set_beside(store, screen.metrics.beside, screen.metrics.n_beside);
        cs_screen_draw(store, &screen, canvas);
        cs_canvas_free(canvas);
    }
    cs_screen_show(&screen, CS_VIEW_METRICS);
    for (int i = 0; i < 5; i++)
        cs_screen_key(&screen, store, CS_KEY_ESC);
    assert_int_equal(screen.view, CS_VIEW_JOBS);
    cs_screen_free(&screen);
    cs_store_free(store);
}

/* values of every size, none, endless ones */
static void charts_of_any_values_are_drawn(void **state)
{
    static const double values[] = {0, -1, 1e-300, 1e300, -1e300, 1, 1};
    struct cs_chart_point point[40];
    (void)state;
    srand(3);
    for (int round = 0; round < 3000; round++) {
        struct cs_canvas *canvas = cs_canvas_new(1 + rand() % 60, 1 + rand() % 20);
        const int n = rand() % 40;
        for (int i = 0; i < n; i++) {
            const double v = values[(size_t)rand() % CS_ARRAY_LEN(values)];
            point[i] = (struct cs_chart_point){
                .x = i, .mean = rand() % 9 ? v : (double)NAN, .low = v, .high = v};
        }
        const struct cs_chart chart = {.line = {{point, n, (enum cs_chart_kind)(rand() % 3),
                                                 CS_STYLE_TEXT, rand() % 2 ? 'a' : '\0'}},
                                       .n = 1,
                                       .from = rand() % 10,
                                       .to = 10 + rand() % 40,
                                       .cursor = rand() % 60,
                                       .is_log = rand() % 2};
        cs_chart_draw(&chart, cs_canvas_area(canvas), (enum cs_glyph_set)(rand() % 2));
        cs_canvas_free(canvas);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_messages_and_of_the_history_say_the_same),
        cmocka_unit_test(ticks_are_round_and_inside),
        cmocka_unit_test(labels_have_the_digits_that_tell_them_apart),
        cmocka_unit_test(steps_that_are_made_again_supersede),
        cmocka_unit_test(folded_rows_keep_what_they_are_of),
        cmocka_unit_test(the_cursor_tells_the_values_of_its_step),
        cmocka_unit_test(two_jobs_are_laid_over_and_compared),
        cmocka_unit_test(documents_differ_in_the_keys_that_differ),
        cmocka_unit_test(charts_are_there_when_they_have_figures),
        cmocka_unit_test(any_keys_on_any_size_are_fine),
        cmocka_unit_test(charts_of_any_values_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
