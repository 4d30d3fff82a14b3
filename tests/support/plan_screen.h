/* The Plan screen of a replayed job as lines of text, and the numbers in them: tests compare what
 * is shown with what simulator, planner and balancer say when asked directly. Link cs_console. */
#ifndef CS_TESTS_SUPPORT_PLAN_SCREEN_H
#define CS_TESTS_SUPPORT_PLAN_SCREEN_H

#include "core/sched/sim/forecast.h"
#include "tests/support/replay.h"

enum { PLAN_SCREEN_LINES = 64 };

struct plan_screen {
    struct cs_test_replay replay;
    char *dir;
    char trace[512];
    struct cs_buf text;
    char *line[PLAN_SCREEN_LINES]; /* of the last plan_screen_show, in text */
    int n_lines;
};

void plan_screen_new(struct plan_screen **out, const struct cs_test_spec *spec);
void plan_screen_free(struct plan_screen *f);
/* group fixtures of cmocka: *state is a plan_screen of cs_test_replay_spec() */
int plan_screen_set_up(void **state);
int plan_screen_tear_down(void **state);

/* draws the screen after these keys into line[] */
void plan_screen_show(struct plan_screen *f, const char *keys);
/* first line at or after `from` that holds the text; fails when there is none */
int plan_screen_find(const struct plan_screen *f, int from, const char *text);
/* What the simulator says of a plan under a schedule, on CPU ranks. */
void plan_screen_forecast(const struct plan_screen *f, const struct cs_plan *plan,
                          const char *schedule, int32_t slots, struct cs_forecast *out);

double shown_after(const char *line, const char *word);
/* the n-th number from the end of a line */
double shown_from_end(const char *line, int n);
/* half a unit of the last digit shown is the most it may be off; NaN fails */
void assert_shown(double shown, double true_value, double unit);

#endif
