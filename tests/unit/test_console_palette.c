/* What keys reach beyond the views: the palette, keys and colours of the user's own, lists that are
 * filtered and sorted, and why a job failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/screen/keys/config.h"
#include "console/screen/keys/keys.h"
#include "console/screen/keys/palette.h"
#include "console/screen/mouse.h"
#include "console/screen/screen.h"
#include "console/views/failure.h"
#include "console/views/job_rows.h"

struct fixture {
    struct cs_store *store;
    struct cs_screen screen;
    struct cs_buf text;
};

static void feed(struct cs_store *store, json_t *msg)
{
    assert_non_null(msg);
    cs_store_message(store, msg);
    json_decref(msg);
}

static void add_job(struct cs_store *store, int id, const char *name, const char *state,
                    const char *reason, double loss)
{
    feed(store,
         json_pack("{s:s,s:{s:i,s:s,s:s,s:s,s:s,s:f,s:i,s:I}}", "type", "event.job", "job", "id",
                   id, "name", name, "owner", "ada", "state", state, "reason", reason, "loss", loss,
                   "checkpoint_step", 40, "ended_ns", (json_int_t)(1000 + id)));
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->store = cs_store_new();
    cs_store_connected(f->store, true);
    add_job(f->store, 3, "vlm-small", "DONE", "", 2.5);
    add_job(f->store, 4, "audio", "RUN", "", 0.25);
    add_job(f->store, 5, "vlm-large", "RUN", "", 1.5);
    cs_screen_init(&f->screen, CS_GLYPHS_ASCII);
    f->screen.view = CS_VIEW_JOBS;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    cs_screen_free(&f->screen);
    cs_store_free(f->store);
    cs_buf_free(&f->text);
    free(f);
    return 0;
}

static void press(struct fixture *f, const char *keys)
{
    struct cs_err err = {.text = ""};
    if (cs_screen_keys(&f->screen, f->store, keys, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static const char *draw(struct fixture *f, int cols, int rows)
{
    struct cs_canvas *canvas = cs_canvas_new(cols, rows);
    cs_buf_reset(&f->text);
    cs_screen_draw(f->store, &f->screen, canvas);
    cs_canvas_text(canvas, &f->text);
    cs_canvas_free(canvas);
    return cs_buf_str(&f->text);
}

static void assert_shows(struct fixture *f, const char *text)
{
    if (!strstr(draw(f, 100, 30), text))
        fail_msg("no \"%s\" in\n%s", text, cs_buf_str(&f->text));
}

/* --- palette ---------------------------------------------------------------------------------- */

static struct cs_choice first_for(struct fixture *f, const char *typed)
{
    static struct cs_choice choices[CS_PALETTE_MOST];
    cs_edit_set(&f->screen.edit, typed);
    const int n = cs_palette_choices(f->store, &f->screen, choices);
    if (n == 0)
        fail_msg("nothing fits \"%s\"", typed);
    return choices[0];
}

static void words_find_what_is_meant_and_name_its_command(void **state)
{
    static const struct {
        const char *typed, *name, *shell;
    } rows[] = {
        {"logs",         "logs",         "cornstarch-console logs 4"     },
        {"metr",         "metrics",      "cornstarch-console metrics 4"  },
        {"pause",        "pause",        "cornstarch-console pause 4"    },
        {"pause 5",      "pause 5",      "cornstarch-console pause 5"    },
        {"job 3",        "job 3",        "cornstarch-console attach 3"   },
        {"large",        "job 5",        "cornstarch-console attach 5"   },
        {"next view",    "next view",    ""                              },
        {"theme mo",     "theme mono",   ""                              },
        {"!doc",         "!doctor",      "cornstarch-console doctor "    },
        {"!logs 4 -n 5", "!logs 4 -n 5", "cornstarch-console logs 4 -n 5"},
    };
    static const struct cs_screen_command commands[] = {
        {"logs",   "[options] ID", "what the processes of a job said", false},
        {"doctor", "",             "what this machine lacks",          false},
        {"stop",   "ID",           "end a job",                        true },
    };

    struct fixture *f = *state;
    f->screen.commands = commands;
    f->screen.n_commands = 3;
    f->screen.cursor_job = 4;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const struct cs_choice choice = first_for(f, rows[i].typed);
        assert_string_equal(choice.name, rows[i].name);
        assert_string_equal(choice.shell, rows[i].shell);
    }
    f->screen.is_read_only = true; /* then nothing that changes a job is there */
    assert_string_not_equal(first_for(f, "stop").name, "stop");
    assert_string_not_equal(first_for(f, "stop").name, "!stop");
}

