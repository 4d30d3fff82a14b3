/* Every view at every designed size, from a trace that the simulator wrote, against committed text.
 * GOLDEN_WRITE=1 in the environment writes the files anew; look at the difference before keeping
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/screen/dump.h"
#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "console/views/state/view.h"
#include "core/base/str.h"
#include "tests/support/journal.h"
#include "tests/support/replay.h"
#include "tests/support/tmpdir.h"

struct fixture {
    struct cs_test_replay replay;
    char *dir;
    char trace[512];
    json_t *node, *job; /* of a daemon, NULL: it says nothing */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct cs_test_spec spec = cs_test_replay_spec();
    setenv("TZ", "UTC", 1);
    tzset();
    cs_test_replay_new(&f->replay, &spec, 3);
    f->dir = tmpdir_new();
    snprintf(f->trace, sizeof f->trace, "%s", cs_test_replay_write(&f->replay, f->dir));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    cs_test_replay_free(&f->replay);
    tmpdir_free(f->dir);
    free(f);
    return 0;
}

static void render(const struct fixture *f, const char *view, int cols, int rows,
                   enum cs_glyph_set glyphs, const char *keys, struct cs_buf *out)
{
    struct cs_err err = {.text = ""};
    const struct cs_dump dump = {.trace = f->trace,
                                 .node = f->node,
                                 .job = f->job,
                                 .view = view,
                                 .keys = keys,
                                 .cols = cols,
                                 .rows = rows,
                                 .glyphs = glyphs};
    cs_buf_reset(out);
    if (cs_dump_replay(&dump, out, &err) != CS_OK)
        fail_msg("%s", err.text);
}

/* As many lines as rows, none wider than the screen. */
static void check_shape(const struct cs_buf *text, int cols, int rows)
{
    int n = 0;
    for (const char *at = cs_buf_str(text), *newline; (newline = strchr(at, '\n'));
         at = newline + 1) {
        assert_in_range(cs_utf8_width(at, (size_t)(newline - at)), 0, cols);
        n++;
    }
    assert_int_equal(n, rows);
}

static void compare(const char *name, const struct cs_buf *text)
{
    char path[512];
    size_t n = 0;
    snprintf(path, sizeof path, "%s", source_path(name));
    if (getenv("GOLDEN_WRITE"))
        tmpdir_write(path, text->data, text->len);
    char *golden = tmpdir_read(path, &n);
    if (!golden)
        fail_msg("%s is missing", path);
    if (n != text->len || memcmp(golden, text->data, n) != 0)
        fail_msg("%s differs; now it is:\n%s", path, cs_buf_str(text));
    free(golden);
}

static void check_view(const struct fixture *f, const char *name, const char *view,
                       const char *keys)
{
    static const int sizes[][2] = {
        {80,  24},
        {100, 30},
        {200, 60},
    };
    static const char *const sets[] = {"utf8", "ascii"};
    struct cs_buf text = {0};
    for (size_t s = 0; s < CS_ARRAY_LEN(sizes); s++)
        for (int g = 0; g < CS_GLYPH_SETS; g++) {
            char file[128];
            render(f, view, sizes[s][0], sizes[s][1], (enum cs_glyph_set)g, keys, &text);
            check_shape(&text, sizes[s][0], sizes[s][1]);
            snprintf(file, sizeof file, "tests/golden/tui/%s-%dx%d-%s.txt", name, sizes[s][0],
                     sizes[s][1], sets[g]);
            compare(file, &text);
        }
    cs_buf_free(&text);
}

/* eight cards of a recorded reading: two jobs, a hot card, one that is lost, one without figures */
static void gpus_screens_are_as_committed(void **state)
{
    struct fixture *f = *state;
    json_error_t where;
    f->node = json_load_file(source_path("tests/golden/gpus.json"), 0, &where);
    if (!f->node)
        fail_msg("%s", where.text);
    check_view(f, "gpus", "gpus", "j j j");
    json_decref(f->node);
    f->node = NULL;
}

