/* Takes the events of the ranks out of their rings and keeps them until their step is complete. */
#include "runner/steps/events.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_EVENTS = 1 << 20, DRAIN = 1024 };

static void keep_events(struct cs_child *child, const struct cs_event *events, uint32_t n)
{
    if (child->n_events + n > MAX_EVENTS) { /* a step that never ends: the oldest half goes */
        child->n_events /= 2;
        memmove(child->events, child->events + child->n_events,
                child->n_events * sizeof *child->events);
    }
    if (child->n_events + n > child->cap_events) {
        child->cap_events = (child->n_events + n) * 2;
        child->events = realloc(child->events, child->cap_events * sizeof *child->events);
        CS_ASSERT(child->events);
    }
    memcpy(child->events + child->n_events, events, n * sizeof *events);
    child->n_events += n;
}

void cs_events_drain(struct cs_runner *r)
{
    struct cs_event events[DRAIN];
    for (int i = 0; i < r->generation.n_ranks; i++) {
        uint32_t n;
        do {
            n = cs_ring_get(&r->child[i].ring, events, DRAIN);
            cs_events_shift(events, n, r->node.clock_offset_ns);
            if (n)
                keep_events(&r->child[i], events, n);
        } while (n == DRAIN);
    }
}

struct cs_span_events cs_events_take(struct cs_child *child, int64_t step, struct cs_arena *arena)
{
    struct cs_event *mine = CS_NEW_ARRAY(arena, struct cs_event, child->n_events);
    uint32_t n = 0, kept = 0;
    for (uint32_t i = 0; i < child->n_events; i++) {
        const struct cs_event *e = &child->events[i];
        bool is_eval = (e->flags & CS_EVENT_EVAL) != 0;
        bool is_late_save = e->kind == CS_EVENT_SAVE && (int64_t)e->step < step;
        if (!is_eval && (e->step == (uint32_t)step || is_late_save))
            mine[n++] = *e;
        else if (!is_eval && (int64_t)e->step > step)
            child->events[kept++] = *e;
    }
    child->n_events = kept;
    return (struct cs_span_events){mine, n};
}
