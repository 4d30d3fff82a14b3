/* Medians of measured times, and curves through those of a layer: c + b x + a x^2, x rows, where they are one
 * document, else a times the sum of the squares of documents. */
#ifndef CS_WORKER_MEASURE_FIT_H
#define CS_WORKER_MEASURE_FIT_H

#include "core/plan/cost/basis/profile.h"

/* n >= 1 points (x[i] > 0, distinct; pairs[i]: what a is times, NULL: x[i]^2; two points with one x have different
 * pairs; y[i] >= 0, ns), of which point `main` counts most: it is
 * met nearly exactly. most_unknowns: 1 (b), 2 (b and c) or 3.
 *
 * Nothing takes less than no time, and times do not fall as rows grow: least squares of relative
 * errors under the condition that no coefficient is below 0. Of the fits with each set of unknowns
 * those that keep it are compared, and the one with the least error is taken; one with b alone
 * always keeps it. So the curve is above 0 wherever x is, whatever noise the points have. Source:
 * Lawson and Hanson, Solving Least Squares Problems, chapter 23 (few unknowns: all sets). */
struct cs_quadratic cs_fit_times(int n, int main, int most_unknowns, const double *x,
                                 const double *pairs, const double *y);

/* of n > 0 samples, which are sorted; of an even number the upper one */
double cs_median(int n, double *sample);

#endif