static void shows(const struct fixture *f, const char *view, const char *keys, const char *what,
                  const char *what_not)
{
    struct cs_buf text = {0};
    render(f, view, 100, 30, CS_GLYPHS_ASCII, keys, &text);
    if (!strstr(cs_buf_str(&text), what) || (what_not && strstr(cs_buf_str(&text), what_not)))
        fail_msg("%s after %s: no \"%s\", or \"%s\", in:\n%s", view, keys, what,
                 what_not ? what_not : "", cs_buf_str(&text));
    cs_buf_free(&text);
}

/* two stages of three ranks each that split rows; a job that splits none */
static void tokens_screens_are_as_committed(void **state)
{
    struct fixture split = {.node = NULL};
    struct cs_test_spec spec = cs_test_replay_spec();
    spec.llm_pp = 2;
    spec.llm_cp = 3;
    cs_test_replay_new(&split.replay, &spec, 3);
    split.dir = tmpdir_new();
    snprintf(split.trace, sizeof split.trace, "%s", cs_test_replay_write(&split.replay, split.dir));
    check_view(&split, "tokens", "tokens", NULL);
    struct cs_buf text = {0};
    render(&split, "tokens", 80, 16, CS_GLYPHS_ASCII, NULL, &text); /* not all ranks have room */
    assert_non_null(strstr(cs_buf_str(&text), "1 to "));
    render(&split, "tokens", 80, 16, CS_GLYPHS_ASCII, "j j j j j j", &text);
    assert_non_null(strstr(cs_buf_str(&text), " to 6 of 6 ranks"));
    shows(&split, "tokens", "f llm.1 Enter", "3 of 6 with \"llm.1\"", "llm.0 ");
    shows(&split, "tokens", "o", "by work", NULL);
    shows(&split, "tokens", "f rank.5 Enter", "1 of 6 with", "llm.0 ");
    cs_test_replay_free(&split.replay);
    tmpdir_free(split.dir);
    render(*state, "tokens", 80, 24, CS_GLYPHS_ASCII, NULL, &text);
    assert_non_null(strstr(cs_buf_str(&text), "no step whose rows are split over ranks"));
    cs_buf_free(&text);
}

/* a job of 1200 steps with everything that a row can have; one chart alone on a log axis with a
 * cursor; the list of jobs to lay over it */
static void metrics_screens_are_as_committed(void **state)
{
    struct fixture long_job = {.node = NULL};
    struct cs_test_spec spec = cs_test_replay_spec();
    struct cs_buf text = {0};
    (void)state;
    cs_test_journal(1200, &text);
    cs_test_replay_new(&long_job.replay, &spec, 3);
    long_job.dir = tmpdir_new();
    snprintf(long_job.trace, sizeof long_job.trace, "%s",
             cs_test_replay_write(&long_job.replay, long_job.dir));
    tmpdir_write(tmpdir_path(long_job.dir, "journal"), text.data, text.len);
    check_view(&long_job, "metrics", "metrics", NULL);
    render(&long_job, "metrics", 100, 30, CS_GLYPHS_UTF8, "Enter x - + + H H L", &text);
    check_shape(&text, 100, 30);
    compare("tests/golden/tui/metrics-alone-100x30-utf8.txt", &text);
    cs_test_replay_free(&long_job.replay);
    tmpdir_free(long_job.dir);
    cs_buf_free(&text);
}

static void jobs_screens_are_as_committed(void **state)
{
    check_view(*state, "jobs", "jobs", NULL);
}

static void model_screens_are_as_committed(void **state)
{
    check_view(*state, "model", "model", NULL);
}

static void pipeline_screens_are_as_committed(void **state)
{
    check_view(*state, "pipeline", "pipeline", NULL);
}

static void logs_screens_are_as_committed(void **state)
{
    check_view(*state, "logs", "logs", NULL);
}

static void zoomed_screens_are_as_committed(void **state)
{
    check_view(*state, "pipeline-zoom", "jobs", "3 + + l l Space");
}

static void palette_screens_are_as_committed(void **state)
{
    check_view(*state, "palette", "pipeline", ": me Down");
}

