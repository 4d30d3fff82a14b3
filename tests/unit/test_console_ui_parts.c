/* The pure parts of the screens: canvas, layout, Gantt cells, axis, keys, figures. */
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

#include "console/command.h"
#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/screen/keys/keys.h"
#include "console/screen/panes.h"
#include "console/screen/screen.h"

/* --- canvas ----------------------------------------------------------------------------------- */

static void assert_text(struct cs_canvas *canvas, const char *expected)
{
    struct cs_buf text = {0};
    cs_canvas_text(canvas, &text);
    assert_string_equal(cs_buf_str(&text), expected);
    cs_buf_free(&text);
}

static void drawing_is_cut_at_every_side(void **state)
{
    (void)state;
    struct cs_canvas *canvas = cs_canvas_new(6, 2);
    struct cs_area area = cs_canvas_area(canvas), part = cs_area_part(area, 2, 0, 3, 1);
    cs_draw(part, -1, 0, CS_STYLE_TEXT, "abcdef");
    cs_draw(part, 0, 1, CS_STYLE_TEXT, "below");
    cs_draw(part, 0, -1, CS_STYLE_TEXT, "above");
    cs_fill(part, -5, 7, 100, CS_STYLE_TEXT, "x");
    assert_text(canvas, "  bcd\n\n");
    cs_canvas_free(canvas);
}

static void wide_characters_take_two_cells_and_never_tear(void **state)
{
    (void)state;
    struct cs_canvas *canvas = cs_canvas_new(5, 1);
    struct cs_area area = cs_canvas_area(canvas);
    assert_int_equal(cs_draw(area, 0, 0, CS_STYLE_TEXT, "日本"), 4);
    assert_text(canvas, "日本\n");
    cs_draw(area, 1, 0, CS_STYLE_TEXT, "x"); /* over the right half of the first */
    assert_text(canvas, " x本\n");
    cs_draw(area, 4, 0, CS_STYLE_TEXT, "本"); /* does not fit */
    assert_text(canvas, " x本\n");
    cs_canvas_free(canvas);
}

static void nothing_drawn_can_steer_a_terminal(void **state)
{
    (void)state;
    struct cs_canvas *canvas = cs_canvas_new(20, 1);
    cs_draw(cs_canvas_area(canvas), 0, 0, CS_STYLE_TEXT,
            "a\x1b[2J\r\n\xc2\x9b\xff"
            "e\xcc\x81");
    assert_text(canvas, "a?[2J????e\n");
    cs_canvas_free(canvas);
}

static void cut_text_says_so(void **state)
{
    (void)state;
    struct cs_canvas *canvas = cs_canvas_new(20, 1);
    struct cs_area area = cs_canvas_area(canvas);
    cs_draw_cut(area, 0, 0, 5, CS_STYLE_TEXT, CS_GLYPHS_ASCII, "abcdefgh");
    cs_draw_cut(area, 10, 0, 5, CS_STYLE_TEXT, CS_GLYPHS_ASCII, "abcde");
    assert_text(canvas, "abcd~     abcde\n");
    cs_canvas_free(canvas);
}

/* --- layout ----------------------------------------------------------------------------------- */

