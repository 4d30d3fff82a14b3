/* One connection of JSON lines: pieces, limits, slow and dying peers, both ways of driving it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/wire.h"
#include "net/conn.h"

/* A connection over a pair of sockets; peer is the other end, which the test plays. */
struct pair {
    struct event_base *base;
    struct cs_conn *conn;
    int peer;
    char seen[400]; /* ids of messages, "bad", "room", "closed" in the order of the calls */
    enum cs_status bad, closed;
    char why[200];
    bool ends_after_bad, frees_at_message, holds_at_message;
};

static void note(struct pair *p, const char *word)
{
    size_t n = strlen(p->seen);
    snprintf(p->seen + n, sizeof p->seen - n, "%s ", word);
}

static void on_message(void *user, const json_t *msg)
{
    struct pair *p = user;
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)cs_msg_id(msg));
    note(p, id);
    if (p->holds_at_message)
        cs_conn_hold(p->conn, true);
    if (p->frees_at_message) {
        cs_conn_free(p->conn);
        p->conn = NULL;
    }
}

static void on_bad(void *user, const struct cs_err *err)
{
    struct pair *p = user;
    note(p, "bad");
    p->bad = err->status;
    if (p->ends_after_bad) {
        json_t *error = cs_msg_error(NULL, err);
        assert_int_equal(cs_conn_send(p->conn, error, NULL), CS_OK);
        json_decref(error);
        cs_conn_finish(p->conn);
    }
}

static void on_closed(void *user, const struct cs_err *why)
{
    struct pair *p = user;
    note(p, "closed");
    p->closed = why->status;
    snprintf(p->why, sizeof p->why, "%.190s", why->text);
}

static void on_room(void *user)
{
    note(user, "room");
}

static const struct cs_conn_calls calls = {
    .on_message = on_message, .on_bad = on_bad, .on_closed = on_closed};
static const struct cs_conn_calls with_room = {
    .on_message = on_message, .on_bad = on_bad, .on_closed = on_closed, .on_room = on_room};

static void open_pair(struct pair *p, struct cs_conn_options options, bool has_loop,
                      const struct cs_conn_calls *its_calls)
{
    int ends[2];
    *p = (struct pair){.closed = CS_STATUS_COUNT, .bad = CS_STATUS_COUNT};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    p->base = has_loop ? event_base_new() : NULL;
    options.base = p->base;
    p->conn = cs_conn_new(ends[0], &options, its_calls, p);
    p->peer = ends[1];
}

static void close_pair(struct pair *p)
{
    cs_conn_free(p->conn);
    if (p->peer != -1)
        close(p->peer);
    if (p->base != NULL)
        event_base_free(p->base);
}

static void say(const struct pair *p, const char *text)
{
    assert_int_equal(write(p->peer, text, strlen(text)), (ssize_t)strlen(text));
}

static void turn(const struct pair *p)
{
    for (int i = 0; i < 8; i++)
        event_base_loop(p->base, EVLOOP_NONBLOCK);
}

static void lines_come_whole_however_they_are_cut(void **state)
{
    static const char text[] = "{\"type\":\"ping\",\"id\":1}\n\n{\"type\":\"ping\",\"id\":2}\n";
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){0}, true, &calls);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        assert_int_equal(write(p.peer, text + i, 1), 1);
        turn(&p);
    }
    say(&p, "{\"type\":\"ping\",\"id\":3}\n{\"type\":\"ping\",\"id\":4}\n{\"type\":\"pi");
    turn(&p);
    say(&p, "ng\",\"id\":5}\n");
    turn(&p);
    assert_string_equal(p.seen, "1 2 3 4 5 ");
    assert_int_equal(cs_conn_stats(p.conn)->lines_in, 5);
    close_pair(&p);
}

static void a_bad_line_takes_no_other_with_it(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){.checks_schema = true}, true, &calls);
    say(&p, "{\"type\":\"ping\",\"id\":1}\nno json\n{\"type\":\"job.show\",\"id\":2}\n"
            "{\"type\":\"ping\",\"id\":3}\n");
    turn(&p);
    assert_string_equal(p.seen, "1 bad bad 3 "); /* job.show has no job */
    assert_int_equal(p.bad, CS_INVALID);
    assert_int_equal(cs_conn_stats(p.conn)->bad_lines, 2);
    close_pair(&p);
}

static void an_endless_line_ends_the_connection(void **state)
{
    char text[300];
    struct pair p;
    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    open_pair(&p, (struct cs_conn_options){.line_max = 100}, true, &calls);
    say(&p, "{\"type\":\"ping\",\"id\":1}\n");
    say(&p, text);
    turn(&p);
    assert_string_equal(p.seen, "1 bad closed ");
    assert_int_equal(p.bad, CS_LIMIT);
    assert_int_equal(p.closed, CS_LIMIT);
    close_pair(&p);
    /* with a word to the peer before */
    open_pair(&p, (struct cs_conn_options){.line_max = 100}, true, &calls);
    p.ends_after_bad = true;
    say(&p, text);
    turn(&p);
    assert_string_equal(p.seen, "bad closed ");
    assert_int_equal(p.closed, CS_OK);
    assert_true(read(p.peer, text, sizeof text) > 10);
    assert_non_null(strstr(text, "\"error\""));
    close_pair(&p);
}

