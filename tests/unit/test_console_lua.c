/* The Lua view: what keys do to the line that is typed, what is shown of answers, and the engine behind it,
 * which evaluates on a thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <poll.h>

#include "console/cli/shared/repl/repl.h"
#include "console/screen/history.h"
#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "core/base/str.h"
#include "tests/support/tmpdir.h"

struct fixture {
    struct cs_store *store;
    struct cs_screen screen;
    struct cs_canvas *canvas;
    struct cs_buf text;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->store = cs_store_new();
    f->canvas = cs_canvas_new(80, 24);
    cs_screen_init(&f->screen, CS_GLYPHS_UTF8);
    cs_screen_show(&f->screen, CS_VIEW_LUA);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    cs_screen_free(&f->screen);
    cs_canvas_free(f->canvas);
    cs_store_free(f->store);
    cs_buf_free(&f->text);
    free(f);
    return 0;
}

static unsigned type(struct fixture *f, const char *text)
{
    unsigned todo = 0;
    for (const char *at = text; *at; at++)
        todo |= cs_screen_key(&f->screen, f->store, *at == '\n' ? CS_KEY_ENTER : *at);
    return todo;
}

static const char *shown(struct fixture *f)
{
    cs_buf_reset(&f->text);
    cs_screen_draw(f->store, &f->screen, f->canvas);
    cs_canvas_text(f->canvas, &f->text);
    return cs_buf_str(&f->text);
}

static void has(struct fixture *f, const char *what)
{
    if (!strstr(shown(f), what))
        fail_msg("no \"%s\" in:\n%s", what, cs_buf_str(&f->text));
}

static void has_not(struct fixture *f, const char *what)
{
    if (strstr(shown(f), what))
        fail_msg("\"%s\" in:\n%s", what, cs_buf_str(&f->text));
}

/* as the owner of the screen does */
static void asks(struct fixture *f, enum cs_lua_want want, const char *text)
{
    struct cs_lua_screen *lua = cs_lua_screen_of(&f->screen);
    assert_int_equal(lua->want, want);
    assert_string_equal(cs_buf_str(&lua->ask), text);
    lua->want = CS_LUA_NOTHING;
}

static void answer(struct fixture *f, enum cs_lua_answer what, const char *text)
{
    cs_lua_screen_take(cs_lua_screen_of(&f->screen), what, text);
}

/* --- the line --------------------------------------------------------------------------------- */

static void letters_are_typed_until_escape(void **state)
{
    struct fixture *f = *state;
    assert_false(type(f, "q7?:P/") & (CS_DO_QUIT | CS_DO_ORDER));
    assert_int_equal(f->screen.view, CS_VIEW_LUA);
    has(f, "cs> q7?:P/");
    cs_screen_key(&f->screen, f->store, CS_KEY_ESC);
    has(f, "i types again");
    type(f, "7");
    assert_int_equal(f->screen.view, CS_VIEW_LOGS);
    type(f, "8"); /* opened again, it is typed on */
    type(f, "x");
    has(f, "cs> q7?:P/x");
    cs_screen_key(&f->screen, f->store, CS_KEY_F1);
    has(f, "Lua: what it shows");
    cs_screen_key(&f->screen, f->store, CS_KEY_ESC);
    has_not(f, "Lua: what it shows");
}

static void an_empty_line_lets_the_views_go_round(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < CS_VIEW_COUNT; i++)
        cs_screen_key(&f->screen, f->store, CS_KEY_TAB);
    assert_int_equal(f->screen.view, CS_VIEW_LUA);
    for (int i = 0; i < CS_VIEW_COUNT; i++)
        cs_screen_key(&f->screen, f->store, CS_KEY_BACKTAB);
    assert_int_equal(f->screen.view, CS_VIEW_LUA);
}

static void a_chunk_goes_over_lines_and_errors_end_nothing(void **state)
{
    struct fixture *f = *state;
    assert_true(type(f, "for i = 1, 2 do\n") & CS_DO_LUA);
    asks(f, CS_LUA_RUN, "for i = 1, 2 do");
    answer(f, CS_LUA_MORE, "");
    type(f, "end\n");
    asks(f, CS_LUA_RUN, "end");
    answer(f, CS_LUA_SAID, "one\ttwo\n\x1b[31mred\n");
    answer(f, CS_LUA_WRONG, "lua:1: broken");
    answer(f, CS_LUA_DONE, "");
    has(f, " cs> for i = 1, 2 do\n >> end\n one     two\n \\x1b[31mred\n lua:1: broken\n cs>");
}