static bool is_overlapping(struct cs_rect a, struct cs_rect b)
{
    return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

static int collect(const struct cs_panes *l, struct cs_rect *out)
{
    int n = 0;
    const struct cs_rect rects[] = {l->header, l->tabs, l->top_rule, l->bottom_rule, l->keys};
    for (size_t i = 0; i < CS_ARRAY_LEN(rects); i++)
        out[n++] = rects[i];
    for (int i = 0; i < l->n; i++) {
        out[n++] = l->pane[i];
        out[n++] = l->title[i];
    }
    if (l->divider_x >= 0)
        out[n++] = (struct cs_rect){l->divider_x, l->pane[0].y, 1, l->pane[0].h};
    return n;
}

static void rectangles_lie_inside_and_apart_at_every_size(void **state)
{
    (void)state;
    for (int cols = 0; cols <= 260; cols++)
        for (int rows = 0; rows <= 90; rows++) {
            struct cs_rect r[16];
            struct cs_panes layout = cs_panes_of(cols, rows, CS_VIEW_PIPELINE);
            int n = collect(&layout, r);
            for (int i = 0; i < n; i++) {
                assert_true(r[i].w >= 0 && r[i].h >= 0 && r[i].x >= 0 && r[i].y >= 0);
                assert_true(r[i].x + r[i].w <= cols && r[i].y + r[i].h <= rows);
                for (int k = 0; k < i; k++)
                    assert_false(r[i].w && r[i].h && r[k].w && r[k].h &&
                                 is_overlapping(r[i], r[k]));
            }
        }
}

static void sizes_choose_the_designed_layouts(void **state)
{
    (void)state;
    assert_int_equal(cs_panes_of(59, 24, CS_VIEW_JOBS).kind, CS_PANES_LINE);
    assert_int_equal(cs_panes_of(80, 14, CS_VIEW_JOBS).kind, CS_PANES_LINE);
    assert_int_equal(cs_panes_of(80, 24, CS_VIEW_JOBS).kind, CS_PANES_COMPACT);
    assert_int_equal(cs_panes_of(100, 30, CS_VIEW_JOBS).kind, CS_PANES_NORMAL);
    struct cs_panes wide = cs_panes_of(200, 60, CS_VIEW_PIPELINE);
    assert_int_equal(wide.kind, CS_PANES_WIDE);
    assert_int_equal(wide.n, 3);
    assert_true(wide.pane[0].w >= 100 && wide.pane[1].w >= 80);
    assert_int_equal(wide.view[0], CS_VIEW_PIPELINE);
}

/* --- Gantt ------------------------------------------------------------------------------------ */

static void row_of(const struct cs_span *spans, int n, int64_t to_ns, int width, char *out)
{
    struct cs_gantt_cell cells[256];
    struct cs_span list[16];
    memcpy(list, spans, (size_t)n * sizeof *list);
    const struct cs_span_step step = {.n_ranks = 1, .n_stages = 1, .span = list, .n_spans = n};
    cs_gantt_row(&step, 0, 0, (struct cs_window){0, to_ns}, width, cells);
    for (int i = 0; i < width; i++)
        out[i] = cells[i].mark ? cells[i].mark : '.';
    out[width > 0 ? width : 0] = '\0';
}

static struct cs_span span(char letter, int slot, int64_t from, int64_t to)
{
    return (struct cs_span){
        .start_ns = from,
        .end_ns = to,
        .key = {.stage = letter == 'O' ? -1 : 0, .slot = slot, .letter = letter, .is_compute = 1}
    };
}

static void gantt_marks_slots_forward_and_backward(void **state)
{
    (void)state;
    char text[64];
    const struct cs_span spans[] = {span('F', 0, 0, 20),  span('F', 8, 20, 30),
                                    span('F', 9, 30, 40), span('B', 0, 40, 60),
                                    span('W', 1, 60, 70), span('O', -1, 80, 90)};
    row_of(spans, 6, 100, 10, text);
    assert_string_equal(text, "1190aaB.=.");
}

static void gantt_cells_go_to_the_longer_part(void **state)
{
    (void)state;
    char text[64];
    const struct cs_span spans[] = {span('F', 0, 0, 14), span('F', 1, 14, 20),
                                    span('F', 2, 36, 45)};
    row_of(spans, 3, 50, 5,
           text); /* columns of 10: 1, half 1 half 2 -> 2 has 6, idle, 3 has 4 .. */
    assert_string_equal(text, "12..3");
}

static void gantt_shows_short_spans_while_there_is_room(void **state)
{
    (void)state;
    char text[64];
    const struct cs_span spans[] = {span('B', 0, 50, 51), span('B', 1, 80, 82)};
    row_of(spans, 2, 100, 10, text);
    assert_string_equal(text, ".....a..b.");
    row_of(spans, 2, 100, 1, text); /* two spans, one column: 3 % busy is idle */
    assert_string_equal(text, ".");
}

static void gantt_survives_tiny_and_odd_windows(void **state)
{
    (void)state;
    char text[64];
    const struct cs_span spans[] = {span('F', 0, 0, 10), span('F', 0, 7, 7), span('B', 300, 5, 9)};
    row_of(spans, 3, 10, 0, text);
    assert_string_equal(text, "");
    row_of(spans, 3, 1, 1, text);
    assert_string_equal(text, "1");
    row_of(spans, 3, INT64_MAX / 2, 3, text);
    assert_int_equal(strlen(text), 3);
    struct cs_window window = cs_gantt_window(0, 64, 5);
    assert_true(window.to_ns > window.from_ns);
}

static void windows_stay_inside_the_step(void **state)
{
    (void)state;
    for (int zoom = 1; zoom <= CS_ZOOM_MAX; zoom *= 2)
        for (double scroll = -1; scroll <= 2; scroll += 0.125) {
            struct cs_window w = cs_gantt_window(1000000, zoom, scroll);
            assert_true(w.from_ns >= 0 && w.to_ns <= 1000000 && w.from_ns < w.to_ns);
            assert_in_range(w.to_ns - w.from_ns, 1000000 / zoom - 1, 1000000 / zoom + 1);
        }
}

static void axis_labels_rise_stand_apart_and_at_their_place(void **state)
{
    (void)state;
    char out[400];
    for (int width = 0; width <= 200; width += 7)
        for (double length = 1; length < 1e15; length *= 3.7) {
            struct cs_window window = {(int64_t)(length / 3), (int64_t)(length / 3 + length) + 1};
            const char *unit = cs_gantt_axis(window, width, out);
            double scale = strcmp(unit, "us") == 0 ? 1e3 : strcmp(unit, "ms") == 0 ? 1e6 : 1e9;
            double before = -1, span_ns = (double)(window.to_ns - window.from_ns);
            assert_int_equal(strlen(out), width > 0 ? width : 0);
            for (char *at = out; *at;) {
                if (*at == ' ') {
                    at++;
                    continue;
                }
                char *end;
                double value = strtod(at, &end);
                double place = (value * scale - (double)window.from_ns) / span_ns * width;
                assert_true(value > before);
                if (!(fabs(place - (double)(at - out)) <= 1 + 0.01 * width))
                    fail_msg("label %g at column %d of %d, belongs at %g", value, (int)(at - out),
                             width, place);
                before = value;
                at = end;
            }
        }
}

/* --- lines of fields -------------------------------------------------------------------------- */

static void fields_drop_by_priority_until_they_fit(void **state)
{
    (void)state;
    struct cs_fields fields = {0};
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "aaaa");
    cs_fields_add(&fields, CS_STYLE_TEXT, 2, "bbbb");
    cs_fields_add(&fields, CS_STYLE_TEXT, 1, "cccc");

    static const struct {
        int width;
        const char *text;
    } rows[] = {
        {16, "aaaa  bbbb  cccc\n"},
        {15, "aaaa  cccc\n"      },
        {9,  "aaaa\n"            },
        {3,  "aaa\n"             },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_canvas *canvas = cs_canvas_new(rows[i].width, 1);
        cs_fields_draw(&fields, cs_canvas_area(canvas), 0, 0);
        assert_text(canvas, rows[i].text);
        cs_canvas_free(canvas);
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

static void every_key_of_the_table_can_be_pressed(void **state)
{
    (void)state;
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        struct cs_key_row rows[CS_KEYS];
        int n = cs_keys_of((enum cs_view)v, rows);
        assert_true(n > 20);
        for (int i = 0; i < n; i++) {
            assert_true(strlen(cs_key_row_help(&rows[i])) > 0);
            for (const char *at = rows[i].keys; *at;) {
                size_t len = strcspn(at, ", ");
                int key;
                assert_true(cs_key_parse(at, len, &key));
                at += len + (at[len] != '\0');
            }
        }
    }
}

/* Within a view no sequence is another's beginning or the same: pressing one means one thing. */
static void keys_of_a_view_do_not_collide(void **state)
{
    (void)state;
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        struct cs_key_row rows[CS_KEYS];
        int n = cs_keys_of((enum cs_view)v, rows);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < i; k++) {
                char a[64], b[64];
                snprintf(a, sizeof a, ",%s,", rows[i].keys);
                snprintf(b, sizeof b, "%s", rows[k].keys);
                for (char *at = strtok(b, ","); at; at = strtok(NULL, ",")) {
                    char exact[40];
                    snprintf(exact, sizeof exact, ",%s,", at);
                    if (strstr(a, exact))
                        fail_msg("%s and %s", rows[i].keys, rows[k].keys);
                }
            }
    }
}