static void a_peer_that_closes_in_a_line_is_told_so(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){0}, true, &calls);
    say(&p, "{\"type\":\"ping\",\"id\":1}\n{\"type\":\"pi");
    close(p.peer);
    p.peer = -1;
    turn(&p);
    assert_string_equal(p.seen, "1 closed ");
    assert_int_equal(p.closed, CS_PEER_GONE);
    assert_non_null(strstr(p.why, "in the middle of a line"));
    close_pair(&p);
}

static void fill(struct pair *p, size_t bytes)
{
    json_t *msg = cs_msg_new("runner.log");
    cs_msg_set_int(msg, "rank", 0);
    cs_msg_set_str(msg, "line", "some text that a rank has printed");
    for (size_t n = 0; n < bytes; n += 60)
        assert_int_equal(cs_conn_send(p->conn, msg, NULL), CS_OK);
    json_decref(msg);
}

static size_t swallow(const struct pair *p)
{
    char bytes[65536];
    size_t sum = 0;
    for (ssize_t n; (n = recv(p->peer, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
        sum += (size_t)n;
    return sum;
}

/* more than the kernel's buffers of the pair take */
enum { MUCH = 4 << 20 };

static void who_does_not_read_is_not_read(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){.low = 1000, .high = MUCH / 2}, true, &with_room);
    fill(&p, MUCH);
    turn(&p);
    assert_true(cs_conn_is_full(p.conn));
    say(&p, "{\"type\":\"ping\",\"id\":1}\n");
    turn(&p);
    assert_string_equal(p.seen, ""); /* it asks while it does not take: it waits */
    size_t taken = 0;
    for (int i = 0; i < 10000 && cs_conn_queued(p.conn) > 0; i++) {
        taken += swallow(&p);
        turn(&p);
    }
    taken += swallow(&p);
    assert_false(cs_conn_is_full(p.conn));
    assert_int_equal(taken, cs_conn_stats(p.conn)->bytes_out);
    assert_true(taken >= MUCH);
    turn(&p);
    assert_non_null(strstr(p.seen, "room "));
    assert_non_null(strstr(p.seen, "1 "));
    close_pair(&p);
}

static void what_a_dying_peer_said_is_heard(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){0}, true, &calls);
    say(&p, "{\"type\":\"ping\",\"id\":1}\n{\"type\":\"ping\",\"id\":2}\n");
    close(p.peer);
    p.peer = -1;
    fill(&p, 100);
    assert_int_equal(cs_conn_flush(p.conn, NULL), CS_PEER_GONE);
    assert_string_equal(p.seen, "");
    turn(&p);
    assert_string_equal(p.seen, "1 2 closed ");
    close_pair(&p);
    /* at once, when its end is known from elsewhere */
    open_pair(&p, (struct cs_conn_options){0}, true, &calls);
    say(&p, "{\"type\":\"ping\",\"id\":1}\n");
    close(p.peer);
    p.peer = -1;
    cs_conn_drain(p.conn);
    assert_string_equal(p.seen, "1 ");
    turn(&p);
    assert_string_equal(p.seen, "1 closed ");
    close_pair(&p);
}

static void an_owner_may_free_and_hold_inside_a_call(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){0}, true, &calls);
    p.frees_at_message = true;
    say(&p, "{\"type\":\"ping\",\"id\":1}\n{\"type\":\"ping\",\"id\":2}\n");
    turn(&p);
    assert_string_equal(p.seen, "1 ");
    close_pair(&p);
    open_pair(&p, (struct cs_conn_options){0}, true, &calls);
    p.holds_at_message = true;
    say(&p, "{\"type\":\"ping\",\"id\":1}\n{\"type\":\"ping\",\"id\":2}\n");
    close(p.peer);
    p.peer = -1;
    turn(&p);
    assert_string_equal(p.seen, "1 ");
    cs_conn_hold(p.conn, false);
    assert_string_equal(p.seen, "1 ");
    turn(&p);
    assert_string_equal(p.seen, "1 2 ");
    cs_conn_hold(p.conn, false);
    turn(&p);
    assert_string_equal(p.seen, "1 2 closed ");
    close_pair(&p);
}

static void finishing_sends_what_is_queued_and_reads_no_more(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){0}, true, &calls);
    fill(&p, MUCH);
    say(&p, "{\"type\":\"ping\",\"id\":1}\n");
    cs_conn_finish(p.conn);
    size_t taken = 0;
    for (int i = 0; i < 10000 && p.closed == CS_STATUS_COUNT; i++) {
        turn(&p);
        taken += swallow(&p);
    }
    assert_string_equal(p.seen, "closed ");
    assert_int_equal(p.closed, CS_OK);
    assert_true(taken >= MUCH);
    close_pair(&p);
}

