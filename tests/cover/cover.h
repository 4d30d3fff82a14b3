/* A covering set of layouts: choices of values along axes such that every pair of values that any layout can
 * have together is in one of them, and every triple of values of the axes that make the ranks. */
#ifndef CS_TESTS_COVER_COVER_H
#define CS_TESTS_COVER_COVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/plan/plan.h"
#include "support/spec.h"

enum {
    COVER_AXES = 28,
    COVER_VALUES = 8, /* of an axis, at most */
    COVER_CORE = 8,   /* the first axes: triples of them are covered too */
    COVER_SHAPES =
        4, /* axes that make the model: choices that agree in them have the same weights */
    COVER_RANKS = 16, /* of a layout, at most: all pairs of 1-4 x 1-3 x 1-3 x 1-3 fit */
    COVER_SLOTS = 6,  /* of a step, of all replicas */
    COVER_STEPS = 10
};

/* axes that are known by name; the others are rows of the table */
enum {
    COVER_TP,
    COVER_CP,
    COVER_PP,
    COVER_DP,
    COVER_ZERO,
    COVER_EP,
    COVER_SCHEDULE,
    COVER_MODALITY,
    COVER_SP,
    COVER_CONTEXT_ROWS = 11,
    COVER_EXCHANGE,
    COVER_VISION_TP,
    COVER_VISION_SP,
    COVER_VISION_PP = 16,
    COVER_VISION_DP,
    COVER_VISION_ZERO,
    COVER_VISION_PLACE,
    COVER_VPP,
    COVER_FAMILY_AT = 24,
    COVER_WINDOW = 27
};

/* The number of its value along every axis. */
struct cover_choice {
    uint8_t value[COVER_AXES];
};

struct cover_axis {
    const char *name;
    int n;
    size_t offset;                  /* of the member of struct cs_test_spec */
    const char *text[COVER_VALUES]; /* a text member's values; NULL: a number's */
    int number[COVER_VALUES];

    enum { COVER_INT, COVER_BOOL, COVER_TEXT, COVER_FAMILY } kind;
};

extern const struct cover_axis cover_axes[COVER_AXES];

/* first and number of axes that make the model, which stand last */
enum { COVER_FIRST_SHAPE = COVER_AXES - COVER_SHAPES };

struct cs_test_spec cover_spec(const struct cover_choice *choice);
double cover_slack(
    const struct cover_choice *choice); /* of the model, times the limit of what may differ */
/* the same model on one rank */
struct cs_test_spec cover_spec_alone(const struct cover_choice *choice);
/* What differs from the first values, "tp 2, cp 3, ..."; of capacity n. */
void cover_say(const struct cover_choice *choice, char *out, size_t n);
/* Only these values, of a tuple. */
void cover_say_axes(const struct cover_choice *choice, const int *axis, int n_axes, char *out,
                    size_t n);

/* A layout with all that is made from its document. */
struct cover_plan {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
};

/* Not CS_OK: it is refused, and err says why; close it in any case. */
enum cs_status cover_plan_open(const struct cs_test_spec *options, struct cover_plan *out,
                               struct cs_err *err);
void cover_plan_close(struct cover_plan *p);

/* Values of axes that no layout has together, and what the planner says of the plainest that has. */
struct cover_refusal {
    struct cover_choice choice;
    int axis[3], n_axes;
    char why[256];
};

struct cover_set {
    struct cover_choice *choice; /* (n) */
    int n;
    struct cover_refusal *refusal; /* (n_refusals) */
    int n_refusals;
    int64_t n_tuples; /* that are covered */
};

/* At most `most` layouts, the first of the same order; deterministic. */
void cover_set_make(int most, struct cover_set *out);
void cover_set_free(struct cover_set *set);

#endif