/* Each view's key opens it, and its row says what tabs, manual and dump need. */
static void rows_of_views_are_whole(void **state)
{
    (void)state;
    struct cs_store *store = cs_store_new();
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        const struct cs_view_ops *view = cs_view_ops((enum cs_view)v);
        enum cs_view found = CS_VIEW_COUNT;
        struct cs_screen screen;
        cs_screen_init(&screen, CS_GLYPHS_ASCII);
        screen.view = v == 0 ? (enum cs_view)1 : (enum cs_view)0;
        cs_screen_key(&screen, store, view->key[0]);
        assert_int_equal(screen.view, v);
        assert_true(cs_view_find(cs_view_name((enum cs_view)v), &found));
        assert_int_equal(found, v);
        assert_true(strlen(view->title) >= strlen(view->short_title) && view->draw);
        assert_true(view->help[strlen(view->help) - 1] == '.');
    }
    cs_store_free(store);
}

static void orders_have_the_keys_of_their_commands(void **state)
{
    (void)state;
    struct cs_key_row rows[CS_KEYS];
    int n = cs_keys_common(rows), found = 0;
    for (int i = 0; i < n; i++)
        for (int c = 0; c < cs_commands.n && rows[i].order; c++)
            if (strcmp(cs_commands.row[c]->name, rows[i].order->name) == 0) {
                assert_int_equal(rows[i].keys[0], cs_commands.row[c]->key);
                assert_int_equal(rows[i].order->confirm, cs_commands.row[c]->confirm);
                assert_int_equal(rows[i].order->role, cs_commands.row[c]->role);
                found++;
            }
    assert_int_equal(found, 4);
}

