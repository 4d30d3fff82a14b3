/* Brings events of several nodes onto one clock. */
#include "core/trace/event.h"

static uint64_t shifted(uint64_t ns, int64_t offset_ns)
{
    if (offset_ns >= 0)
        return ns + (uint64_t)offset_ns;
    const uint64_t back = 0 - (uint64_t)offset_ns;
    return ns > back ? ns - back : 0;
}

void cs_events_shift(struct cs_event *events, uint32_t n, int64_t offset_ns)
{
    for (uint32_t i = 0; i < n && offset_ns != 0; i++) {
        events[i].start_ns = shifted(events[i].start_ns, offset_ns);
        events[i].end_ns = shifted(events[i].end_ns, offset_ns);
    }
}
