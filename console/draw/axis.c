/* Round ticks and their labels. */
#include "console/draw/axis.h"

#include <math.h>
#include <stdio.h>

#include "core/base/status.h"

struct cs_axis cs_axis_fit(double low, double high, bool is_log)
{
    if (!isfinite(low) || !isfinite(high) || low > high)
        return (struct cs_axis){.low = is_log ? 0.1 : 0, .high = 1, .is_log = is_log};
    is_log = is_log && low > 0;
    if (high - low <= 1e-7 * fmax(fabs(low), fabs(high)) ||
        high - low < 1e-300) { /* one value: in the middle */
        const double most = fmax(fabs(low), fabs(high)), around = most > 0 ? 0.1 * most : 1;
        low -= around;
        high += around;
    }
    return (struct cs_axis){low, high, is_log};
}

double cs_axis_share(const struct cs_axis *axis, double value)
{
    if (!axis->is_log)
        return (value - axis->low) / (axis->high - axis->low);
    return value > 0 ? log(value / axis->low) / log(axis->high / axis->low) : (double)NAN;
}

double cs_axis_value(const struct cs_axis *axis, double share)
{
    if (!axis->is_log)
        return axis->low + share * (axis->high - axis->low);
    return axis->low * pow(axis->high / axis->low, share);
}

/* the least of 1, 2, 5 times a power of ten that is not below */
static double round_up(double value)
{
    const double power = pow(10, floor(log10(value)));
    static const double steps[] = {1, 2, 5, 10};
    for (size_t i = 0; i < CS_ARRAY_LEN(steps); i++)
        if (steps[i] * power >= value * (1 - 1e-9))
            return steps[i] * power;
    return 10 * power;
}

static int ticks_apart(const struct cs_axis *axis, double apart, double out[CS_AXIS_TICKS])
{
    const double first = ceil(axis->low / apart - 1e-9);
    int n = 0;
    for (int i = 0; n < CS_AXIS_TICKS; i++) {
        const double tick = (first + i) * apart;
        if (tick > axis->high + 1e-9 * apart)
            break;
        out[n++] = fabs(tick) < 1e-9 * apart ? 0 : tick;
    }
    return n;
}

/* one tick says nothing of the scale: there are two where there is room for two */
static int linear_ticks(const struct cs_axis *axis, int most, double out[CS_AXIS_TICKS])
{
    const double length = axis->high - axis->low;
    int n = ticks_apart(axis, round_up(length / most), out);
    for (int parts = most + 1; n < 2 && most >= 2 && parts <= 4 * most; parts++)
        n = ticks_apart(axis, round_up(length / parts), out);
    return n > most ? most : n;
}

/* powers of ten, every other one and so on where there are too many */
static int power_ticks(const struct cs_axis *axis, int most, double *out)
{
    const int first = (int)ceil(log10(axis->low) - 1e-13),
              last = (int)floor(log10(axis->high) + 1e-13), count = last - first + 1,
              every = count > most ? (count + most - 1) / most : 1;
    int n = 0;
    for (int p = first; p <= last && n < most; p += every)
        out[n++] = pow(10, p);
    return n;
}

int cs_axis_ticks(const struct cs_axis *axis, int most, double out[CS_AXIS_TICKS])
{
    most = most > CS_AXIS_TICKS ? CS_AXIS_TICKS : most;
    if (most < 1)
        return 0;
    int n = axis->is_log ? power_ticks(axis, most, out) : 0;
    if (n >= 2)
        return n;
    n = linear_ticks(axis, most, out);
    if (axis->is_log && n > 0 && out[0] <= 0) { /* which it does not have */
        for (int i = 1; i < n; i++)
            out[i - 1] = out[i];
        n--;
    }
    return n;
}

double cs_axis_apart(const double *tick, int n)
{
    if (n > 1)
        return tick[1] - tick[0] < tick[0] ? tick[1] - tick[0]
               : tick[0] > 0               ? tick[0]
                                           : tick[1] - tick[0];
    return n == 1 && fabs(tick[0]) > 0 ? pow(10, floor(log10(fabs(tick[0])))) : 1;
}

static void trim_exponent(char *text) /* 3.6e-04 -> 3.6e-4 */
{
    char *to = text;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '0' && at > text && (at[-1] == '-' || at[-1] == '+') && at[1] != '\0')
            continue;
        *to++ = *at;
    }
    *to = '\0';
}

void cs_axis_label(char *out, size_t cap, double value, double apart)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    double size = fabs(value);
    size_t unit = 0;
    if (!isfinite(value)) {
        snprintf(out, cap, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    if (size <= 0) {
        snprintf(out, cap, "0");
        return;
    }
    if (size < 1e-3) {
        snprintf(out, cap, "%.*e", apart > 0 && apart >= size ? 0 : 1, value);
        trim_exponent(out);
        return;
    }
    apart = apart > 0 ? apart : pow(10, floor(log10(size)) - 3);
    for (double most = 9999.5; size >= most && unit + 1 < CS_ARRAY_LEN(units); unit++) {
        most = 999.95;
        size /= 1e3;
        value /= 1e3;
        apart /= 1e3;
    }
    const double digits = ceil(-log10(apart) - 1e-6);
    snprintf(out, cap, "%.*f%s", digits < 0 ? 0 : digits > 6 ? 6 : (int)digits, value, units[unit]);
}