struct session {
    struct cs_store *store;
    struct cs_screen screen;
};

static struct session start(void)
{
    struct session s = {.store = cs_store_new()};
    json_t *msg = json_pack("{s:s,s:b,s:[{s:I,s:s,s:s},{s:I,s:s,s:s}]}", "type", "jobs.list",
                            "reply", 1, "jobs", "id", (json_int_t)41, "name", "a", "state", "RUN",
                            "id", (json_int_t)40, "name", "b", "state", "DONE");
    cs_screen_init(&s.screen, CS_GLYPHS_ASCII);
    cs_store_message(s.store, msg);
    json_decref(msg);
    return s;
}

static unsigned press(struct session *s, const char *key)
{
    int code;
    assert_true(cs_key_parse(key, strlen(key), &code));
    return cs_screen_key(&s->screen, s->store, code);
}

static void stopping_wants_the_number_of_the_job(void **state)
{
    (void)state;
    struct session s = start();
    assert_false(press(&s, "X") & CS_DO_ORDER);
    assert_int_equal(s.screen.prompt, CS_PROMPT_TYPE);
    press(&s, "4");
    press(&s, "0");
    assert_false(press(&s, "Enter") & CS_DO_ORDER); /* 40 is another job */
    assert_int_equal(s.screen.prompt, CS_PROMPT_NONE);
    press(&s, "X");
    press(&s, "4");
    press(&s, "7");
    press(&s, "Backspace");
    press(&s, "1");
    assert_true(press(&s, "Enter") & CS_DO_ORDER);
    assert_string_equal(s.screen.order->message, "job.stop");
    assert_int_equal(s.screen.order_job, 41);
    cs_store_free(s.store);
}

