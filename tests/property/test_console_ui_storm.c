/* Random sizes, keys and messages: no screen ever breaks, whatever comes in whatever order. Meant
 * for AddressSanitizer. Sequences are the same in every run. */
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
#include "console/screen/mouse.h"
#include "console/screen/screen.h"
#include "console/views/state/view.h"
#include "core/base/str.h"
#include "core/plan/json/plan_json.h"
#include "tests/support/replay.h"

enum { ROUNDS = 3000, WALK = 2000, LONG_WALK = 10000, WAYS_OUT = 8 };

struct random {
    uint64_t state;
};

static uint32_t next(struct random *r, uint32_t below)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(r->state >> 33) % below;
}

static void check_text(const struct cs_canvas *canvas)
{
    struct cs_buf text = {0};
    int rows = 0;
    cs_canvas_text(canvas, &text);
    for (const char *at = cs_buf_str(&text), *end; (end = strchr(at, '\n')); at = end + 1, rows++) {
        assert_true(cs_utf8_valid(at, (size_t)(end - at)));
        assert_in_range(cs_utf8_width(at, (size_t)(end - at)), 0, cs_canvas_cols(canvas));
        assert_true(end == at || end[-1] != ' ');
    }
    assert_int_equal(rows, cs_canvas_rows(canvas));
    cs_buf_free(&text);
}

static void press_any(struct random *r, struct cs_screen *screen, struct cs_store *store)
{
    static const int special[] = {CS_KEY_UP,   CS_KEY_DOWN,
                                  CS_KEY_LEFT, CS_KEY_RIGHT,
                                  CS_KEY_ESC,  CS_KEY_ENTER,
                                  CS_KEY_TAB,  CS_KEY_BACKTAB,
                                  CS_KEY_END,  CS_KEY_HOME,
                                  CS_KEY_PGDN, CS_KEY_PGUP,
                                  4,           21};
    int key = next(r, 3) == 0 ? special[next(r, CS_ARRAY_LEN(special))] : (int)(' ' + next(r, 95));
    if (cs_screen_key(screen, store, key) & CS_DO_SELECT)
        screen->view = CS_VIEW_JOBS; /* one trace: nothing else to load */
}

static void feed_any(struct random *r, struct cs_store *store)
{
    json_t *msg = NULL;
    switch (next(r, 6)) {
    case 0:
        msg = json_pack("{s:s,s:i,s:s}", "type", "event.log", "rank", (int)next(r, 6) - 2, "line",
                        "2026-11-27T23:04:23.123Z error 日本語 \xc3\xa9 line");
        break;
    case 1:
        msg = json_pack("{s:s,s:i,s:s,s:f,s:i}", "type", "event.step", "step", (int)next(r, 5000),
                        "kind", next(r, 4) ? "train" : "eval", "loss", next(r, 900) / 100.0,
                        "step_ns", (int)next(r, 1000000000));
        break;
    case 2:
        msg = json_pack("{s:s,s:{s:i,s:s,s:s,s:i}}", "type", "event.job", "job", "id",
                        1 + (int)next(r, 40), "name", "a job with quite a long name, 名前", "state",
                        next(r, 2) ? "RUN" : "FAILED", "steps", 5000);
        break;
    case 4:
        msg = json_pack("{s:s,s:s,s:[{s:s,s:f,s:i,s:i,s:I,s:[f,n,f]},{s:s,s:s,s:s}]}", "type",
                        "event.gpus", "gpus_note", next(r, 2) ? "" : "a note, 名前", "devices",
                        "name", "cuda:0", "busy", next(r, 140) / 100.0, "temp_c",
                        (int)next(r, 120) - 9, "job", (int)next(r, 3), "mem_used_bytes",
                        (json_int_t)next(r, 1000) << 30, "history", 0.5, next(r, 9) / 8.0, "name",
                        next(r, 2) ? "cuda:1" : "cpu:1", "error", "GPU is lost", "model", "名");
        break;
    case 3:
        msg = json_pack("{s:s,s:s,s:s}", "type", "event.note", "level", "warn", "text", "note");
        break;
    default:
        msg = json_pack("{s:s,s:i,s:i,s:[[i,i,i,i,s,i,i,i,i]]}", "type", "event.spans", "step", 3,
                        "slots", 2, "spans", (int)next(r, 5), 0, (int)next(r, 1000),
                        1000 + (int)next(r, 1000), "F", (int)next(r, 5), (int)next(r, 3), -1, 0);
        break;
    }
    assert_non_null(msg);
    cs_store_message(store, msg);
    json_decref(msg);
}