static void it_works_without_an_event_loop(void **state)
{
    struct pair p;
    struct cs_err err = {0};
    char text[200] = "";
    (void)state;
    open_pair(&p, (struct cs_conn_options){0}, false, &calls);
    assert_int_equal(cs_conn_wait(p.conn, 1, &err), CS_TIMEOUT);
    json_t *ping = cs_msg_request("ping", 7);
    assert_int_equal(cs_conn_send(p.conn, ping, &err), CS_OK);
    json_decref(ping);
    assert_int_equal(cs_conn_flush(p.conn, &err), CS_OK);
    assert_true(read(p.peer, text, sizeof text) > 0);
    assert_non_null(strstr(text, "\"id\":7"));
    say(&p, "{\"type\":\"ping\",\"id\":1}\n");
    assert_int_equal(cs_conn_wait(p.conn, 1000, &err), CS_OK);
    assert_string_equal(p.seen, "1 ");
    close(p.peer);
    p.peer = -1;
    assert_int_equal(cs_conn_wait(p.conn, 1000, &err), CS_PEER_GONE);
    assert_int_equal(cs_conn_wait(p.conn, 1000, &err), CS_PEER_GONE);
    close_pair(&p);
}

/* All that waits is taken by the flush: nothing is left that the socket could tell of later. */
static void a_flush_that_makes_room_is_noticed(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){.low = 1000, .high = 2000}, true, &with_room);
    fill(&p, 3000);
    assert_true(cs_conn_is_full(p.conn));
    assert_int_equal(cs_conn_flush(p.conn, NULL), CS_OK);
    assert_int_equal(cs_conn_queued(p.conn), 0);
    assert_false(cs_conn_is_full(p.conn));
    say(&p, "{\"type\":\"ping\",\"id\":1}\n");
    turn(&p);
    turn(&p);
    assert_non_null(strstr(p.seen, "room "));
    assert_non_null(strstr(p.seen, "1 "));
    close_pair(&p);
}

static void nothing_follows_the_last_line(void **state)
{
    struct pair p;
    char text[400] = "";
    (void)state;
    open_pair(&p, (struct cs_conn_options){0}, true, &calls);
    cs_conn_send_line(p.conn, "last\n", 5);
    cs_conn_finish(p.conn);
    cs_conn_send_line(p.conn, "event\n", 6);
    turn(&p);
    turn(&p);
    assert_int_equal(p.closed, CS_OK);
    assert_int_equal(recv(p.peer, text, sizeof text - 1, MSG_DONTWAIT), 5);
    assert_string_equal(text, "last\n");
    close_pair(&p);
}

/* Who waits in a loop must not be called back for nothing. */
static void a_wait_that_can_bring_nothing_ends(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p, (struct cs_conn_options){0}, false, &calls);
    cs_conn_hold(p.conn, true);
    assert_int_equal(cs_conn_wait(p.conn, 1000, NULL), CS_STATE);
    close_pair(&p);
    open_pair(&p, (struct cs_conn_options){0}, false, &calls);
    cs_conn_finish(p.conn);
    close(p.peer);
    p.peer = -1;
    assert_int_equal(cs_conn_wait(p.conn, 1000, NULL), CS_STATE);
    close_pair(&p);
    open_pair(&p, (struct cs_conn_options){.low = 1000, .high = MUCH / 2}, false, &calls);
    fill(&p, MUCH);
    assert_true(cs_conn_is_full(p.conn));
    close(p.peer);
    p.peer = -1;
    enum cs_status status = CS_OK;
    for (int i = 0; i < 4 && status == CS_OK; i++)
        status = cs_conn_wait(p.conn, 1000, NULL);
    assert_int_equal(status, CS_PEER_GONE);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole_however_they_are_cut),
        cmocka_unit_test(a_flush_that_makes_room_is_noticed),
        cmocka_unit_test(nothing_follows_the_last_line),
        cmocka_unit_test(a_wait_that_can_bring_nothing_ends),
        cmocka_unit_test(a_bad_line_takes_no_other_with_it),
        cmocka_unit_test(an_endless_line_ends_the_connection),
        cmocka_unit_test(a_peer_that_closes_in_a_line_is_told_so),
        cmocka_unit_test(who_does_not_read_is_not_read),
        cmocka_unit_test(what_a_dying_peer_said_is_heard),
        cmocka_unit_test(an_owner_may_free_and_hold_inside_a_call),
        cmocka_unit_test(finishing_sends_what_is_queued_and_reads_no_more),
        cmocka_unit_test(it_works_without_an_event_loop),
    };
    return cmocka_run_group_tests_name("net/conn", tests, NULL, NULL);
}
