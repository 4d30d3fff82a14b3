/* Keeps what waits for one console's subscriptions. */
#include "server/callers/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"

enum { MAX_SUBS = 16 };

struct queued {
    struct queued *next;
    struct cs_news *news;
};

struct sub {
    int64_t id, job; /* job 0: all */
    struct cs_sub_wants wants;
    struct queued *head, *last; /* NULL: empty */
    int64_t n, dropped;
};

struct gauge {
    struct gauge *next;
    int64_t job, sub;
    char series[64]; /* type and kind: an evaluation does not hide behind the next step */
    bool is_paced;
    int64_t sent_ns;      /* of one that is paced: the last time */
    struct cs_news *news; /* NULL: nothing waits, of one that is paced */
};

struct cs_feed {
    struct sub subs[MAX_SUBS];
    int n_subs;
    int64_t next_sub;
    struct gauge *gauges;
};

struct cs_feed *cs_feed_new(void)
{
    struct cs_feed *feed = calloc(1, sizeof *feed);
    CS_ASSERT(feed != NULL);
    return feed;
}

/* The oldest message of a queue that is not empty. */
static struct cs_news *pop(struct sub *sub)
{
    struct queued *q = sub->head;
    struct cs_news *news = q->news;
    sub->head = q->next;
    sub->last = sub->head != NULL ? sub->last : NULL;
    sub->n--;
    free(q);
    return news;
}

static void empty(struct sub *sub)
{
    while (sub->head != NULL)
        cs_news_drop(pop(sub));
}

static struct cs_news *pop_gauge(struct gauge **at)
{
    struct gauge *g = *at;
    struct cs_news *news = g->news;
    *at = g->next;
    free(g);
    return news;
}

void cs_feed_free(struct cs_feed *feed)
{
    if (feed == NULL)
        return;
    for (int i = 0; i < feed->n_subs; i++)
        empty(&feed->subs[i]);
    while (feed->gauges != NULL)
        cs_news_drop(pop_gauge(&feed->gauges));
    free(feed);
}

int64_t cs_feed_open(struct cs_feed *feed, int64_t job, const struct cs_sub_wants *wants)
{
    if (feed->n_subs == MAX_SUBS)
        return -1;
    struct sub *sub = &feed->subs[feed->n_subs++];
    *sub = (struct sub){.id = ++feed->next_sub, .job = job, .wants = *wants};
    return sub->id;
}

bool cs_feed_close(struct cs_feed *feed, int64_t id)
{
    int i = 0;
    while (i < feed->n_subs && feed->subs[i].id != id)
        i++;
    if (i == feed->n_subs)
        return false;
    empty(&feed->subs[i]);
    feed->subs[i] = feed->subs[--feed->n_subs];
    for (struct gauge **at = &feed->gauges; *at != NULL;) {
        if ((*at)->sub == id)
            cs_news_drop(pop_gauge(at));
        else
            at = &(*at)->next;
    }
    return true;
}

bool cs_feed_wants_gpus(const struct cs_feed *feed)
{
    for (int i = 0; i < feed->n_subs; i++)
        if (feed->subs[i].wants.gpus)
            return true;
    return false;
}

static void put_gauge(struct cs_feed *feed, const struct sub *sub, int64_t job,
                      struct cs_news *news)
{
    const json_t *message = cs_news_message(news);
    char series[64];
    snprintf(series, sizeof series, "%s %s", cs_msg_type(message), cs_msg_str(message, "kind", ""));
    struct gauge *g = feed->gauges;
    while (g != NULL && !(g->job == job && g->sub == sub->id && strcmp(g->series, series) == 0))
        g = g->next;
    if (g == NULL) {
        g = calloc(1, sizeof *g);
        CS_ASSERT(g != NULL);
        g->job = job;
        g->sub = sub->id;
        g->is_paced = strcmp(cs_msg_type(message), "event.spans") == 0;
        g->sent_ns = INT64_MIN / 2;
        memcpy(g->series, series, sizeof series);
        g->next = feed->gauges;
        feed->gauges = g;
    }
    cs_news_drop(g->news);
    g->news = cs_news_keep(news);
}

static void put_event(struct sub *sub, struct cs_news *news, int64_t max_events)
{
    struct queued *q = calloc(1, sizeof *q);
    CS_ASSERT(q != NULL);
    q->news = cs_news_keep(news);
    if (sub->last != NULL)
        sub->last->next = q;
    else
        sub->head = q;
    sub->last = q;
    if (++sub->n > max_events) {
        cs_news_drop(pop(sub));
        sub->dropped++;
    }
}

bool cs_feed_put(struct cs_feed *feed, enum cs_event_class class, int64_t job, struct cs_news *news,
                 int64_t max_events)
{
    bool is_wanted = false;
    for (int i = 0; i < feed->n_subs; i++) {
        struct sub *sub = &feed->subs[i];
        const bool wants[] = {sub->wants.gauges, sub->wants.events, sub->wants.logs,
                              sub->wants.gpus};
        if (!wants[class] || (sub->job != 0 && sub->job != job && class != CS_CLASS_GPUS))
            continue;
        if (class == CS_CLASS_GAUGE || class == CS_CLASS_GPUS)
            put_gauge(feed, sub, job, news);
        else
            put_event(sub, news, max_events);
        is_wanted = true;
    }
    return is_wanted;
}

static struct cs_news *take_gap(struct sub *sub)
{
    json_t *gap = cs_msg_new("gap");
    cs_msg_set_int(gap, "count", sub->dropped);
    sub->dropped = 0;
    struct cs_news *news = cs_news_new(gap);
    json_decref(gap);
    return news;
}

static bool is_due(const struct gauge *g, int64_t now_ns)
{
    return g->news != NULL &&
           (!g->is_paced || now_ns - g->sent_ns >= CS_FEED_SPANS_MS * INT64_C(1000000));
}

static struct cs_news *take_gauge(struct cs_feed *feed, int64_t now_ns, int64_t *sub)
{
    struct gauge **at = &feed->gauges;
    while (*at != NULL && !is_due(*at, now_ns))
        at = &(*at)->next;
    struct gauge *g = *at;
    if (g == NULL)
        return NULL;
    *sub = g->sub;
    if (!g->is_paced)
        return pop_gauge(at);
    struct cs_news *news = g->news;
    g->news = NULL;
    g->sent_ns = now_ns;
    return news;
}

struct cs_news *cs_feed_take(struct cs_feed *feed, int64_t now_ns, int64_t *sub)
{
    for (int i = 0; i < feed->n_subs; i++) {
        *sub = feed->subs[i].id;
        if (feed->subs[i].dropped > 0)
            return take_gap(&feed->subs[i]);
        if (feed->subs[i].head != NULL)
            return pop(&feed->subs[i]);
    }
    return take_gauge(feed, now_ns, sub);
}