/* However far it went: Esc leads back to the jobs, and q leaves. */
static void leave(struct cs_screen *screen, struct cs_store *store)
{
    for (int i = 0; i < WAYS_OUT; i++)
        cs_screen_key(screen, store, CS_KEY_ESC);
    if (screen->view != CS_VIEW_JOBS || screen->prompt || screen->has_help || screen->failure)
        fail_msg("%d times Esc leave view %s, prompt %d, help %d, failure %lld", WAYS_OUT,
                 cs_view_name(screen->view), (int)screen->prompt, (int)screen->has_help,
                 (long long)screen->failure);
    assert_true(cs_screen_key(screen, store, 'q') & CS_DO_QUIT);
}

/* What the owner of the screen would do, as far as there is somebody who does it. */
static void obey(struct random *r, struct cs_screen *screen, struct cs_store *store, unsigned todo)
{
    static const enum cs_lua_answer answers[] = {CS_LUA_SAID,    CS_LUA_WRONG, CS_LUA_OFFER,
                                                 CS_LUA_OFFERED, CS_LUA_MORE,  CS_LUA_DONE,
                                                 CS_LUA_QUIT};

    if (todo & CS_DO_SELECT)
        cs_store_select(store, screen->cursor_job);
    if (todo & CS_DO_BESIDE)
        cs_store_set_beside(store, screen->metrics.beside, screen->metrics.n_beside);
    if (screen->lua)
        screen->lua->want = CS_LUA_NOTHING;
    if (screen->lua && next(r, 2))
        cs_lua_screen_take(screen->lua, answers[next(r, CS_ARRAY_LEN(answers))],
                           next(r, 2) ? "a line\tof 名前" : "name_of_it");
}

/* Keys and resizes one after the other, over all views, with jobs that come and go and a daemon that is lost
 * now and then; paste and mouse among them. */
static void walk(struct cs_store *store, uint64_t seed, int n_keys)
{
    struct random r = {seed};
    struct cs_screen screen;
    struct cs_canvas *canvas = cs_canvas_new(80, 24);
    cs_screen_init(&screen, next(&r, 2) ? CS_GLYPHS_UTF8 : CS_GLYPHS_ASCII);
    screen.opened_ns = 1;
    for (int i = 0; i < n_keys; i++) {
        const int key = next(&r, 4) == 0 ? CS_KEY_UP + (int)next(&r, 24)
                        : next(&r, 4)    ? (int)(' ' + next(&r, 95))
                                         : 1 + (int)next(&r, 27);
        unsigned todo = next(&r, 40) ? cs_screen_key(&screen, store, key)
                                     : cs_screen_paste(&screen, "1 +\n1\r\nx名", 11);
        if (next(&r, 30) == 0)
            todo |= cs_screen_mouse(&screen, store,
                                    &(struct cs_mouse){cs_canvas_cols(canvas),
                                                       cs_canvas_rows(canvas), (int)next(&r, 200),
                                                       (int)next(&r, 60), (int)next(&r, 3) - 1});
        obey(&r, &screen, store, todo);
        if (next(&r, 20) == 0)
            cs_canvas_resize(canvas, (int)next(&r, 300), (int)next(&r, 90));
        if (next(&r, 10) == 0)
            feed_any(&r, store);
        if (next(&r, 50) == 0)
            store->is_connected = !store->is_connected;
        if (next(&r, 2))
            cs_screen_prepare(&screen, store);
        cs_screen_draw(store, &screen, canvas);
        if (i % 16 == 0)
            check_text(canvas);
        if (i % 100 == 99)
            leave(&screen, store);
    }
    cs_screen_free(&screen);
    cs_canvas_free(canvas);
}

