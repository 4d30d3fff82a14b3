/* The screen on a job of 100,000 steps and 4096 simulated ranks: how long until a view of it stands, what drawing
 * it anew takes, and what memory it holds while steps go on coming. In one process, without a terminal; CPU time of
 * the thread. Prints; asserts nothing. Usage: bench_console_scale [STAGES] [STEPS] */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "core/plan/json/plan_json.h"
#include "core/wire/wire.h"
#include "tests/support/journal.h"
#include "tests/support/replay.h"

enum { COLS = 200, ROWS = 60, DRAWS = 20, ANSWER_ROWS = 4000 };

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double heap_mib(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd) / (1 << 20);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* what a daemon answers about a long job: rows that each stand for several steps */
static void feed_answer(struct cs_store *store, int64_t steps)
{
    for (int i = 0; i < ANSWER_ROWS; i++) {
        json_t *row = cs_test_step_row(i * steps / ANSWER_ROWS, steps, false);
        json_object_set_new(row, "type", json_string("event.step"));
        cs_store_message(store, row);
        json_decref(row);
    }
}

static void feed_live(struct cs_store *store, int64_t from, int64_t to, int64_t steps)
{
    for (int64_t step = from; step < to; step++) {
        json_t *row = cs_test_step_row(step, steps, false);
        json_object_set_new(row, "type", json_string("event.step"));
        cs_store_message(store, row);
        json_decref(row);
    }
}

/* the first time with what it makes, then the middle and the longest of many */
static void draw_view(struct cs_store *store, enum cs_view view, const char *keys)
{
    struct cs_screen screen;
    struct cs_canvas *canvas = cs_canvas_new(COLS, ROWS);
    struct cs_err err = {.text = ""};
    double took[DRAWS];
    cs_screen_init(&screen, CS_GLYPHS_UTF8);
    cs_screen_show(&screen, view);
    if (keys && cs_screen_keys(&screen, store, keys, &err) != CS_OK)
        printf("%s\n", err.text);
    double from = cpu_ms(), longest_piece = 0;
    for (bool is_more = true; is_more;) {
        const double piece = cpu_ms();
        is_more = cs_screen_prepare(&screen, store);
        longest_piece = cpu_ms() - piece > longest_piece ? cpu_ms() - piece : longest_piece;
    }
    cs_screen_draw(store, &screen, canvas);
    const double first = cpu_ms() - from;
    for (int i = 0; i < DRAWS; i++) {
        from = cpu_ms();
        cs_screen_key(&screen, store, i % 2 ? 'j' : 'k');
        while (cs_screen_prepare(&screen, store))
            ;
        cs_screen_draw(store, &screen, canvas);
        took[i] = cpu_ms() - from;
    }
    qsort(took, DRAWS, sizeof *took, compare);
    printf("%-9s %-14s %9.2f %12.2f %9.2f %9.2f\n", cs_view_name(view), keys ? keys : "", first,
           longest_piece, took[DRAWS / 2], took[DRAWS - 1]);
    cs_screen_free(&screen);
    cs_canvas_free(canvas);
}

static const struct {
    enum cs_view view;
    const char *keys;
} views[] = {
    {CS_VIEW_JOBS,     NULL              },
    {CS_VIEW_MODEL,    NULL              },
    {CS_VIEW_MODEL,    "f layers.7 Enter"},
    {CS_VIEW_PIPELINE, NULL              },
    {CS_VIEW_PIPELINE, "o"               },
    {CS_VIEW_PIPELINE, "f llm.7 Enter"   },
    {CS_VIEW_TOKENS,   NULL              },
    {CS_VIEW_METRICS,  NULL              },
    {CS_VIEW_GPUS,     NULL              },
    {CS_VIEW_LOGS,     NULL              },
    {CS_VIEW_LUA,      NULL              },
    {CS_VIEW_PLAN,     NULL              },
    {CS_VIEW_PLAN,     "m"               },
    {CS_VIEW_PLAN,     "c"               },
};

int main(int argc, char **argv)
{
    const int stages =
        argc > 1 ? atoi(argv[1]) : 1023; /* of four ranks each, and one of the encoder */
    const int64_t steps = argc > 2 ? atoll(argv[2]) : 100000;
    const struct cs_test_spec spec = {
        .llm_layers = stages, .llm_pp = stages, .llm_cp = 4, .slots = 8, .steps = (int)steps};
    struct cs_test_replay replay;
    struct cs_err err = {.text = ""};
    cs_test_replay_new(&replay, &spec, 1);
    json_t *plan = cs_plan_json(replay.plan, replay.graph);
    const double before_mib = heap_mib(), from = cpu_ms();
    struct cs_store *store = cs_store_new();
    if (cs_store_trace(store, replay.trace.data, replay.trace.len, &err) != CS_OK)
        printf("%s\n", err.text);
    const double traced = cpu_ms();
    cs_store_documents(store, replay.spec, plan);
    const double read = cpu_ms();
    if (store->model_error[0])
        printf("%s\n", store->model_error);
    feed_answer(store, steps);
    printf("%d ranks, %lld steps, a trace of %.1f MiB, %dx%d; ms of CPU\n", store->n_ranks,
           (long long)steps, (double)replay.trace.len / (1 << 20), COLS, ROWS);
    printf("opened: trace %.1f, documents %.1f, rows %.1f; %.1f MiB\n\n", traced - from,
           read - traced, cpu_ms() - read, heap_mib() - before_mib);
    printf("%-9s %-14s %9s %12s %9s %9s\n", "view", "keys", "first", "largest part", "median",
           "longest");
    for (size_t i = 0; i < CS_ARRAY_LEN(views); i++)
        draw_view(store, views[i].view, views[i].keys);
    printf("\nsteps      MiB held\n");
    for (int64_t at = 0; at < steps; at += steps / 5) {
        feed_live(store, at, at + steps / 5, steps);
        printf("%-10lld %.2f\n", (long long)(at + steps / 5), heap_mib() - before_mib);
    }
    json_decref(plan);
    cs_store_free(store);
    cs_test_replay_free(&replay);
    return 0;
}
