/* Every pair of values of the axes of layouts that a layout can have together, and every triple of those that
 * make its ranks, trains as one rank does: losses, gradients, moments and weights, over ten steps, on processes;
 * half of them from another layout's checkpoint. So many layouts, with --long or CORNSTARCH_LONG all.
 *
 *   cover_layouts [--long] [--rows N] [--part K/N] [--from N] [--only TEXT] [--list] [--refused] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cover/job.h"
#include "store/fsio.h"

enum { FEW = 200, ALL = 4096 };

static struct {
    const char *only;
    int rows, from, part, parts; /* of as many neighbours, which have models in common */
    bool is_list, has_refused;
} options = {.rows = FEW, .parts = 1};

/* What layouts of one model are compared with, and the checkpoint of the last one that was right. */
struct base {
    struct cover_choice choice;
    struct cover_outcome one, last;
    bool is_open;
};

static bool is_same_model(const struct cover_choice *a, const struct cover_choice *b)
{
    return memcmp(a->value + COVER_FIRST_SHAPE, b->value + COVER_FIRST_SHAPE, COVER_SHAPES) == 0;
}

static void close_base(struct base *b)
{
    cover_outcome_free(&b->one);
    cover_outcome_free(&b->last);
    b->is_open = false;
}

static void open_base(struct base *b, const struct cover_choice *choice)
{
    struct cover_plan plan;
    struct cs_err err = {.text = ""};
    const struct cs_test_spec alone = cover_spec_alone(choice);
    if (b->is_open && is_same_model(&b->choice, choice))
        return;
    close_base(b);
    *b = (struct base){.choice = *choice, .is_open = true};
    enum cs_status status = cover_plan_open(&alone, &plan, &err);
    if (status == CS_OK)
        status = cover_job_run(&plan, NULL, &b->one, &err);
    if (status != CS_OK)
        fail_msg("one rank: %s", err.text);
    assert_int_equal(b->one.n_ranks, 1);
    cover_plan_close(&plan);
}

/* Returns whether it is as one rank's; it is the base's last then. */
static bool run_layout(struct base *b, const struct cover_choice *choice, int number)
{
    struct cover_plan plan;
    struct cover_outcome many = {.dir = NULL};
    struct cs_err err = {.text = ""};
    char from[CS_PATH_CAP], text[512];
    double worst = 0;
    const struct cs_test_spec spec = cover_spec(choice);
    open_base(b, choice);
    cover_job_saved(b->last.dir != NULL ? &b->last : &b->one, 1, from);
    enum cs_status status = cover_plan_open(&spec, &plan, &err);
    if (status == CS_OK)
        status = cover_job_run(&plan, from, &many, &err);
    if (status == CS_OK)
        status = cover_compare(&plan, &b->one, &many, cover_slack(choice), &worst, &err);
    cover_say(choice, text, sizeof text);
    print_message("%4d %-6s %2d ranks  %.2f  %s\n", number, status == CS_OK ? "ok" : "WRONG",
                  many.n_ranks, worst, text);
    if (status != CS_OK)
        print_message("            %s\n", err.text);
    cover_plan_close(&plan);
    if (status == CS_OK) {
        cover_outcome_free(&b->last);
        b->last = many;
    } else
        cover_outcome_free(&many);
    return status == CS_OK;
}

static int by_model(const void *a, const void *b)
{
    const struct cover_choice *x = a, *y = b;
    return memcmp(x->value + COVER_FIRST_SHAPE, y->value + COVER_FIRST_SHAPE, COVER_SHAPES);
}

static void tell_refusals(const struct cover_set *set)
{
    for (int i = 0; options.has_refused && i < set->n_refusals; i++) {
        const struct cover_refusal *r = &set->refusal[i];
        char text[256];
        cover_say_axes(&r->choice, r->axis, r->n_axes, text, sizeof text);
        print_message("refused: %s: %s\n", text, r->why);
        cover_say(&r->choice, text, sizeof text);
        print_message("         as %s\n", text);
    }
    print_message("%d layouts for %lld pairs and triples; %d go with no layout\n", set->n,
                  (long long)set->n_tuples, set->n_refusals);
}

static bool is_wanted(const struct cover_choice *choice, int number)
{
    char text[512];
    cover_say(choice, text, sizeof text);
    return number >= options.from && (options.only == NULL || strstr(text, options.only) != NULL);
}

static void layouts_train_as_one_rank(void **state)
{
    struct cover_set set;
    struct base base = {.is_open = false};
    int n_run = 0, n_bad = 0;
    (void)state;
    cover_set_make(options.rows, &set);
    tell_refusals(&set);
    qsort(set.choice, (size_t)set.n, sizeof *set.choice, by_model);
    const int first = set.n * options.part / options.parts,
              end = set.n * (options.part + 1) / options.parts;
    for (int i = first; i < end && !options.is_list; i++) {
        if (!is_wanted(&set.choice[i], i))
            continue;
        n_run++;
        n_bad += !run_layout(&base, &set.choice[i], i);
    }
    close_base(&base);
    cover_set_free(&set);
    print_message("%d layouts ran, %d were wrong\n", n_run, n_bad);
    assert_int_equal(n_bad, 0);
}

static void read_options(int argc, char **argv)
{
    const char *is_long = getenv("CORNSTARCH_LONG");
    if (is_long != NULL && *is_long != '\0')
        options.rows = ALL;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--long") == 0)
            options.rows = ALL;
        else if (strcmp(argv[i], "--list") == 0)
            options.is_list = true;
        else if (strcmp(argv[i], "--refused") == 0)
            options.has_refused = true;
        else if (strcmp(argv[i], "--rows") == 0)
            options.rows = atoi(value), i++;
        else if (strcmp(argv[i], "--part") == 0 &&
                 sscanf(value, "%d/%d", &options.part, &options.parts) == 2 && options.part >= 0 &&
                 options.part < options.parts)
            i++;
        else if (strcmp(argv[i], "--from") == 0)
            options.from = atoi(value), i++;
        else if (strcmp(argv[i], "--only") == 0)
            options.only = value, i++;
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_train_as_one_rank),
    };
    read_options(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