/* a reason of several rows, what it did last, what to try */
static void failure_screens_are_as_committed(void **state)
{
    struct fixture f = *(struct fixture *)*state;
    f.job = json_pack(
        "{s:i,s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:f}", "id", 1, "name", "test", "owner", "mira", "state",
        "FAILED", "reason",
        "rank 2 (llm.1) ended with signal 9 (killed) in step 43 while it waited for rows of rank "
        "1; "
        "its last words: llm.layers.4: out of memory: 131072 bytes were asked for where 98304 were "
        "left",
        "step", 43, "steps", 2000, "checkpoint_step", 40, "loss", 0.9615);
    assert_non_null(f.job);
    check_view(&f, "failure", "pipeline", "!");
    json_decref(f.job);
}

/* what an engine would have answered */
static void lua_screens_are_as_committed(void **state)
{
    static const int sizes[][2] = {
        {80,  24},
        {100, 30},
        {200, 60},
    };
    static const char *const sets[] = {"utf8", "ascii"};
    const struct fixture *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_buf text = {0};
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes) * CS_GLYPH_SETS; i++) {
        const int cols = sizes[i / 2][0], rows = sizes[i / 2][1];
        struct cs_store *store = cs_store_new();
        struct cs_canvas *canvas = cs_canvas_new(cols, rows);
        struct cs_screen screen;
        char file[128];
        assert_int_equal(cs_store_replay(store, f->trace, &err), CS_OK);
        cs_screen_init(&screen, (enum cs_glyph_set)(i % 2));
        cs_screen_show(&screen, CS_VIEW_LUA);
        struct cs_lua_screen *lua = cs_lua_screen_of(&screen);
        assert_int_equal(cs_screen_keys(&screen, store, "fails_here() Enter", &err), CS_OK);
        cs_edit_set(&lua->edit, "for i, job in ipairs(cs.jobs()) do");
        cs_lua_screen_enter(lua);
        cs_lua_screen_take(lua, CS_LUA_MORE, "");
        cs_edit_set(&lua->edit, "print(job.id, job.state) end");
        cs_lua_screen_enter(lua);
        cs_lua_screen_take(lua, CS_LUA_SAID, "2\tRUN\n1\tDONE");
        cs_lua_screen_take(lua, CS_LUA_DONE, "");
        cs_edit_set(&lua->edit, "cs.jobs()[1]:");
        cs_lua_screen_complete(lua);
        static const char *const names[] = {"wait", "stop",  "show",   "spec",      "metrics",
                                            "logs", "pause", "resume", "checkpoint"};
        for (size_t k = 0; k < CS_ARRAY_LEN(names); k++)
            cs_lua_screen_take(lua, CS_LUA_OFFER, names[k]);
        cs_lua_screen_take(lua, CS_LUA_OFFERED, "");
        cs_screen_draw(store, &screen, canvas);
        cs_buf_reset(&text);
        cs_canvas_text(canvas, &text);
        check_shape(&text, cols, rows);
        snprintf(file, sizeof file, "tests/golden/tui/lua-%dx%d-%s.txt", cols, rows, sets[i % 2]);
        compare(file, &text);
        cs_screen_free(&screen);
        cs_canvas_free(canvas);
        cs_store_free(store);
    }
    cs_buf_free(&text);
}

static void help_screens_are_as_committed(void **state)
{
    check_view(*state, "help", "pipeline", "?");
    check_view(*state, "help-plan", "plan", "?");
}

static void plan_screens_are_as_committed(void **state)
{
    check_view(*state, "plan-timeline", "plan", "t");
    check_view(*state, "plan-memory", "plan", "m");
    check_view(*state, "plan-whatif", "plan", "w j j j");
    check_view(*state, "plan-balance", "plan", "b + j j");
    check_view(*state, "plan-path", "plan", "c C-d");
    check_view(*state, "plan-preview", "pipeline", "p j j j j j j j Enter t");
}

/* what comes first of two, each after the last line that says from */
static void is_above(const struct fixture *f, const char *view, const char *keys, const char *first,
                     const char *second)
{
    struct cs_buf text = {0};
    render(f, view, 100, 30, CS_GLYPHS_ASCII, keys, &text);
    const char *a = strstr(cs_buf_str(&text), first), *b = strstr(cs_buf_str(&text), second);
    if (!a || !b || a > b)
        fail_msg("%s after %s: %s is not above %s in:\n%s", view, keys, first, second,
                 cs_buf_str(&text));
    cs_buf_free(&text);
}