/* more jobs have the word than the palette has places */
static void the_best_is_found_among_many(void **state)
{
    struct fixture *f = *state;
    for (int id = 10; id < 10 + 2 * CS_PALETTE_MOST; id++)
        add_job(f->store, id, "models", "DONE", "", 1);
    assert_string_equal(first_for(f, "mo").name, "model");
    assert_string_equal(first_for(f, "mous").name, "mouse on");
    for (int id = 10; id < 10 + 2 * CS_PALETTE_MOST; id++)
        add_job(f->store, id, "mouse", "DONE", "", 1);
    assert_string_equal(first_for(f, "mous").name, "mouse on");
}

static void enter_does_what_is_chosen(void **state)
{
    struct fixture *f = *state;
    press(f, ": l o g s Enter");
    assert_int_equal(f->screen.view, CS_VIEW_LOGS);
    assert_int_equal(f->screen.prompt, CS_PROMPT_NONE);
    press(f, ": m e t Tab");
    assert_string_equal(f->screen.edit.text, "metrics");
    press(f, "Esc 1 : p a u s e Space 5 Enter"); /* an order asks as its key does */
    assert_int_equal(f->screen.prompt, CS_PROMPT_CONFIRM);
    assert_int_equal(f->screen.order_job, 5);
    press(f, "n");
    press(f, ": m o u s e Space o n Enter");
    assert_true(f->screen.has_mouse);
    press(f, ": q q q z z Enter");
    assert_int_equal(f->screen.prompt, CS_PROMPT_NONE);
    assert_non_null(strstr(f->screen.message, "nothing here"));
}

static void a_command_runs_as_it_was_typed(void **state)
{
    static const struct cs_screen_command command = {"logs", "ID", "what was said", false};
    struct fixture *f = *state;
    f->screen.commands = &command;
    f->screen.n_commands = 1;
    press(f, ":");
    cs_edit_set(&f->screen.edit, "!logs 4 -n 5");
    assert_true(cs_screen_key(&f->screen, f->store, CS_KEY_ENTER) & CS_DO_SHELL);
    assert_string_equal(f->screen.shell, "logs 4 -n 5");
}

static void the_palette_fits_every_size(void **state)
{
    struct fixture *f = *state;
    press(f, ":");
    for (int rows = 1; rows < 40; rows += 3)
        for (int cols = 1; cols < 220; cols += 13)
            draw(f, cols, rows);
    assert_shows(f, "same as: cornstarch-console jobs");
    assert_shows(f, "Tab completes");
}

/* --- the user's file -------------------------------------------------------------------------- */

static void keys_of_the_user_stand_for_others(void **state)
{
    struct fixture *f = *state;
    struct cs_screen_config config;
    struct cs_err err = {.text = ""};
    const char *text = "# mine\n"
                       "key.F5 = 7\n"
                       "key.logs.z = w g g  # from the top\n"
                       "key.X = none\n"
                       "key.= = g g\n"
                       "color.bad = bright-red on 17 bold\n"
                       "theme = light\n"
                       "mouse = on";
    assert_int_equal(cs_screen_config_read(&config, "console.conf", text, &err), CS_OK);
    f->screen.config = &config;
    assert_true(config.has_mouse);
    assert_int_equal(config.theme, CS_SCHEME_LIGHT);
    assert_true(config.own.has[CS_STYLE_BAD]);
    assert_int_equal(config.own.look[CS_STYLE_BAD].fg, 9);
    assert_int_equal(config.own.look[CS_STYLE_BAD].bg, 17);
    assert_int_equal(config.own.look[CS_STYLE_BAD].attrs, CS_ATTR_BOLD);
    press(f, "X");
    assert_int_equal(f->screen.prompt, CS_PROMPT_NONE);
    press(f, "G = ");
    assert_int_equal(f->screen.cursor_job, 5); /* "g g" of "=" */
    press(f, "z");                             /* of Logs alone */
    assert_false(f->screen.log_wraps);
    press(f, "F5 z");
    assert_int_equal(f->screen.view, CS_VIEW_LOGS);
    assert_true(f->screen.log_wraps);
    press(f, "/ z Enter"); /* a line that is typed takes letters as they are */
    assert_string_equal(f->screen.find, "z");
}

