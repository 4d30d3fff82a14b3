/* What waits for one console: gauges of which the latest wins, timelines that come only so often, events that are
 * dropped with a gap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/wire/wire.h"
#include "server/callers/feed.h"

enum { MOST = 3 };

static const int64_t second_ns = 1000000000, spans_ns = CS_FEED_SPANS_MS * INT64_C(1000000);

static struct cs_feed *feed_of(int64_t job)
{
    const struct cs_sub_wants wants = {.gauges = true, .events = true};
    struct cs_feed *feed = cs_feed_new();
    assert_int_equal(cs_feed_open(feed, job, &wants), 1);
    return feed;
}

static void put(struct cs_feed *feed, enum cs_event_class class, const char *type, int64_t step)
{
    json_t *message = cs_msg_new(type);
    cs_msg_set_int(message, "step", step);
    struct cs_news *news = cs_news_new(message);
    assert_true(cs_feed_put(feed, class, 7, news, MOST));
    cs_news_drop(news);
    json_decref(message);
}

/* the step of the next message, which is of this type; -1: there is none */
static int64_t take(struct cs_feed *feed, int64_t now_ns, const char *type)
{
    int64_t sub = 0;
    struct cs_news *news = cs_feed_take(feed, now_ns, &sub);
    if (news == NULL)
        return -1;
    assert_int_equal(sub, 1);
    assert_string_equal(cs_msg_type(cs_news_message(news)), type);
    const int64_t step = cs_msg_int(cs_news_message(news), "step", -2);
    cs_news_drop(news);
    return step;
}

static void the_latest_gauge_of_a_kind_wins(void **state)
{
    (void)state;
    struct cs_feed *feed = feed_of(7);
    for (int64_t step = 0; step < 5; step++)
        put(feed, CS_CLASS_GAUGE, "event.step", step);
    assert_int_equal(take(feed, second_ns, "event.step"), 4);
    assert_int_equal(take(feed, second_ns, "event.step"), -1);
    put(feed, CS_CLASS_GAUGE, "event.step", 5); /* steps are not held back: charts have them all */
    assert_int_equal(take(feed, second_ns, "event.step"), 5);
    cs_feed_free(feed);
}

static void timelines_come_so_often_and_the_last_one_comes(void **state)
{
    (void)state;
    struct cs_feed *feed = feed_of(0);
    int64_t now_ns = second_ns, sent = 0, last = -1;
    for (int64_t step = 0; step < 100; step++, now_ns += 10000000) {
        put(feed, CS_CLASS_GAUGE, "event.spans", step);
        const int64_t got = take(feed, now_ns, "event.spans");
        assert_true(got == -1 || got == step);
        sent += got >= 0;
        last = got >= 0 ? got : last;
    }
    assert_int_equal(sent, 100 * 10 / CS_FEED_SPANS_MS);
    assert_true(last < 99);
    assert_int_equal(take(feed, now_ns + spans_ns, "event.spans"), 99); /* by the daemon's tick */
    assert_int_equal(take(feed, now_ns + 2 * spans_ns, "event.spans"), -1);
    put(feed, CS_CLASS_GAUGE, "event.spans", 100); /* after a pause at once */
    assert_int_equal(take(feed, now_ns + 10 * spans_ns, "event.spans"), 100);
    put(feed, CS_CLASS_GAUGE, "event.spans", 101);
    assert_true(cs_feed_close(feed, 1)); /* with one that waits */
    cs_feed_free(feed);
}

static void events_beyond_the_bound_leave_a_gap(void **state)
{
    (void)state;
    struct cs_feed *feed = feed_of(7);
    for (int64_t step = 0; step < 2 + MOST; step++)
        put(feed, CS_CLASS_EVENT, "event.note", step);
    put(feed, CS_CLASS_GAUGE, "event.spans", 9);
    int64_t sub;
    struct cs_news *gap = cs_feed_take(feed, 0, &sub);
    assert_string_equal(cs_msg_type(cs_news_message(gap)), "gap");
    assert_int_equal(cs_msg_int(cs_news_message(gap), "count", 0), 2);
    cs_news_drop(gap);
    for (int64_t step = 2; step < 2 + MOST; step++)
        assert_int_equal(take(feed, 0, "event.note"), step);
    assert_int_equal(take(feed, 0, "event.spans"), 9);
    cs_feed_free(feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_gauge_of_a_kind_wins),
        cmocka_unit_test(timelines_come_so_often_and_the_last_one_comes),
        cmocka_unit_test(events_beyond_the_bound_leave_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
