/* The event record: 32 bytes, written by workers and by the simulator, read by everyone. */
#ifndef CS_TRACE_EVENT_H
#define CS_TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

enum cs_event_kind {
    CS_EVENT_ACTION, /* an action of the program; action: id in the rank's list; value: CPU time in
                        us, of a GPU its own */
    CS_EVENT_WAIT,   /* a thread waited: action it wanted to start; value: enum cs_wait */
    CS_EVENT_DATA,   /* waiting for the feeder */
    CS_EVENT_STEP,   /* begin to end of a step on this rank */
    CS_EVENT_SAVE,   /* checkpoint snapshot or write */
    CS_EVENT_KINDS
};

/* what a CS_EVENT_WAIT waited for */
enum cs_wait {
    CS_WAIT_DEPENDENCY, /* an action of another stream of the same rank */
    CS_WAIT_RECV,       /* rows or gradients of a peer */
    CS_WAIT_SEND,       /* room towards a peer */
    CS_WAIT_COLLECTIVE, /* the other members of a communicator */
    CS_WAIT_KINDS
};

enum { CS_EVENT_EVAL = 1 /* flags: the step is an evaluation */ };

struct cs_event {
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; the simulator counts from 0 */
    uint32_t step;
    uint32_t action;
    int32_t value;
    uint16_t kind; /* enum cs_event_kind */
    uint16_t flags;
};

/* No clock of a machine comes this far (36 years of uptime), and differences and sums of some such times
 * still fit into 64 bits. */
#define CS_EVENT_MAX_NS (INT64_C(1) << 60)

/* Whether the times of an event can be those of a clock: files and peers may say anything. */
static inline bool cs_event_is_sane(const struct cs_event *event)
{
    return event->start_ns <= event->end_ns && event->end_ns <= (uint64_t)CS_EVENT_MAX_NS;
}

/* From the clock of their node to the one of the trace: offset_ns is added to both times, which stay
 * at 0 where they would fall below. */
void cs_events_shift(struct cs_event *events, uint32_t n, int64_t offset_ns);

_Static_assert(sizeof(struct cs_event) == 32, "events are 32 bytes");

#endif
