/* Axes of charts: where a value lies, round ticks, their labels. Pure numbers; what is drawn in a
 * terminal (chart.h) and in a picture share them. */
#ifndef CS_CONSOLE_DRAW_AXIS_H
#define CS_CONSOLE_DRAW_AXIS_H

#include <stdbool.h>
#include <stddef.h>

struct cs_axis {
    double low, high; /* low < high after cs_axis_fit */
    bool is_log;      /* then both are above 0 */
};

enum { CS_AXIS_TICKS = 16 };

/* Around values from low to high; NaN, or low above high: nothing is known, 0 to 1. A range of no
 * length is widened; one that log cannot show (low <= 0) becomes linear. */
struct cs_axis cs_axis_fit(double low, double high, bool is_log);
/* 0 at low, 1 at high; beyond the ends too. NaN: a value that a log axis does not have. */
double cs_axis_share(const struct cs_axis *axis, double value);
double cs_axis_value(const struct cs_axis *axis, double share); /* and back */
/* at most `most` (and CS_AXIS_TICKS) round values inside, ascending; returns how many */
int cs_axis_ticks(const struct cs_axis *axis, int most, double out[CS_AXIS_TICKS]);
/* of labels of such ticks: the least distance that they must tell apart */
double cs_axis_apart(const double *tick, int n);
/* "2.5" "75k" "3.6e-4": as many digits as values `apart` need to differ; apart 0: four */
void cs_axis_label(char *out, size_t cap, double value, double apart);

#endif