static void pausing_asks_once_and_only_y_means_yes(void **state)
{
    (void)state;
    struct session s = start();
    assert_false(press(&s, "P") & CS_DO_ORDER);
    assert_false(press(&s, "P") & CS_DO_ORDER);
    assert_int_equal(s.screen.prompt, CS_PROMPT_NONE);
    press(&s, "P");
    assert_true(press(&s, "y") & CS_DO_ORDER);
    assert_string_equal(s.screen.order->message, "job.pause");
    cs_store_free(s.store);
}

static void finished_jobs_and_readers_give_no_orders(void **state)
{
    (void)state;
    struct session s = start();
    press(&s, "j"); /* job 40 is DONE */
    press(&s, "C");
    assert_int_equal(s.screen.prompt, CS_PROMPT_NONE);
    assert_non_null(strstr(s.screen.message, "DONE"));
    press(&s, "k");
    s.screen.is_read_only = true;
    press(&s, "C");
    assert_int_equal(s.screen.prompt, CS_PROMPT_NONE);
    assert_non_null(strstr(s.screen.message, "read-only"));
    cs_store_free(s.store);
}

static void footer_is(const struct session *s, const char *with, const char *without)
{
    struct cs_canvas *canvas = cs_canvas_new(200, 30);
    struct cs_buf text = {0};
    cs_screen_draw(s->store, &s->screen, canvas);
    cs_canvas_text(canvas, &text);
    text.data[text.len - 1] = '\0'; /* the last newline */
    const char *footer = strrchr(text.data, '\n');
    assert_non_null(strstr(footer, "q detach"));
    assert_true(with[0] == '\0' || strstr(footer, with) != NULL);
    assert_null(strstr(footer, without));
    cs_buf_free(&text);
    cs_canvas_free(canvas);
}

static void set_state(const struct session *s, const char *state)
{
    json_t *msg = json_pack("{s:s,s:b,s:[{s:I,s:s,s:s}]}", "type", "jobs.list", "reply", 1, "jobs",
                            "id", (json_int_t)40, "name", "b", "state", state);
    cs_store_message(s->store, msg);
    json_decref(msg);
}

/* In every state what the daemon accepts then, and nothing else: R of a job that was stopped goes on. */
static void the_last_line_offers_what_the_job_can_be_told(void **state)
{
    static const struct {
        const char *offer;
        enum cs_job_command order;
        const char *key;
    } orders[] = {
        {"P pause",      CS_ORDER_PAUSE,      "P"},
        {"R resume",     CS_ORDER_RESUME,     "R"},
        {"C checkpoint", CS_ORDER_CHECKPOINT, "C"},
        {"X stop",       CS_ORDER_STOP,       "X"},
    };

    (void)state;
    struct session s = start();
    footer_is(&s, "P pause", "R resume"); /* job 41 runs */
    press(&s, "j");
    footer_is(&s, "", "P pause"); /* job 40 is DONE */
    for (int st = 0; st < CS_JOB_STATE_COUNT; st++) {
        const struct cs_job_state_row *row = cs_job_state_row((enum cs_job_state)st);
        set_state(&s, row->name);
        for (size_t i = 0; i < CS_ARRAY_LEN(orders); i++) {
            const bool is_allowed = (row->orders & orders[i].order) != 0;
            footer_is(&s, is_allowed ? orders[i].offer : "", is_allowed ? "\t" : orders[i].offer);
            /* P of a job that rests lets it go on */
            press(&s, orders[i].key);
            const bool is_asked = s.screen.prompt != CS_PROMPT_NONE;
            if (is_asked != (is_allowed || (orders[i].order == CS_ORDER_PAUSE &&
                                            (row->orders & CS_ORDER_RESUME) != 0)))
                fail_msg("%s of a job that is %s", orders[i].key, row->name);
            press(&s, "Esc");
            s.screen.message[0] = '\0';
            s.screen.view = CS_VIEW_JOBS;
        }
    }
    set_state(&s, "CANCELLED");
    footer_is(&s, "R resume", "X stop");
    s.screen.is_read_only = true;
    footer_is(&s, "read-only", "R resume");
    cs_store_free(s.store);
}