static void a_walk_of_keys_and_sizes_never_sticks(void **state)
{
    (void)state;
    const char *is_long = getenv("CORNSTARCH_LONG");
    const int n_keys = is_long && is_long[0] ? LONG_WALK : WALK;
    struct cs_test_replay replay;
    struct cs_test_spec spec = cs_test_replay_spec();
    struct cs_err err = {.text = ""};
    struct cs_store *store = cs_store_new();
    walk(store, 6, n_keys); /* no jobs at first */
    cs_store_free(store);
    store = cs_store_new();
    cs_test_replay_new(&replay, &spec, 2);
    assert_int_equal(cs_store_trace(store, replay.trace.data, replay.trace.len, &err), CS_OK);
    json_t *plan = cs_plan_json(replay.plan, replay.graph);
    cs_store_documents(store, replay.spec, plan);
    walk(store, 7, n_keys);
    json_decref(plan);
    cs_store_free(store);
    cs_test_replay_free(&replay);
}

static void storm(struct cs_store *store, uint64_t seed, enum cs_glyph_set glyphs)
{
    struct random r = {seed};
    struct cs_screen screen;
    struct cs_canvas *canvas = cs_canvas_new(80, 24);
    cs_screen_init(&screen, glyphs);
    for (int i = 0; i < ROUNDS; i++) {
        if (next(&r, 4) == 0)
            cs_canvas_resize(canvas, (int)next(&r, next(&r, 8) ? 130 : 420),
                             (int)next(&r, next(&r, 8) ? 45 : 130));
        for (uint32_t k = next(&r, 4); k > 0; k--)
            press_any(&r, &screen, store);
        if (next(&r, 2))
            feed_any(&r, store);
        store->is_connected = next(&r, 8) != 0;
        if (next(&r, 3) > 0) /* else it is drawn with what there is */
            cs_screen_prepare(&screen, store);
        cs_screen_draw(store, &screen, canvas);
        if (i % 16 == 0)
            check_text(canvas);
    }
    cs_screen_free(&screen);
    cs_canvas_free(canvas);
}

static void no_size_and_no_key_breaks_a_replayed_job(void **state)
{
    (void)state;
    struct cs_test_replay replay;
    struct cs_test_spec spec = cs_test_replay_spec();
    struct cs_err err = {.text = ""};
    struct cs_store *store = cs_store_new();
    cs_test_replay_new(&replay, &spec, 2);
    assert_int_equal(cs_store_trace(store, replay.trace.data, replay.trace.len, &err), CS_OK);
    json_t *plan = cs_plan_json(replay.plan, replay.graph);
    cs_store_documents(store, replay.spec, plan);
    assert_string_equal(store->model_error, "");
    storm(store, 1, CS_GLYPHS_UTF8);
    storm(store, 2, CS_GLYPHS_ASCII);
    json_decref(plan);
    cs_store_free(store);
    cs_test_replay_free(&replay);
}

static void no_size_and_no_key_breaks_an_empty_store(void **state)
{
    (void)state;
    struct cs_store *store = cs_store_new();
    storm(store, 3, CS_GLYPHS_UTF8);
    cs_store_free(store);
}

/* 41 stages: more rows than any screen has */
static void no_size_breaks_a_long_pipeline(void **state)
{
    (void)state;
    struct cs_test_replay replay;
    const struct cs_test_spec spec = {.llm_layers = 40, .llm_pp = 40, .slots = 8};
    struct cs_err err = {.text = ""};
    struct cs_store *store = cs_store_new();
    cs_test_replay_new(&replay, &spec, 1);
    assert_int_equal(cs_store_trace(store, replay.trace.data, replay.trace.len, &err), CS_OK);
    storm(store, 4, CS_GLYPHS_UTF8);
    json_t *plan = cs_plan_json(replay.plan, replay.graph); /* and with its plan to preview */
    cs_store_documents(store, replay.spec, plan);
    assert_string_equal(store->model_error, "");
    storm(store, 5, CS_GLYPHS_ASCII);
    json_decref(plan);
    cs_store_free(store);
    cs_test_replay_free(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_size_and_no_key_breaks_a_replayed_job),
        cmocka_unit_test(no_size_and_no_key_breaks_an_empty_store),
        cmocka_unit_test(no_size_breaks_a_long_pipeline),
        cmocka_unit_test(a_walk_of_keys_and_sizes_never_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