static void wrong_lines_are_named_and_the_others_hold(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"key.F5 = 7\nkey.F99 = 7\n",    "c:2: \"F99\" is no key"                                },
        {"key.F5 = 7\nkey.F6 = 7 Foo\n", "c:2: \"Foo\" is no key"                                },
        {"key.F5 = 7\nkey.los.x = 7\n",  "c:2: there is no view \"los\""                         },
        {"key.F5 = 7\nkey.F6 =\n",       "c:2: no keys"                                          },
        {"key.F5 = 7\ncolor.bda = red",  "did you mean \"bad\"?"                                 },
        {"key.F5 = 7\ncolor.bad = rde",  "c:2: \"rde\" is no colour"                             },
        {"key.F5 = 7\ntheme = pink",     "\"pink\"; default, light, safe, safe-light, mono, none"},
        {"key.F5 = 7\nmouse = yes",      "c:2: mouse is on or off"                               },
        {"key.F5 = 7\nfont = big",       "c:2: there is no \"font\""                             },
        {"key.F5 = 7\nsomething",        "c:2: a line is \"name = value\""                       },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_screen_config config;
        struct cs_err err = {.text = ""};
        assert_int_equal(cs_screen_config_read(&config, "c", rows[i].text, &err), CS_INVALID);
        if (!strstr(err.text, rows[i].says))
            fail_msg("\"%s\" says \"%s\"", rows[i].text, err.text);
        assert_int_equal(config.n_bindings, 1);
    }
}

/* --- lists ------------------------------------------------------------------------------------ */

static void assert_jobs(struct fixture *f, int first, int second, int third)
{
    const int want[] = {first, second, third};
    int rows[CS_STORE_JOBS];
    const int n = cs_job_rows(f->store, &f->screen, rows);
    for (int i = 0; i < 3; i++)
        assert_int_equal(i < n ? (int)f->store->jobs[rows[i]].id : 0, want[i]);
}

static void jobs_are_sorted_filtered_and_searched(void **state)
{
    struct fixture *f = *state;
    assert_jobs(f, 5, 4, 3);
    press(f, "o");
    assert_jobs(f, 4, 5, 3); /* audio, vlm-large, vlm-small */
    press(f, "o o o");
    assert_jobs(f, 4, 5, 3); /* loss */
    assert_shows(f, "sorted by loss");
    press(f, "f v l m Enter");
    assert_jobs(f, 5, 3, 0);
    assert_shows(f, "2 of 3 jobs with \"vlm\"");
    press(f, "G");
    assert_int_equal(cs_screen_job(f->store, &f->screen)->id, 3);
    press(f, "g g / s m a l l Enter");
    assert_int_equal(cs_screen_job(f->store, &f->screen)->id, 3);
    press(f, "f Esc");
    assert_jobs(f, 4, 5, 3);
    press(f, "f n o b o d y Enter");
    assert_jobs(f, 0, 0, 0);
    assert_null(cs_screen_job(f->store, &f->screen));
    draw(f, 80, 24);
}

static void clicks_choose_rows(void **state)
{
    struct fixture *f = *state;
    const struct cs_mouse second = {.cols = 100, .rows = 30, .x = 5, .y = 5};
    press(f, "g g");
    (void)cs_screen_mouse(&f->screen, f->store, &second);
    assert_int_equal(cs_screen_job(f->store, &f->screen)->id, 4);
}

