/* Takes the time of parts of some work. */
#include "core/base/system/laps.h"

#include <stddef.h>

#include "core/base/system/clock.h"

void cs_laps_begin(struct cs_laps *laps)
{
    *laps = (struct cs_laps){.last_ns = cs_now_ns()};
}

void cs_laps_take(struct cs_laps *laps, const char *what)
{
    if (laps == NULL)
        return;
    const int64_t now = cs_now_ns();
    if (laps->n < CS_LAPS_MAX)
        laps->lap[laps->n++].what = what;
    laps->lap[laps->n - 1].ns += now - laps->last_ns;
    laps->last_ns = now;
}
