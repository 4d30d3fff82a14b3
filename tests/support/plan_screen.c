/* The Plan screen of a replayed job as lines, and the numbers found in them. */
#include "tests/support/plan_screen.h"

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
#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "tests/support/tmpdir.h"

enum { COLS = 120, ROWS = 60 };

void plan_screen_new(struct plan_screen **out, const struct cs_test_spec *spec)
{
    struct plan_screen *f = *out = calloc(1, sizeof *f);
    assert_non_null(f);
    cs_test_replay_new(&f->replay, spec, 2);
    f->dir = tmpdir_new();
    snprintf(f->trace, sizeof f->trace, "%s", cs_test_replay_write(&f->replay, f->dir));
}

void plan_screen_free(struct plan_screen *f)
{
    cs_test_replay_free(&f->replay);
    cs_buf_free(&f->text);
    tmpdir_free(f->dir);
    free(f);
}

int plan_screen_set_up(void **state)
{
    const struct cs_test_spec spec = cs_test_replay_spec();
    struct plan_screen *f = NULL;
    plan_screen_new(&f, &spec);
    *state = f;
    return 0;
}

int plan_screen_tear_down(void **state)
{
    plan_screen_free(*state);
    return 0;
}

void plan_screen_show(struct plan_screen *f, const char *keys)
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
    for (char *at = strtok(f->text.data, "\n"); at && f->n_lines < PLAN_SCREEN_LINES;
         at = strtok(NULL, "\n"))
        f->line[f->n_lines++] = at;
}

int plan_screen_find(const struct plan_screen *f, int from, const char *text)
{
    for (int i = from; i < f->n_lines; i++)
        if (strstr(f->line[i], text))
            return i;
    fail_msg("no line holds \"%s\"", text);
    return -1;
}

double shown_after(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    assert_non_null(at);
    return strtod(at + strlen(word), NULL);
}

double shown_from_end(const char *line, int n)
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

void assert_shown(double shown, double true_value, double unit)
{
    if (!(fabs(shown - true_value) <= unit * 0.5 + 1e-9))
        fail_msg("shown %.6f, computed %.6f", shown, true_value);
}

void plan_screen_forecast(const struct plan_screen *f, const struct cs_plan *plan,
                          const char *schedule, int32_t slots, struct cs_forecast *out)
{
    struct cs_err err = {.text = ""};
    struct cs_plan asked = *plan;
    struct cs_program *program = NULL;
    struct cs_device_class device = *cs_device_class_find("cpu");
    const struct cs_program_options how = {.n_slots = slots};
    const struct cs_sim_options sim = {.cost = cs_predict_cost, .user = &device};
    asked.schedule = schedule;
    const struct cs_cluster cluster = {&device, 1, 8};
    const struct cs_needs_of of = {.plan = &asked,
                                   .graph =
                                       cs_plan_rank_graph(f->replay.graph, plan, f->replay.arena),
                                   .cluster = &cluster,
                                   .element = 4};
    if (cs_program_make_with(&asked, f->replay.graph, &how, f->replay.arena, &program, &err) !=
            CS_OK ||
        cs_forecast_with_needs(program, &sim, &of, f->replay.arena, out, &err) != CS_OK)
        fail_msg("%s", err.text);
}