/* What a search found is no job yet: R runs the plan that is picked, and a job beside it is not resumed. */
static void the_last_line_offers_to_run_what_was_found(void **state)
{
    (void)state;
    struct session s = start();
    json_t *found = json_pack("{s:[{s:s}]}", "plans", "schedule", "1f1b");
    set_state(&s, "CANCELLED");
    press(&s, "j");
    s.screen.view = CS_VIEW_PLAN;
    s.store->job = 40;
    footer_is(&s, "R resume", "R run");
    cs_store_found(s.store, found, "script.lua", true);
    footer_is(&s, "", "R resume");
    footer_is(&s, "", "R run"); /* none is picked */
    s.store->found.picked = 1;
    footer_is(&s, "R run", "R resume");
    press(&s, "R");
    assert_int_equal(s.screen.prompt, CS_PROMPT_CONFIRM);
    assert_string_equal(s.screen.shell, "run --detach --pick 1 script.lua");
    press(&s, "n");
    s.screen.is_read_only = true;
    s.screen.message[0] = '\0';
    footer_is(&s, "read-only", "R run");
    json_decref(found);
    cs_store_free(s.store);
}

static void sequences_wait_and_let_go(void **state)
{
    (void)state;
    struct session s = start();
    press(&s, "g");
    assert_int_equal(s.screen.view, CS_VIEW_JOBS);
    press(&s, "t");
    assert_int_equal(s.screen.view, CS_VIEW_MODEL);
    press(&s, "g");
    press(&s, "3"); /* not gt: the 3 counts alone */
    assert_int_equal(s.screen.view, CS_VIEW_PIPELINE);
    press(&s, "g");
    press(&s, "T");
    assert_int_equal(s.screen.view, CS_VIEW_MODEL);
    assert_false(press(&s, "C-c") & CS_DO_QUIT);
    assert_true(press(&s, "C-c") & CS_DO_QUIT);
    cs_store_free(s.store);
}

static void entering_a_job_asks_for_it(void **state)
{
    (void)state;
    struct session s = start();
    press(&s, "j");
    assert_true(press(&s, "Enter") & CS_DO_SELECT);
    assert_int_equal(s.screen.cursor_job, 40);
    assert_int_equal(s.screen.view, CS_VIEW_PIPELINE);
    cs_store_free(s.store);
}

/* --- figures and choices ---------------------------------------------------------------------- */

static void figures_read_as_people_write_them(void **state)
{
    (void)state;
    char out[CS_FMT_CAP];

    static const struct {
        void (*print)(char *, size_t, double);
        double value;
        const char *text;
    } rows[] = {
        {cs_fmt_ms,         231.04e6,  "231.0"   },
        {cs_fmt_ms,         99.999e6,  "100.0"   },
        {cs_fmt_ms,         12.345e6,  "12.35"   },
        {cs_fmt_ms,         1500,      "0.002"   },
        {cs_fmt_ms,         -1,        "-"       },
        {cs_fmt_percent,    0.3204,    "32.0%"   },
        {cs_fmt_percent,    NAN,       "-"       },
        {cs_fmt_drift,      0.022,     "+2.2%"   },
        {cs_fmt_drift,      -0.5,      "-50.0%"  },
        {cs_fmt_drift,      11.3,      "x12.3"   },
        {cs_fmt_loss,       NAN,       "nan"     },
        {cs_fmt_known_loss, NAN,       "-"       },
        {cs_fmt_loss,       2.1134,    "2.113"   },
        {cs_fmt_loss,       0.51234,   "0.5123"  },
        {cs_fmt_loss,       0.031234,  "0.0312"  },
        {cs_fmt_loss,       0.0000412, "4.12e-05"},
        {cs_fmt_loss,       0,         "0.000"   },
        {cs_fmt_tokens,     69400,     "69.4k"   },
        {cs_fmt_tokens,     NAN,       "-"       },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        rows[i].print(out, sizeof out, rows[i].value);
        assert_string_equal(out, rows[i].text);
    }
    cs_fmt_elapsed(out, sizeof out, INT64_C(188000000000));
    assert_string_equal(out, "03:08");
    cs_fmt_elapsed(out, sizeof out, INT64_C(262800000000000));
    assert_string_equal(out, "3d01h");
}