/* Enter while something runs waits, and what is typed meanwhile is not lost. */
static void lines_wait_for_the_one_that_runs(void **state)
{
    struct fixture *f = *state;
    type(f, "1\n2\n3");
    asks(f, CS_LUA_RUN, "1");
    has(f, "... 3");
    answer(f, CS_LUA_DONE, "");
    asks(f, CS_LUA_RUN, "2");
    answer(f, CS_LUA_DONE, "");
    asks(f, CS_LUA_NOTHING, "2");
    has(f, "cs> 3");
}

static void pasted_lines_run_one_by_one(void **state)
{
    struct fixture *f = *state;
    char big[3000];
    memset(big, 'x', sizeof big);
    memcpy(big, "a = 1\r\nb = '", 12);
    memcpy(big + sizeof big - 5, "'\nc\n", 5);
    type(f, "z = ");
    assert_true(cs_screen_paste(&f->screen, big, sizeof big - 1) & CS_DO_LUA);
    asks(f, CS_LUA_RUN, "z = a = 1");
    answer(f, CS_LUA_DONE, "");
    assert_int_equal(f->screen.lua->ask.len,
                     sizeof big - 4 - 7); /* longer than what is typed may be */
    asks(f, CS_LUA_RUN, cs_buf_str(&f->screen.lua->ask));
    answer(f, CS_LUA_DONE, "");
    asks(f, CS_LUA_RUN, "c");
    answer(f, CS_LUA_DONE, "");
    assert_int_equal(f->screen.lua->want, CS_LUA_NOTHING);
    cs_screen_paste(&f->screen, "tail", 4);
    has(f, "cs> tail");
    cs_screen_paste(&f->screen, big + 20, 2000);
    has(f, "more was pasted than a line takes");
}

static void history_finds_what_begins_alike(void **state)
{
    struct fixture *f = *state;
    static const char *const lines[] = {"alpha = 1", "beta = 2", "alpha = 3", "alpha = 3"};
    for (size_t i = 0; i < CS_ARRAY_LEN(lines); i++)
        cs_lua_screen_remember(cs_lua_screen_of(&f->screen), lines[i]);
    assert_int_equal(f->screen.lua->n_history, 3);
    cs_screen_key(&f->screen, f->store, CS_KEY_UP);
    has(f, "cs> alpha = 3");
    cs_screen_key(&f->screen, f->store, CS_KEY_UP);
    has(f, "cs> beta = 2");
    cs_screen_key(&f->screen, f->store, CS_KEY_DOWN);
    cs_screen_key(&f->screen, f->store, CS_KEY_DOWN);
    assert_string_equal(f->screen.lua->edit.text, "");
    type(f, "al");
    cs_screen_key(&f->screen, f->store, CS_KEY_UP);
    cs_screen_key(&f->screen, f->store, CS_KEY_UP);
    has(f, "cs> alpha = 1");
    cs_screen_key(&f->screen, f->store, CS_KEY_UP);
    has(f, "cs> alpha = 1");
    cs_screen_key(&f->screen, f->store, CS_KEY_DOWN);
    cs_screen_key(&f->screen, f->store, CS_KEY_DOWN);
    assert_string_equal(f->screen.lua->edit.text, "al");
}

static void tab_types_what_is_common_and_shows_the_rest(void **state)
{
    struct fixture *f = *state;
    type(f, "x = cs.lab.s");
    assert_true(cs_screen_key(&f->screen, f->store, CS_KEY_TAB) & CS_DO_LUA);
    asks(f, CS_LUA_COMPLETE, "x = cs.lab.s");
    answer(f, CS_LUA_OFFER, "split_even");
    answer(f, CS_LUA_OFFER, "split");
    answer(f, CS_LUA_OFFER, "split");
    answer(f, CS_LUA_OFFERED, "");
    assert_string_equal(f->screen.lua->edit.text, "x = cs.lab.split");
    cs_screen_key(&f->screen, f->store, CS_KEY_TAB);
    answer(f, CS_LUA_OFFER, "split_even");
    answer(f, CS_LUA_OFFER, "split");
    answer(f, CS_LUA_OFFERED, "");
    has(f, "cs> x = cs.lab.split\n split       split_even\n");
    type(f, "_");
    has_not(f, "split_even");
}

