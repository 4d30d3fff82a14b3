/* Lines of logs: read as files have them, merged by time, told once however often they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/screen/screen.h"
#include "console/store/store.h"
#include "core/wire/log_line.h"

enum { JOB = 41 };

static int set_up(void **state)
{
    struct cs_store *store = cs_store_new();
    cs_store_select(store, JOB);
    *state = store;
    return 0;
}

static int tear_down(void **state)
{
    cs_store_free(*state);
    return 0;
}

static void feed(struct cs_store *store, json_t *msg)
{
    assert_non_null(msg);
    cs_store_message(store, msg);
    json_decref(msg);
}

static void live(struct cs_store *store, int rank, const char *line)
{
    feed(store, json_pack("{s:s,s:i,s:i,s:s}", "type", "event.log", "job", JOB, "rank", rank,
                          "line", line));
}

static const char *text_of(const struct cs_store *store, int i)
{
    return cs_store_line(&store->logs, i)->text;
}

static void add(struct cs_store *store, int64_t wall_ns, const char *text)
{
    cs_lines_add(&store->logs,
                 &(struct cs_lines_new){
                     .level = CS_INFO, .wall_ns = wall_ns, .text = text, .n = strlen(text)});
}

static void a_line_says_time_level_and_text(void **state)
{
    static const struct {
        const char *line;
        enum cs_log_level level;
        int64_t ms; /* of the minute; -1: no time */
        const char *text;
    } rows[] = {
        {"2026-11-27T23:04:23.100Z info feeder.ready samples=4",                      CS_INFO,  23100,
         "feeder.ready samples=4"                                                                                         },
        {"2026-11-27T23:04:23.100Z WARNING: out of beans",                            CS_WARN,  23100, "out of beans"     },
        {"2026-11-27T23:04:23.100Z 2026-11-27T23:04:22.000Z error worker.end rank=3", CS_ERROR,
         23100,                                                                                        "worker.end rank=3"},
        {"2026-11-27T23:04:23.100Z info note text=\"a \\\"b\\\" c\\\\d\"",            CS_INFO,  23100,
         "a \"b\" c\\d"                                                                                                   },
        {"2026-11-27T23:04:23.100Z info step step=40 loss=2.5",                       CS_INFO,  23100, "step=40 loss=2.5" },
        {"2026-11-27T23:04:23.100Z info state state=RUN reason=\"\" step=1",          CS_INFO,  23100,
         "state=RUN step=1"                                                                                               },
        {"2026-11-27T23:04:23.100Z info stepper step=40",                             CS_INFO,  23100, "stepper step=40"  },
        {"plain words",                                                               CS_INFO,  -1,    "plain words"      },
        {"error: no stamp",                                                           CS_ERROR, -1,    "no stamp"         },
        {"9999-99-99T99:99:99.999Z info no date",                                     CS_INFO,  -1,
         "9999-99-99T99:99:99.999Z info no date"                                                                          },
        {"",                                                                          CS_INFO,  -1,    ""                 },
        {"2026-11-27T23:04:23.100Z",                                                  CS_INFO,  23100, ""                 },
        {"2026-11-27T23:04:23.100Z warn",                                             CS_WARN,  23100, ""                 },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_buf text = {0};
        const struct cs_log_line line = cs_log_line_parse(rows[i].line, strlen(rows[i].line));
        cs_log_line_text(&line, &text);
        assert_int_equal(line.level, rows[i].level);
        assert_int_equal(line.wall_ns > 0 ? line.wall_ns / 1000000 % 60000 : -1, rows[i].ms);
        assert_string_equal(cs_buf_str(&text), rows[i].text);
        cs_buf_free(&text);
    }
}

static void long_lines_are_kept_whole_and_cut_between_characters(void **state)
{
    struct cs_store *store = *state;
    static char line[3 * CS_STORE_LINE_MOST + 1];
    memset(line, 'a', 4000);
    add(store, 0, line);
    assert_int_equal(strlen(text_of(store, 0)), 4000);
    for (int i = 0; i < CS_STORE_LINE_MOST; i++)
        memcpy(line + (ptrdiff_t)3 * i, "本", 3);
    add(store, 0, line);
    assert_int_equal(strlen(text_of(store, 1)) % 3, 0);
    assert_true(strlen(text_of(store, 1)) > CS_STORE_LINE_MOST - 8);
}

static void logs_of_several_files_are_merged_by_time(void **state)
{
    struct cs_store *store = *state;
    static const char *const lines[] = {
        "2026-11-27T23:04:23.100Z info a",  "2026-11-27T23:04:23.300Z warn c",
        "no time: stays behind c",          "2026-11-27T23:04:23.200Z error b",
        "2026-11-27T23:04:23.400Z debug d",
    };
    static const char *const expected[] = {"a", "b", "c", "no time: stays behind c", "d"};
    for (size_t i = 0; i < CS_ARRAY_LEN(lines); i++)
        live(store, 0, lines[i]);
    for (size_t i = 0; i < CS_ARRAY_LEN(expected); i++)
        assert_string_equal(text_of(store, (int)i), expected[i]);
}

