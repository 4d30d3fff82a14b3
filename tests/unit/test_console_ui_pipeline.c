/* The figures on the Pipeline screen are the simulator's: read back from the text and compared. */
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
#include "tests/support/replay.h"
#include "tests/support/tmpdir.h"

enum { COLS = 120, ROWS = 40, LINES = 64 };

struct fixture {
    struct cs_test_replay replay;
    char *dir;
    struct cs_buf text;
    char *line[LINES];
    int n_lines;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct cs_test_spec spec = cs_test_replay_spec();
    struct cs_err err = {.text = ""};
    cs_test_replay_new(&f->replay, &spec, 2);
    f->dir = tmpdir_new();
    const struct cs_dump dump = {.trace = cs_test_replay_write(&f->replay, f->dir),
                                 .view = "pipeline",
                                 .cols = COLS,
                                 .rows = ROWS,
                                 .glyphs = CS_GLYPHS_ASCII};
    if (cs_dump_replay(&dump, &f->text, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (char *at = strtok(f->text.data, "\n"); at && f->n_lines < LINES; at = strtok(NULL, "\n"))
        f->line[f->n_lines++] = at;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    cs_test_replay_free(&f->replay);
    cs_buf_free(&f->text);
    tmpdir_free(f->dir);
    free(f);
    return 0;
}

/* first line at or after `from` that starts with the text */
static int find(const struct fixture *f, int from, const char *start)
{
    for (int i = from; i < f->n_lines; i++)
        if (strncmp(f->line[i], start, strlen(start)) == 0)
            return i;
    fail_msg("no line starts with \"%s\"", start);
    return -1;
}

static double number_after(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    assert_non_null(at);
    return strtod(at + strlen(word), NULL);
}

/* shown with two or three digits behind the point: half a unit of the last is the most it may be
 * off */
static void assert_near(double shown, double true_value, double unit)
{
    if (!(fabs(shown - true_value) <= unit * 0.5 + 1e-9))
        fail_msg("shown %.6f, simulated %.6f", shown, true_value);
}

static double mean_bubble(const struct cs_sim_result *sim, int n)
{
    double sum = 0;
    for (int s = 0; s < n; s++)
        sum += sim->bubble[s];
    return sum / n;
}

static void summary_shows_both_makespans_and_bubbles(void **state)
{
    const struct fixture *f = *state;
    const struct cs_test_replay *t = &f->replay;
    const char *line = f->line[find(f, 0, " step 41")];
    assert_near(number_after(line, "predicted "), (double)t->predicted.makespan_ns / 1e6, 0.1);
    assert_near(number_after(line, "measured "), (double)t->measured.makespan_ns / 1e6, 0.1);
    assert_near(number_after(line, "bubble "), 100 * mean_bubble(&t->predicted, t->plan->n_stages),
                0.1);
    assert_near(number_after(strstr(line, "measured"), "bubble "),
                100 * mean_bubble(&t->measured, t->plan->n_stages), 0.1);
}

static void check_chart(const struct fixture *f, const char *title, const struct cs_sim_result *sim)
{
    int at = find(f, 0, title);
    for (int s = 0; s < f->replay.plan->n_stages; s++) {
        const char *line = f->line[at + 1 + s], *percent = strrchr(line, ' ');
        assert_non_null(strstr(line, f->replay.plan->stages[s].name));
        assert_near(strtod(percent, NULL), 100 * sim->bubble[s], 0.1);
    }
}

static void charts_show_the_bubble_of_every_stage(void **state)
{
    const struct fixture *f = *state;
    check_chart(f, " predicted", &f->replay.predicted);
    check_chart(f, " measured", &f->replay.measured);
}

/* Cells of a chart that are not idle cover what the stage computes, within the rounding of its
 * ends. */
static void charts_are_as_busy_as_the_stages(void **state)
{
    const struct fixture *f = *state;
    int at = find(f, 0, " measured");
    const char *axis = f->line[at];
    int first = (int)(strchr(axis, '0') - axis), width = (int)(strstr(axis, "ms") - axis) - first;
    for (int s = 1; s < f->replay.plan->n_stages; s++) { /* stage 0 has spans below one column */
        const char *row = f->line[at + 1 + s] + first;
        int busy = 0;
        for (int i = 0; i < width; i++)
            busy += row[i] != '.' && row[i] != '=' && row[i] != ' ';
        double share = 1 - f->replay.measured.bubble[s];
        assert_in_range((int)fabs(busy - share * width), 0, 2 * f->replay.plan->slots);
    }
}

static void table_shows_what_the_simulator_says(void **state)
{
    const struct fixture *f = *state;
    const struct cs_test_replay *t = &f->replay;
    int at = find(f, find(f, 0, " measured"), " rank");
    for (int s = 0; s < t->plan->n_stages; s++) {
        char name[32];
        int rank;
        double busy, idle, bubble, recv, sent, opt, fwd, bwd, drift;
        const char *line = f->line[at + 1 + s];
        assert_int_equal(sscanf(line, "%d %31s %lf %lf %lf%% %lf %lf %lf %lf / %lf %lf%%", &rank,
                                name, &busy, &idle, &bubble, &recv, &sent, &opt, &fwd, &bwd,
                                &drift),
                         11);
        const struct cs_stage *stage = &t->plan->stages[s];
        assert_string_equal(name, stage->name);
        assert_int_equal(rank, stage->rank);
        assert_near(busy, (double)t->measured.busy_ns[s] / 1e6, busy > 100 ? 0.1 : 0.01);
        assert_near(idle, (double)(t->measured.makespan_ns - t->measured.busy_ns[s]) / 1e6,
                    idle > 100 ? 0.1 : 0.01);
        assert_near(bubble, 100 * t->measured.bubble[s], 0.1);
        double more = s == t->plan->n_stages - 1 ? 1.02 * 1.1 : 1.02;
        assert_near(fwd, (double)stage->fwd_ns * more / 1e6, 0.01);
        assert_near(bwd, (double)(stage->bwd_input_ns + stage->bwd_weight_ns) * more / 1e6, 0.01);
        assert_near(drift, 100 * (more - 1), 0.1);
        assert_int_equal(strstr(line, "slow") != NULL, s == t->plan->n_stages - 1);
        /* the trace has one wait of 1000 ns times the number of actions */
        assert_near(recv, (double)t->program->rank[rank].n_actions * 1e-3, 0.001);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_shows_both_makespans_and_bubbles),
        cmocka_unit_test(charts_show_the_bubble_of_every_stage),
        cmocka_unit_test(charts_are_as_busy_as_the_stages),
        cmocka_unit_test(table_shows_what_the_simulator_says),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