static void break_stops_then_clears_then_leaves(void **state)
{
    struct fixture *f = *state;
    type(f, "1\n");
    asks(f, CS_LUA_RUN, "1");
    cs_screen_key(&f->screen, f->store, 3);
    asks(f, CS_LUA_STOP, "1");
    answer(f, CS_LUA_MORE, "");
    type(f, "some");
    cs_screen_key(&f->screen, f->store, 3);
    assert_string_equal(f->screen.lua->edit.text, "");
    cs_screen_key(&f->screen, f->store, 3);
    asks(f, CS_LUA_RUN, ":");
    answer(f, CS_LUA_DONE, "");
    cs_screen_key(&f->screen, f->store, 3);
    assert_true(f->screen.lua->is_left);
}

static void long_results_scroll_are_found_and_filtered(void **state)
{
    struct fixture *f = *state;
    char line[40];
    for (int i = 0; i < CS_LUA_LINES + 50; i++) {
        snprintf(line, sizeof line, "line %d", i);
        answer(f, CS_LUA_SAID, line);
    }
    assert_int_equal(f->screen.lua->n_lines, CS_LUA_LINES);
    has(f, "line 5049\n cs>");
    cs_screen_key(&f->screen, f->store, CS_KEY_PGUP);
    has(f, "line 5039");
    has_not(f, "line 5040");
    has(f, "10 newer lines below");
    cs_screen_key(&f->screen, f->store, CS_KEY_ESC);
    type(f, "/line 77\n");
    has(f, "line 77\n");
    type(f, "gg");
    has(f, "line 50\n");
    type(f, "G");
    has(f, "line 5049\n cs>");
    type(f, "f 4321\n");
    has(f, "line 4321\n");
    has_not(f, "line 5049");
}

static void a_text_screen_says_that_it_evaluates_nothing(void **state)
{
    struct fixture *f = *state;
    struct cs_err err = {.text = ""};
    assert_int_equal(cs_screen_keys(&f->screen, f->store, "1+1 Enter", &err), CS_OK);
    has(f, "cs> 1+1\n a screen that is text evaluates nothing");
    assert_false(f->screen.lua->is_busy);
}

/* --- the file of history ---------------------------------------------------------------------- */

static void history_is_kept_as_libedit_has_it(void **state)
{
    static const char line[] = "print('a b\\n', \"ö\")";
    struct cs_buf coded = {0}, back = {0};
    (void)state;
    cs_history_encode(&coded, line);
    assert_string_equal(cs_buf_str(&coded), "print('a\\040b\\134n',\\040\"\\303\\266\")");
    cs_history_decode(&back, cs_buf_str(&coded), coded.len);
    assert_string_equal(cs_buf_str(&back), line);
    cs_buf_free(&coded);
    cs_buf_free(&back);
    char *dir = tmpdir_new();
    setenv("XDG_STATE_HOME", dir, 1);
    struct cs_lua_screen *lua = calloc(1, sizeof *lua), *later = calloc(1, sizeof *later);
    cs_history_read(lua);
    assert_int_equal(lua->n_history, 0);
    cs_lua_screen_remember(lua, line);
    cs_history_write(lua);
    cs_lua_screen_remember(lua, "second");
    cs_history_write(lua);
    cs_history_read(later);
    assert_int_equal(later->n_history, 2);
    assert_string_equal(later->history[0], line);
    assert_string_equal(later->history[1], "second");
    cs_history_write(later); /* nothing new */
    cs_lua_screen_free(later);
    later = calloc(1, sizeof *later);
    cs_history_read(later);
    assert_int_equal(later->n_history, 2);
    cs_lua_screen_free(lua);
    cs_lua_screen_free(later);
    tmpdir_free(dir);
}

/* --- the engine ------------------------------------------------------------------------------- */

struct said {
    struct cs_buf text;
    int end; /* enum cs_lua_answer, -1 not yet */
};

static void collect(void *user, enum cs_lua_answer what, const char *text)
{
    struct said *said = user;
    if (what == CS_LUA_SAID || what == CS_LUA_WRONG)
        cs_buf_addf(&said->text, "%s%s\n", what == CS_LUA_WRONG ? "! " : "", text);
    if (what == CS_LUA_OFFER)
        cs_buf_addf(&said->text, "%s ", text);
    if (what >= CS_LUA_OFFERED)
        said->end = (int)what;
}