static void no_color_and_codeset_are_obeyed(void **state)
{
    (void)state;
    assert_int_equal(cs_theme_choose(NULL, "1", 256), CS_SCHEME_MONO);
    assert_int_equal(cs_theme_choose(NULL, "", 256), CS_SCHEME_DEFAULT);
    assert_int_equal(cs_theme_choose("auto", NULL, 2), CS_SCHEME_MONO);
    assert_int_equal(cs_theme_choose("always", "1", 8), CS_SCHEME_DEFAULT);
    assert_int_equal(cs_theme_choose("never", NULL, 8), CS_SCHEME_MONO);
    for (int s = 0; s < CS_STYLE_COUNT; s++) {
        assert_int_equal(cs_theme_look(CS_SCHEME_MONO, (enum cs_style)s).fg, -1);
        assert_int_equal(cs_theme_look(CS_SCHEME_MONO, (enum cs_style)s).bg, -1);
    }
    assert_int_equal(cs_glyph_choose("auto", "ANSI_X3.4-1968"), CS_GLYPHS_ASCII);
    assert_int_equal(cs_glyph_choose("ascii", "UTF-8"), CS_GLYPHS_ASCII);
    assert_int_equal(cs_glyph_choose("utf8", "ANSI_X3.4-1968"), CS_GLYPHS_UTF8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawing_is_cut_at_every_side),
        cmocka_unit_test(wide_characters_take_two_cells_and_never_tear),
        cmocka_unit_test(nothing_drawn_can_steer_a_terminal),
        cmocka_unit_test(cut_text_says_so),
        cmocka_unit_test(rectangles_lie_inside_and_apart_at_every_size),
        cmocka_unit_test(sizes_choose_the_designed_layouts),
        cmocka_unit_test(gantt_marks_slots_forward_and_backward),
        cmocka_unit_test(gantt_cells_go_to_the_longer_part),
        cmocka_unit_test(gantt_shows_short_spans_while_there_is_room),
        cmocka_unit_test(gantt_survives_tiny_and_odd_windows),
        cmocka_unit_test(windows_stay_inside_the_step),
        cmocka_unit_test(axis_labels_rise_stand_apart_and_at_their_place),
        cmocka_unit_test(fields_drop_by_priority_until_they_fit),
        cmocka_unit_test(every_key_of_the_table_can_be_pressed),
        cmocka_unit_test(keys_of_a_view_do_not_collide),
        cmocka_unit_test(rows_of_views_are_whole),
        cmocka_unit_test(orders_have_the_keys_of_their_commands),
        cmocka_unit_test(stopping_wants_the_number_of_the_job),
        cmocka_unit_test(pausing_asks_once_and_only_y_means_yes),
        cmocka_unit_test(finished_jobs_and_readers_give_no_orders),
        cmocka_unit_test(the_last_line_offers_what_the_job_can_be_told),
        cmocka_unit_test(the_last_line_offers_to_run_what_was_found),
        cmocka_unit_test(sequences_wait_and_let_go),
        cmocka_unit_test(entering_a_job_asks_for_it),
        cmocka_unit_test(figures_read_as_people_write_them),
        cmocka_unit_test(no_color_and_codeset_are_obeyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