static void the_wheel_scrolls_what_is_seen(void **state)
{
    struct fixture *f = *state;
    const struct cs_mouse down = {.cols = 100, .rows = 30, .x = 5, .y = 5, .wheel = 1};
    press(f, "g g ?");
    (void)cs_screen_mouse(&f->screen, f->store, &down);
    assert_true(f->screen.help_top > 0);
    assert_int_equal(cs_screen_job(f->store, &f->screen)->id, 5);
    press(f, "Esc");
    (void)cs_screen_mouse(&f->screen, f->store, &down);
    assert_int_equal(cs_screen_job(f->store, &f->screen)->id, 3);
}

/* --- failures --------------------------------------------------------------------------------- */

static void fail_job(struct fixture *f)
{
    add_job(
        f->store, 6, "broken", "FAILED",
        "rank 1 (llm.0) died (signal 9) in step 57 at forward of slot 2, samples 11 12; its last "
        "output: all of this reason must be there however long it is, to its very last word END",
        1);
}

static void a_failure_is_told_in_every_view_until_it_is_dismissed(void **state)
{
    struct fixture *f = *state;
    f->screen.opened_ns = 1;
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        f->screen.view = (enum cs_view)v;
        assert_null(strstr(draw(f, 100, 30), "job 6 is FAILED"));
    }
    fail_job(f);
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        f->screen.view = (enum cs_view)v;
        assert_shows(f, "job 6 is FAILED   ! why and what to try");
    }
    press(f, "!");
    assert_int_equal(f->screen.cursor_job, 6);
    assert_shows(f, "very last word END");
    assert_shows(f, "the checkpoint of step 40");
    assert_shows(f, "OOM killer");
    assert_shows(f, "cornstarch-console resume 6");
    press(f, "Esc");
    assert_int_equal(f->screen.failure, 0);
    assert_null(cs_failure_to_tell(f->store, &f->screen));
}

static void a_failure_before_the_screen_was_opened_is_no_news(void **state)
{
    struct fixture *f = *state;
    f->screen.opened_ns = 5000;
    fail_job(f);
    assert_null(cs_failure_to_tell(f->store, &f->screen));
    press(f, "1 g g"); /* but its details say it */
    assert_shows(f, "very last word END");
    add_job(f->store, 6, "broken", "RUN", "", 1); /* it was resumed */
    assert_null(strstr(draw(f, 100, 30), "END"));
}

static void advice_goes_by_the_words_of_the_reason(void **state)
{
    static const struct {
        const char *reason, *says;
    } rows[] = {
        {"rank 0: out of memory: 12 GiB",             "plan SCRIPT" },
        {"step 7: loss is not finite for 10 steps",   "optimizer.lr"},
        {"none of the first 256 samples can be used", "data check"  },
        {"rank 3 stands still for 600 s",             "waited for"  },
        {"write /x: no space left on device",         "make room"   },
        {"checkpoint ckpt-9 is damaged",              "inspect"     },
        {"something that nobody has ever heard of",   "logs"        },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        if (!strstr(cs_failure_advice(rows[i].reason), rows[i].says))
            fail_msg("\"%s\": %s", rows[i].reason, cs_failure_advice(rows[i].reason));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_find_what_is_meant_and_name_its_command),
        TEST(the_best_is_found_among_many),
        TEST(enter_does_what_is_chosen),
        TEST(a_command_runs_as_it_was_typed),
        TEST(the_palette_fits_every_size),
        TEST(keys_of_the_user_stand_for_others),
        TEST(wrong_lines_are_named_and_the_others_hold),
        TEST(jobs_are_sorted_filtered_and_searched),
        TEST(clicks_choose_rows),
        TEST(the_wheel_scrolls_what_is_seen),
        TEST(a_failure_is_told_in_every_view_until_it_is_dismissed),
        TEST(a_failure_before_the_screen_was_opened_is_no_news),
        TEST(advice_goes_by_the_words_of_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
