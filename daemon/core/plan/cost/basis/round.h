/* Whole-number arithmetic of times that rounds the same on every machine. */
#ifndef CS_PLAN_COST_ROUND_H
#define CS_PLAN_COST_ROUND_H

#include <stdint.h>

__extension__ typedef unsigned __int128 cs_u128;

/* value / by, rounded up; by below 1 counts as 1, what does not fit is INT64_MAX */
static inline int64_t cs_divide_up(cs_u128 value, int64_t by)
{
    if (by < 1)
        by = 1;
    const cs_u128 divisor = (cs_u128)by, q = value / divisor + (value % divisor != 0);
    return q > INT64_MAX ? INT64_MAX : (int64_t)q;
}

/* The same of a count of at least 0 and a number of ranks. */
static inline int64_t cs_over(int64_t count, int64_t ranks)
{
    return cs_divide_up((cs_u128)count, ranks);
}

/* value * num / den, rounded up; 0 unless all are above 0 */
static inline int64_t cs_scale(int64_t value, int64_t num, int64_t den)
{
    if (den < 1 || value < 1 || num < 1)
        return 0;
    return cs_divide_up((cs_u128)value * (cs_u128)num, den);
}

/* Of a time its fixed part, which is nobody's share, and num / den of the rest, rounded up. */
static inline int64_t cs_share_beyond(int64_t ns, int64_t fixed, int64_t num, int64_t den)
{
    const int64_t least = ns < fixed ? ns : fixed;
    return least + cs_scale(ns - least, num, den);
}

#endif