static void tables_are_filtered_sorted_and_searched(void **state)
{
    const struct fixture *f = *state;
    shows(f, "pipeline", "f vision.0 Enter", "1 of ", "llm.0");
    shows(f, "pipeline", "f nothing.like.it Enter", "0 of ", "llm.0");
    shows(f, "pipeline", "o", "by bubble", NULL);
    shows(f, "pipeline", "o o o o", "[follow]", "by ");
    shows(f, "pipeline", "/ nothing.like.it Enter", "no row has \"nothing.like.it\"", NULL);
    shows(f, "model", "f projector Enter", "vision.projector", "llm.embed");
    shows(f, "model", "f TRAIN Enter", "[TRAIN  ]", "[frozen ]");
    shows(f, "model", "o", "by parameters", NULL);
    is_above(f, "model", "", "vision.projector", "llm.layers");
    is_above(f, "model", "o", "llm.layers", "vision.projector");
    shows(f, "tokens", "f 1 Enter o", "no step whose rows are split", NULL);
}

/* Lines for a screen reader: every view says whose it is, and no line has columns or charts. */
static void every_view_is_read_line_by_line(void **state)
{
    const struct fixture *f = *state;

    static const struct {
        const char *view, *what;
    } rows[] = {
        {"jobs",     "Job 1, test, STATE REPLAY, "    },
        {"model",    "vision.projector, [TRAIN], "    },
        {"pipeline", "rank 1, stage llm.0, busy ms "  },
        {"tokens",   "Nothing is known here yet."     },
        {"metrics",  "loss: "                         },
        {"gpus",     "Nothing is known here yet."     },
        {"logs",     "Logs of job 1, test: "          },
        {"lua",      "Nothing is known here yet."     },
        {"plan",     "Stage llm.0 on rank 1 computes "},
    };

    _Static_assert(CS_ARRAY_LEN(rows) == CS_VIEW_COUNT, "every view");

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_err err = {.text = ""};
        struct cs_buf out = {0};
        const struct cs_dump dump = {
            .trace = f->trace, .view = rows[i].view, .cols = 80, .rows = 24, .is_read = true};
        assert_int_equal(cs_dump_replay(&dump, &out, &err), CS_OK);
        const char *text = cs_buf_str(&out);
        if (!strstr(text, rows[i].what) || strstr(text, "  ") || strstr(text, "\xe2\x94"))
            fail_msg("%s is read as:\n%s", rows[i].view, text);
        assert_memory_equal(strstr(text, " of job 1, test: REPLAY, step "), " of job 1", 9);
        cs_buf_free(&out);
    }
}

/* Every view, its help and the palette, also where there is little room: nothing but ASCII, and the way out is
 * told. */
static void ascii_screens_hold_ascii_only(void **state)
{
    static const int sizes[][2] = {
        {80,  24},
        {100, 30},
        {61,  15},
    };
    static const char *const keys[] = {NULL, "?", ": m"};
    struct cs_buf text = {0};
    for (size_t k = 0; k < CS_ARRAY_LEN(keys) * CS_ARRAY_LEN(sizes) * CS_VIEW_COUNT; k++) {
        const enum cs_view view = (enum cs_view)(k % CS_VIEW_COUNT);
        const int *size = sizes[k / CS_VIEW_COUNT % CS_ARRAY_LEN(sizes)];
        const char *pressed = keys[k / CS_VIEW_COUNT / CS_ARRAY_LEN(sizes)];
        const bool is_typed = view == CS_VIEW_LUA;
        char all[40];
        snprintf(all, sizeof all, "%s%s", is_typed && pressed ? "Esc " : "",
                 pressed                ? pressed
                 : view == CS_VIEW_PLAN ? "b"
                                        : "");
        render(*state, cs_view_name(view), size[0], size[1], CS_GLYPHS_ASCII, all, &text);
        check_shape(&text, size[0], size[1]);
        for (size_t i = 0; i < text.len; i++)
            assert_true(text.data[i] == '\n' || (text.data[i] >= ' ' && text.data[i] <= '~'));
        if (!strstr(cs_buf_str(&text), is_typed && !pressed         ? "Esc keys of the screen"
                                       : pressed && *pressed == ':' ? "Esc leaves"
                                                                    : "q detach"))
            fail_msg("%s at %dx%d does not tell the way out:\n%s", cs_view_name(view), size[0],
                     size[1], cs_buf_str(&text));
    }
    cs_buf_free(&text);
}