static struct said wait_for_end(struct cs_engine *engine)
{
    struct said said = {.end = -1};
    while (said.end < 0) {
        struct pollfd ready = {.fd = engine->fd, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 60000), 1);
        engine->take(engine->self, collect, &said);
    }
    return said;
}

static void answers(struct cs_engine *engine, enum cs_lua_want want, const char *text, int end,
                    const char *words)
{
    engine->ask(engine->self, want, text);
    struct said said = wait_for_end(engine);
    if (said.end != end || !strstr(cs_buf_str(&said.text), words))
        fail_msg("%s: ended %d, no \"%s\" in:\n%s", text, said.end, words, cs_buf_str(&said.text));
    cs_buf_free(&said.text);
}

static struct cs_engine engine_of(bool is_read_only)
{
    struct cs_engine engine;
    struct cs_err err = {.text = ""};
    if (cs_repl_engine_new("/nowhere/daemon.sock", is_read_only, &engine, &err) != CS_OK)
        fail_msg("%s", err.text);
    return engine;
}

static void the_engine_evaluates_completes_and_keeps_what_it_knows(void **state)
{
    struct cs_engine engine = engine_of(false);
    (void)state;
    answers(&engine, CS_LUA_COMPLETE, "cs.lab.spli", CS_LUA_OFFERED, "split ");
    answers(&engine, CS_LUA_RUN, "x = {", CS_LUA_MORE, "");
    answers(&engine, CS_LUA_RUN, "1, 2, name = 'three' }", CS_LUA_DONE, "");
    answers(&engine, CS_LUA_RUN, "x", CS_LUA_DONE, "{1, 2, name = \"three\"}");
    answers(&engine, CS_LUA_RUN, "print('a', 1) return 7", CS_LUA_DONE, "a\t1\n7");
    answers(&engine, CS_LUA_RUN, "nothing.at.all", CS_LUA_DONE, "! lua:1:");
    answers(&engine, CS_LUA_RUN, "?cs.lr.cosine", CS_LUA_DONE, "final_ratio");
    answers(&engine, CS_LUA_RUN, ":time x", CS_LUA_DONE, " ms\n");
    answers(&engine, CS_LUA_RUN, "cs.jobs()", CS_LUA_DONE, "/nowhere/daemon.sock");
    answers(&engine, CS_LUA_RUN, ":quit", CS_LUA_QUIT, "");
    answers(&engine, CS_LUA_RUN, "#x", CS_LUA_DONE, "2");
    cs_repl_engine_free(&engine);
}

static void the_engine_stops_when_it_is_told_to(void **state)
{
    struct cs_engine engine = engine_of(true);
    (void)state;
    engine.ask(engine.self, CS_LUA_RUN, "print'on' while true do local s = ('x'):rep(1000000) end");
    struct pollfd ready = {.fd = engine.fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 60000), 1); /* it runs */
    answers(&engine, CS_LUA_STOP, "", CS_LUA_DONE, "! lua:1: stopped");
    answers(&engine, CS_LUA_RUN, "for i = 1, 30000 do print(i) end", CS_LUA_DONE, "1\n2\n");
    answers(&engine, CS_LUA_RUN, "1", CS_LUA_DONE, "1");
    engine.ask(engine.self, CS_LUA_RUN, "while true do local s = ('x'):rep(1000000) end");
    cs_repl_engine_free(&engine); /* in the middle of it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(letters_are_typed_until_escape, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_empty_line_lets_the_views_go_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chunk_goes_over_lines_and_errors_end_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(lines_wait_for_the_one_that_runs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pasted_lines_run_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_finds_what_begins_alike, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tab_types_what_is_common_and_shows_the_rest, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(break_stops_then_clears_then_leaves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_results_scroll_are_found_and_filtered, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_text_screen_says_that_it_evaluates_nothing, set_up,
                                        tear_down),
        cmocka_unit_test(history_is_kept_as_libedit_has_it),
        cmocka_unit_test(the_engine_evaluates_completes_and_keeps_what_it_knows),
        cmocka_unit_test(the_engine_stops_when_it_is_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