static void a_full_list_drops_what_is_older_than_all(void **state)
{
    struct cs_store *store = *state;
    const struct cs_store_lines *logs = &store->logs;
    for (int i = 1; i <= CS_STORE_LOGS; i++)
        add(store, 1000 + i, "x");
    add(store, 500, "too old");
    add(store, 1002, "second");
    assert_int_equal(logs->n, CS_STORE_LOGS);
    assert_int_equal(cs_store_line(logs, 0)->wall_ns, 1002);
    assert_string_equal(text_of(store, 1), "second");
    for (int i = 1; i < CS_STORE_LOGS; i++)
        assert_true(cs_store_line(logs, i - 1)->wall_ns <= cs_store_line(logs, i)->wall_ns);
    for (int i = 0; i < logs->n; i++)
        assert_int_equal(cs_lines_find(logs, cs_store_line(logs, i)->number), i);
}

/* The answer about the past and what comes live overlap, in either order; lines that were really said
 * twice stay two. */
static void a_line_that_comes_live_and_from_the_past_is_one(void **state)
{
    struct cs_store *store = *state;
    static const char *const said[] = {
        "2026-11-27T23:04:23.100Z info a",     "2026-11-27T23:04:23.200Z info twice",
        "2026-11-27T23:04:23.200Z info twice", "2026-11-27T23:04:23.300Z info b",
        "2026-11-27T23:04:23.400Z info c",
    };
    for (int round = 0; round < 3; round++) { /* first opening, then a connection that came back */
        for (int i = round == 0 ? 2 : 5; i < 5; i++)
            live(store, 0, said[i]);
        json_t *lines = json_array();
        for (int i = 0; i < 4; i++)
            json_array_append_new(lines, json_pack("[i,s]", 0, said[i]));
        feed(store, json_pack("{s:s,s:b,s:i,s:o}", "type", "job.logs", "reply", 1, "id", 1, "lines",
                              lines));
        live(store, 0, round == 0 ? said[0] : "2026-11-27T23:04:23.500Z info live");
    }
    static const char *const expected[] = {"a", "twice", "twice", "b", "c", "live", "live"};
    assert_int_equal(store->logs.n, CS_ARRAY_LEN(expected));
    for (size_t i = 0; i < CS_ARRAY_LEN(expected); i++)
        assert_string_equal(text_of(store, (int)i), expected[i]);
    live(store, 1, said[0]); /* another rank says the same */
    assert_int_equal(store->logs.n, CS_ARRAY_LEN(expected) + 1);
}

/* The old reason and the end of a pause do not outlive the resume. */
static void a_resumed_job_has_no_old_reason(void **state)
{
    struct cs_store *store = *state;
    store->now_ns = INT64_C(2000000000000);
    feed(store, json_pack("{s:s,s:{s:i,s:s,s:s,s:s,s:I,s:I,s:I}}", "type", "event.job", "job", "id",
                          JOB, "name", "x", "state", "PAUSED", "reason", "paused after step 3",
                          "started_ns", INT64_C(1000000000000), "ended_ns", INT64_C(1100000000000),
                          "step", INT64_C(10)));
    const struct cs_store_job *job = cs_store_selected(store);
    assert_int_equal(cs_store_ran_ns(store, job), INT64_C(100000000000));
    feed(store,
         json_pack("{s:s,s:{s:i,s:s,s:s,s:I,s:I,s:I,s:I}}", "type", "event.job", "job", "id", JOB,
                   "name", "x", "state", "RUN", "started_ns", INT64_C(1000000000000), "stopped_ns",
                   INT64_C(850000000000), "step", INT64_C(10), "steps", INT64_C(20)));
    assert_string_equal(job->reason, "");
    assert_int_equal(cs_store_ran_ns(store, job), INT64_C(150000000000));
    assert_int_equal(cs_store_eta_ns(store, job),
                     INT64_C(150000000000)); /* at the job's own pace */
}

/* warnings of a submission and why the job waits; the mouse finds the lines above */
static void a_queued_job_with_a_warning_shows_why_it_waits(void **state)
{
    static const char why[] = "waits for 2 GPUs: cuda:0 and cuda:1 are held by job 40";
    struct cs_store *store = *state;
    struct cs_canvas *canvas = cs_canvas_new(100, 24);
    struct cs_screen screen;
    struct cs_buf text = {0};
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    cs_screen_show(&screen, CS_VIEW_LOGS);
    for (int is_run = 0; is_run < 2; is_run++) {
        feed(store, json_pack("{s:s,s:{s:i,s:s,s:s,s:s}}", "type", "event.job", "job", "id", JOB,
                              "name", "x", "state", is_run ? "RUN" : "QUEUED", "reason", why));
        if (!is_run)
            live(store, -1, "2026-11-27T23:04:23.100Z WARNING: a slot is too long");
        cs_canvas_clear(canvas);
        cs_screen_draw(store, &screen, canvas);
        cs_buf_reset(&text);
        cs_canvas_text(canvas, &text);
        const char *line = strstr(cs_buf_str(&text), "a slot is too long");
        assert_non_null(line);
        const char *foot = strstr(line, why); /* the head has the state alone */
        assert_int_equal(foot != NULL, !is_run);
    }
    cs_buf_free(&text);
    cs_screen_free(&screen);
    cs_canvas_free(canvas);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_line_says_time_level_and_text),
        T(long_lines_are_kept_whole_and_cut_between_characters),
        T(logs_of_several_files_are_merged_by_time),
        T(a_full_list_drops_what_is_older_than_all),
        T(a_line_that_comes_live_and_from_the_past_is_one),
        T(a_resumed_job_has_no_old_reason),
        T(a_queued_job_with_a_warning_shows_why_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
