/* Reads the clocks and prints times. */
#include "core/base/system/clock.h"

#include <stdio.h>
#include <time.h>

#include "core/base/status.h"

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;
    CS_ASSERT(clock_gettime(id, &ts) == 0);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t cs_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t cs_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t cs_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void cs_iso_print(char *out, size_t cap, int64_t wall_ns)
{
    int64_t ms = wall_ns / 1000000 - (wall_ns % 1000000 < 0);
    int64_t part = ms % 1000 < 0 ? ms % 1000 + 1000 : ms % 1000;
    time_t seconds = (time_t)((ms - part) / 1000);
    struct tm tm;
    char date[32];
    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        snprintf(out, cap, "-");
    else
        snprintf(out, cap, "%s.%03dZ", date, (int)part);
}
