/* Prints figures as screens show them: times, bytes, shares, counts; "-" where unknown. */
#include "console/draw/fmt.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "core/base/status.h"
#include "core/base/units.h"

void cs_fmt_ms(char *out, size_t cap, double ns)
{
    double ms = ns / 1e6;
    if (!isfinite(ns) || ns < 0)
        snprintf(out, cap, "-");
    else
        snprintf(out, cap, "%.*f", ms >= 99.995 ? 1 : ms >= 0.9995 ? 2 : 3, ms);
}

void cs_fmt_gib(char *out, size_t cap, int64_t bytes)
{
    double gib = (double)bytes / (1 << 30);
    if (bytes < 0)
        snprintf(out, cap, "-");
    else
        snprintf(out, cap, "%.*f", gib >= 9.995 ? 1 : gib >= 0.9995 ? 2 : 4, gib);
}

void cs_fmt_percent(char *out, size_t cap, double ratio)
{
    if (isfinite(ratio))
        snprintf(out, cap, "%.1f%%", ratio * 100);
    else
        snprintf(out, cap, "-");
}

void cs_fmt_drift(char *out, size_t cap, double ratio)
{
    if (!isfinite(ratio))
        snprintf(out, cap, "-");
    else if (ratio >= 10)
        snprintf(out, cap, "x%.3g", ratio + 1);
    else
        snprintf(out, cap, "%+.1f%%", ratio * 100);
}

void cs_fmt_loss(char *out, size_t cap, double loss)
{
    if (isnan(loss))
        snprintf(out, cap, "nan");
    else if (isinf(loss))
        snprintf(out, cap, loss > 0 ? "inf" : "-inf");
    else
        snprintf(out, cap,
                 fabs(loss) >= 1000             ? "%.3g"
                 : fabs(loss) >= 1 || loss == 0 ? "%.3f"
                 : fabs(loss) >= 0.0995         ? "%.4f"
                                                : "%.3g", /* digits that say something */
                 loss);
}

void cs_fmt_known_loss(char *out, size_t cap, double loss)
{
    if (isnan(loss))
        snprintf(out, cap, "-");
    else
        cs_fmt_loss(out, cap, loss);
}

void cs_fmt_elapsed(char *out, size_t cap, int64_t ns)
{
    int64_t s = ns / 1000000000;
    if (ns < 0)
        snprintf(out, cap, "-");
    else if (s < 3600)
        snprintf(out, cap, "%02d:%02d", (int)(s / 60), (int)(s % 60));
    else if (s < 86400)
        snprintf(out, cap, "%02d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(out, cap, "%lldd%02dh", (long long)(s / 86400), (int)(s / 3600 % 24));
}

void cs_fmt_clock(char *out, size_t cap, int64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / 1000000000);
    struct tm tm;
    if (wall_ns <= 0 || !localtime_r(&seconds, &tm) || strftime(out, cap, "%H:%M:%S", &tm) == 0)
        snprintf(out, cap, "-");
}

void cs_fmt_clock_ms(char *out, size_t cap, int64_t wall_ns)
{
    char clock[CS_FMT_CAP];
    cs_fmt_clock(clock, sizeof clock, wall_ns);
    if (wall_ns > 0)
        snprintf(out, cap, "%s.%03d", clock, (int)(wall_ns / 1000000 % 1000));
    else
        snprintf(out, cap, "-");
}

void cs_fmt_count(char *out, size_t cap, int64_t count)
{
    if (count < 0)
        snprintf(out, cap, "-");
    else
        cs_count_print(out, cap, (uint64_t)count);
}

void cs_fmt_tokens(char *out, size_t cap, double per_s)
{
    if (!isfinite(per_s) || per_s < 0 || per_s > 1e18)
        snprintf(out, cap, "-");
    else
        cs_count_print(out, cap, (uint64_t)llround(per_s));
}

static void joules(char *out, size_t cap, double j)
{
    static const char *const units[] = {"mJ", "J", "kJ", "MJ", "GJ", "TJ"};
    size_t unit = 0;
    double v = j * 1e3;
    for (; v >= 999.5 && unit + 1 < CS_ARRAY_LEN(units); unit++)
        v /= 1e3;
    snprintf(out, cap, "%.*f %s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, units[unit]);
}

void cs_fmt_energy(char *out, size_t cap, int64_t all_mj, int64_t step_mj, double tokens_per_j)
{
    char all[CS_FMT_CAP], step[CS_FMT_CAP], tokens[CS_FMT_CAP] = "-";
    out[0] = '\0';
    if (all_mj < 0 || step_mj < 0)
        return;
    joules(all, sizeof all, (double)all_mj / 1e3);
    joules(step, sizeof step, (double)step_mj / 1e3);
    if (isfinite(tokens_per_j) && tokens_per_j >= 0 && tokens_per_j < 1e15)
        snprintf(tokens, sizeof tokens, tokens_per_j < 99.95 ? "%.3g" : "%.0f", tokens_per_j);
    snprintf(out, cap, "%s/step   %s tokens/J   %s in all", step, tokens, all);
}