static void tiny_screens_are_one_status_line(void **state)
{
    struct cs_buf text = {0};
    render(*state, "pipeline", 59, 14, CS_GLYPHS_ASCII, NULL, &text);
    check_shape(&text, 59, 14);
    const char *newline = strchr(cs_buf_str(&text), '\n');
    assert_non_null(newline);
    assert_int_equal(strspn(newline, "\n"), 14); /* nothing below the first line */
    assert_non_null(strstr(cs_buf_str(&text), "job 1"));
    cs_buf_free(&text);
}

static void badges_tell_frozen_from_trained(void **state)
{
    const struct fixture *f = *state;
    struct cs_buf text = {0};
    render(f, "model", 120, 40, CS_GLYPHS_ASCII, NULL, &text);
    const char *projector = strstr(cs_buf_str(&text), "vision.projector");
    const char *encoder = strstr(cs_buf_str(&text), "vision.encoder.layers");
    assert_non_null(projector);
    assert_non_null(encoder);
    assert_true(strstr(encoder, "[frozen ]") < strchr(encoder, '\n'));
    assert_true(strstr(projector, "[TRAIN  ]") < strchr(projector, '\n'));
    cs_buf_free(&text);
}

static void bad_questions_are_answered_with_what_there_is(void **state)
{
    const struct fixture *f = *state;
    struct cs_err err = {.text = ""};
    struct cs_buf out = {0};
    struct cs_dump dump = {.trace = f->trace, .view = "nonsense", .cols = 80, .rows = 24};
    assert_int_equal(cs_dump_replay(&dump, &out, &err), CS_USAGE);
    assert_non_null(strstr(err.text, "pipeline"));
    dump.view = "jobs";
    dump.keys = "j \x01";
    assert_int_equal(cs_dump_replay(&dump, &out, &err), CS_USAGE);
    dump.keys = NULL;
    dump.trace = "/nowhere/trace";
    assert_int_equal(cs_dump_replay(&dump, &out, &err), CS_NOT_FOUND);
    int cols = 0, rows = 0;
    assert_int_equal(cs_dump_size("80", &cols, &rows, &err), CS_USAGE);
    assert_int_equal(cs_dump_size("0x24", &cols, &rows, &err), CS_USAGE);
    assert_int_equal(cs_dump_size("80x24", &cols, &rows, &err), CS_OK);
    assert_int_equal(cols * 1000 + rows, 80024);
    assert_int_equal(out.len, 0);
    cs_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_screens_are_as_committed),
        cmocka_unit_test(tokens_screens_are_as_committed),
        cmocka_unit_test(metrics_screens_are_as_committed),
        cmocka_unit_test(jobs_screens_are_as_committed),
        cmocka_unit_test(model_screens_are_as_committed),
        cmocka_unit_test(pipeline_screens_are_as_committed),
        cmocka_unit_test(logs_screens_are_as_committed),
        cmocka_unit_test(zoomed_screens_are_as_committed),
        cmocka_unit_test(palette_screens_are_as_committed),
        cmocka_unit_test(failure_screens_are_as_committed),
        cmocka_unit_test(lua_screens_are_as_committed),
        cmocka_unit_test(help_screens_are_as_committed),
        cmocka_unit_test(plan_screens_are_as_committed),
        cmocka_unit_test(tables_are_filtered_sorted_and_searched),
        cmocka_unit_test(every_view_is_read_line_by_line),
        cmocka_unit_test(ascii_screens_hold_ascii_only),
        cmocka_unit_test(tiny_screens_are_one_status_line),
        cmocka_unit_test(badges_tell_frozen_from_trained),
        cmocka_unit_test(bad_questions_are_answered_with_what_there_is),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
