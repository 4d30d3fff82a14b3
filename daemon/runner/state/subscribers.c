/* Sends what happens to everybody who is connected. */
#include "runner/state/subscribers.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "core/wire/wire.h"

enum { QUEUE_MAX_BYTES = 1 << 20, QUEUE_LOW_BYTES = 1 << 18, MAX_SUBSCRIBERS = 64 };

struct cs_subscriber *cs_subscriber_add(struct cs_runner *r, int fd,
                                        const struct cs_conn_calls *calls)
{
    int n = 0;
    for (const struct cs_subscriber *s = r->subscribers; s != NULL; s = s->next)
        n++;
    if (n >= MAX_SUBSCRIBERS) {
        close(fd);
        return NULL;
    }
    struct cs_subscriber *out = calloc(1, sizeof *out);
    CS_ASSERT(out != NULL);
    out->runner = r;
    const struct cs_conn_options options = {
        .base = r->base, .checks_schema = true, .low = QUEUE_LOW_BYTES, .high = QUEUE_MAX_BYTES};
    out->conn = cs_conn_new(fd, &options, calls, out);
    out->next = r->subscribers;
    r->subscribers = out;
    return out;
}

void cs_subscriber_drop(struct cs_subscriber *subscriber)
{
    struct cs_subscriber **at = &subscriber->runner->subscribers;
    while (*at != subscriber)
        at = &(*at)->next;
    *at = subscriber->next;
    cs_conn_free(subscriber->conn);
    free(subscriber);
}

static void flush(struct cs_runner *r)
{
    int64_t end_ns = cs_now_ns() + 500000000;
    for (;;) {
        size_t queued = 0;
        for (struct cs_subscriber *to = r->subscribers; to != NULL; to = to->next)
            queued += cs_conn_queued(to->conn);
        if (queued == 0 || cs_now_ns() > end_ns)
            return;
        event_base_loop(r->base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
}

void cs_subscriber_send(struct cs_subscriber *to, json_t *msg)
{
    struct cs_err err = {0};
    if (cs_conn_send(to->conn, msg, &err) != CS_OK)
        cs_log(to->runner->log, CS_ERROR, "subscriber.send", CS_KV("type", cs_msg_type(msg)),
               CS_KV("error", (const char *)err.text));
    json_decref(msg);
}

static void send_gap(struct cs_subscriber *to)
{
    json_t *gap = cs_msg_new("gap");
    cs_msg_set_int(gap, "sub", 1);
    cs_msg_set_int(gap, "count", to->dropped);
    cs_subscriber_send(to, gap);
    to->dropped = 0;
}

void cs_subscribers_send(struct cs_runner *r, const json_t *msg)
{
    struct cs_buf line = {0};
    if (r->subscribers == NULL || cs_msg_encode(msg, &line, NULL) != CS_OK)
        return;
    for (struct cs_subscriber *to = r->subscribers; to != NULL; to = to->next) {
        if (cs_conn_is_full(to->conn)) {
            to->dropped++;
            continue;
        }
        if (to->dropped > 0)
            send_gap(to);
        cs_conn_send_line(to->conn, line.data, line.len);
    }
    cs_buf_free(&line);
}

void cs_subscribers_close(struct cs_runner *r)
{
    flush(r);
    while (r->subscribers != NULL)
        cs_subscriber_drop(r->subscribers);
}
