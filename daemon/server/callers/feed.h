/* What one console has subscribed to, and what waits to be sent of it.
 *
 * Gauges (event.step, event.spans, event.gpus): the latest of each job wins. Timelines of steps
 * (event.spans) are long, and people look at few of them: one in CS_FEED_SPANS_MS. Events and log lines:
 * a bounded queue per subscription, the oldest is dropped and a gap with the count is sent. */
#ifndef CS_SERVER_FEED_H
#define CS_SERVER_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "server/callers/news.h"

enum cs_event_class { CS_CLASS_GAUGE, CS_CLASS_EVENT, CS_CLASS_LOG, CS_CLASS_GPUS };

enum { CS_FEED_SPANS_MS = 200 };

struct cs_sub_wants {
    bool gauges, events, logs, gpus;
};

struct cs_feed;

struct cs_feed *cs_feed_new(void);
void cs_feed_free(struct cs_feed *feed); /* accepts NULL */
/* job 0: all. The number of the subscription, -1: there are too many. */
int64_t cs_feed_open(struct cs_feed *feed, int64_t job, const struct cs_sub_wants *wants);
bool cs_feed_close(struct cs_feed *feed, int64_t sub); /* false: there is no such subscription */
bool cs_feed_wants_gpus(const struct cs_feed *feed);
/* Puts the message into every subscription of its class and job; true: it was wanted.
 * max_events: so many wait per subscription. */
bool cs_feed_put(struct cs_feed *feed, enum cs_event_class class, int64_t job, struct cs_news *news,
                 int64_t max_events);
/* The next message to send, the caller's reference, and whose it is: gaps and events first, then gauges. NULL: none
 * now, by a clock that does not go back; what is held back is there later. */
struct cs_news *cs_feed_take(struct cs_feed *feed, int64_t now_ns, int64_t *sub);

#endif
