/* The event ring: order, overwriting, loss counting, and torn reads under a racing writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/trace/ring.h"

static struct cs_event event_of(uint64_t n)
{
    return (struct cs_event){.start_ns = n,
                             .end_ns = ~n,
                             .step = (uint32_t)n,
                             .action = (uint32_t)(n * 2654435761u),
                             .value = (int32_t)(n % 1000),
                             .kind = (uint16_t)(n % CS_EVENT_KINDS),
                             .flags = (uint16_t)(n & 0xffff)};
}

static void *new_ring(uint32_t capacity, struct cs_ring *ring)
{
    void *memory = malloc(cs_ring_bytes(capacity));
    assert_non_null(memory);
    cs_ring_init(memory, capacity, 7);
    assert_int_equal(cs_ring_attach(memory, cs_ring_bytes(capacity), ring, NULL), CS_OK);
    return memory;
}

static void events_come_out_in_order(void **state)
{
    (void)state;
    struct cs_ring ring;
    void *memory = new_ring(16, &ring);
    struct cs_event got[16];
    assert_int_equal(cs_ring_get(&ring, got, 16), 0);
    assert_int_equal(ring.head->rank, 7);
    assert_int_equal(ring.head->step, -1);
    uint64_t next = 0;
    for (uint64_t n = 0; n < 100; n++) {
        struct cs_event e = event_of(n);
        cs_ring_put(&ring, &e);
        if (n % 7 != 6)
            continue;
        uint32_t k = cs_ring_get(&ring, got, 16);
        assert_int_equal(k, 7);
        for (uint32_t i = 0; i < k; i++, next++) {
            struct cs_event want = event_of(next);
            assert_memory_equal(&got[i], &want, sizeof want);
        }
    }
    assert_int_equal(ring.lost, 0);
    free(memory);
}

static void overwritten_events_are_counted(void **state)
{
    (void)state;
    struct cs_ring ring;
    void *memory = new_ring(8, &ring);
    for (uint64_t n = 0; n < 50; n++) {
        struct cs_event e = event_of(n);
        cs_ring_put(&ring, &e);
    }
    struct cs_event got[64];
    uint32_t k = cs_ring_get(&ring, got, 64);
    assert_int_equal(k + ring.lost, 50);
    assert_int_equal(k, 7); /* the eighth may be being overwritten */
    struct cs_event want = event_of(49);
    assert_memory_equal(&got[k - 1], &want, sizeof want);
    free(memory);
}

static void get_takes_no_more_than_asked(void **state)
{
    (void)state;
    struct cs_ring ring;
    void *memory = new_ring(16, &ring);
    for (uint64_t n = 0; n < 10; n++) {
        struct cs_event e = event_of(n);
        cs_ring_put(&ring, &e);
    }
    struct cs_event got[4];
    assert_int_equal(cs_ring_get(&ring, got, 4), 4);
    assert_int_equal(cs_ring_get(&ring, got, 4), 4);
    assert_int_equal(got[0].start_ns, 4);
    assert_int_equal(cs_ring_get(&ring, got, 4), 2);
    assert_int_equal(cs_ring_get(&ring, got, 4), 0);
    free(memory);
}

static void foreign_memory_is_refused(void **state)
{
    (void)state;
    struct cs_ring ring;
    struct cs_err err = {0};
    static _Alignas(64) char junk[4096];
    memset(junk, 0x5a, sizeof junk);
    assert_int_equal(cs_ring_attach(junk, sizeof junk, &ring, &err), CS_CORRUPT);
    assert_int_equal(cs_ring_attach(junk, 8, &ring, &err), CS_CORRUPT);
    void *memory = new_ring(16, &ring);
    assert_int_equal(cs_ring_attach(memory, cs_ring_bytes(16) - 1, &ring, &err), CS_CORRUPT);
    ring.head->capacity = 12;
    assert_int_equal(cs_ring_attach(memory, cs_ring_bytes(16), &ring, &err), CS_CORRUPT);
    free(memory);
}

enum { RACE_EVENTS = 400000 };

static void *write_all(void *arg)
{
    struct cs_ring *ring = arg;
    for (uint64_t n = 0; n < RACE_EVENTS; n++) {
        struct cs_event e = event_of(n);
        cs_ring_put(ring, &e);
    }
    return NULL;
}

static void racing_reader_never_sees_a_torn_event(void **state)
{
    (void)state;
    struct cs_ring reader, writer;
    void *memory = new_ring(64, &reader);
    assert_int_equal(cs_ring_attach(memory, cs_ring_bytes(64), &writer, NULL), CS_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_all, &writer), 0);
    uint64_t seen = 0, last = 0;
    while (seen + reader.lost < RACE_EVENTS) {
        struct cs_event got[32];
        uint32_t k = cs_ring_get(&reader, got, 32);
        for (uint32_t i = 0; i < k; i++) {
            struct cs_event want = event_of(got[i].start_ns);
            assert_memory_equal(&got[i], &want, sizeof want);
            assert_true(seen == 0 || got[i].start_ns > last);
            last = got[i].start_ns;
            seen++;
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(seen + reader.lost, RACE_EVENTS);
    assert_int_equal(last, RACE_EVENTS - 1);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_out_in_order),
        cmocka_unit_test(overwritten_events_are_counted),
        cmocka_unit_test(get_takes_no_more_than_asked),
        cmocka_unit_test(foreign_memory_is_refused),
        cmocka_unit_test(racing_reader_never_sees_a_torn_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
