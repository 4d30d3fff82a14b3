/* Fits curves through measured times, by least squares, with no negative term; medians of these. */
#include "worker/measure/fit.h"

#include <stdlib.h>

/* the point that planners ask for weighs as much as that many others */
static const double main_weight = 100.0;

/* Unknowns of a fit: c + b x + a pairs. */
enum { HAS_C = 1, HAS_B = 2, HAS_A = 4 };

/* Of the squared error of the i-th point. Errors are relative to its time, or to its part of the
 * main point's where that is more: a time that is far too short would count for more than all. */
static double weight_of(int i, int main, const double *x, const double *y)
{
    const double part = y[main] * x[i] / x[main], size = y[i] > part ? y[i] : part;
    return (i == main ? main_weight : 1.0) / (size > 1.0 ? size * size : 1.0);
}

static double pairs_of(const double *x, const double *pairs, int i)
{
    return pairs != NULL ? pairs[i] : x[i] * x[i];
}

/* Least squares of relative errors for some of the unknowns: the normal equations, by elimination,
 * in x relative to its largest value. */
static struct cs_quadratic solve(int n, int main, int unknowns, const double *x,
                                 const double *pairs, const double *y)
{
    double eq[3][4] = {{0.0}}, value[3] = {0.0}, scale = 0.0;
    for (int i = 0; i < n; i++)
        scale = x[i] > scale ? x[i] : scale;
    for (int i = 0; i < n; i++) {
        const double power[3] = {1.0, x[i] / scale, pairs_of(x, pairs, i) / (scale * scale)};
        const double weight = weight_of(i, main, x, y);
        for (int r = 0; r < 3; r++) {
            for (int c = 0; c < 3; c++)
                eq[r][c] += weight * power[r] * power[c];
            eq[r][3] += weight * power[r] * y[i];
        }
    }
    for (int p = 0; p < 3; p++)
        for (int r = 0; r < 3; r++) {
            if (r == p || !(unknowns >> p & 1))
                continue;
            const double f = eq[r][p] / eq[p][p];
            for (int c = 0; c < 4; c++)
                eq[r][c] -= f * eq[p][c];
        }
    for (int p = 0; p < 3; p++)
        if (unknowns >> p & 1)
            value[p] = eq[p][3] / eq[p][p];
    return (struct cs_quadratic){value[2] / (scale * scale), value[1] / scale, value[0]};
}

static double error_of(const struct cs_quadratic *q, int n, int main, const double *x,
                       const double *pairs, const double *y)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        const double off = q->a * pairs_of(x, pairs, i) + q->b * x[i] + q->c - y[i];
        sum += weight_of(i, main, x, y) * off * off;
    }
    return sum;
}

static int size_of(int set)
{
    return (set & 1) + (set >> 1 & 1) + (set >> 2 & 1);
}

struct cs_quadratic cs_fit_times(int n, int main, int most_unknowns, const double *x,
                                 const double *pairs, const double *y)
{
    static const int all[] = {0, HAS_B, HAS_B | HAS_C, HAS_A | HAS_B | HAS_C};
    struct cs_quadratic best = solve(n, main, HAS_B, x, pairs, y);
    for (int set = 1; set <= all[most_unknowns]; set++) {
        if ((set & ~all[most_unknowns]) != 0 || size_of(set) > n)
            continue;
        const struct cs_quadratic q = solve(n, main, set, x, pairs, y);
        if (q.a >= 0.0 && q.b >= 0.0 && q.c >= 0.0 &&
            error_of(&q, n, main, x, pairs, y) < error_of(&best, n, main, x, pairs, y))
            best = q;
    }
    return best;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cs_median(int n, double *sample)
{
    qsort(sample, (size_t)n, sizeof *sample, by_value);
    return sample[n / 2];
}
