/* Spans: busy, bubble and waits of a small step worked out by hand, and the words for actions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "core/trace/span.h"

#define ACTION(id, from, to)                                                                       \
    {                                                                                              \
        .start_ns = 1000 + (from), .end_ns = 1000 + (to), .action = (id), .kind = CS_EVENT_ACTION, \
        .value = 5                                                                                 \
    }

/* rank 0: stages 0 and 1; rank 1: stage 2. Makespan 0..100 */
static const struct cs_span_key keys0[] = {
    {.stage = 0,       .peer = -1, .slot = 0, .letter = 'F',             .is_compute = 1},
    {.stage = 1,                .peer = -1,                 .slot = 0, .letter = 'F', .is_compute = 1},
    {.stage = 1, .peer = 1,           .slot = 0,           .letter = 's'                          },
};
static const struct cs_span_key keys1[] = {
    {.stage = 2,  .peer = -1, .slot = 0,  .letter = 'F', .is_compute = 1},
    {.stage = -1, .peer = -1, .slot = -1, .letter = 'O', .is_compute = 1},
};
static const struct cs_event events0[] = {
    ACTION(0, 0, 10),
    ACTION(1, 10, 40),
    ACTION(2, 40, 45),
    {.start_ns = 1000, .end_ns = 1007, .kind = CS_EVENT_DATA},
};
static const struct cs_event events1[] = {
    {.start_ns = 1000, .end_ns = 1045,        .kind = CS_EVENT_WAIT, .value = CS_WAIT_RECV},
    ACTION(0, 45, 95),
    ACTION(1, 95, 100),
    {.start_ns = 900,  .end_ns = 1300,        .kind = CS_EVENT_STEP},
    ACTION(7, 0, 500), /* no such action */
    {.start_ns = 9,     .end_ns = 3, .kind = CS_EVENT_WAIT,           .value = 99                     }, /* no such wait */
};
static const struct cs_span_keys keys[] = {
    {keys0, 3},
    {keys1, 2}
};
static const struct cs_span_events events[] = {
    {events0, 4},
    {events1, 6}
};

static void busy_and_bubble_are_exact(void **state)
{
    (void)state;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_span_step step;
    const struct cs_span_input in = {.n_ranks = 2, .n_stages = 3, .keys = keys, .events = events};
    cs_span_build(&in, arena, &step);
    assert_int_equal(step.start_ns, 1000);
    assert_int_equal(step.makespan_ns, 100);
    const int64_t busy[] = {10, 30, 50};
    for (int s = 0; s < 3; s++) {
        assert_int_equal(step.busy_ns[s], busy[s]);
        assert_true(fabs(step.bubble[s] - (1 - (double)busy[s] / 100)) <= 1e-12);
    }
    assert_int_equal(step.n_spans, 5);
    assert_int_equal(step.span[3].start_ns, 45);
    assert_int_equal(step.span[3].rank, 1);
    assert_int_equal(step.span[3].cpu_us, 5);
    assert_int_equal(step.wait_ns[1][CS_WAIT_RECV], 45);
    assert_int_equal(step.wait_ns[0][CS_WAIT_RECV], 0);
    assert_int_equal(step.data_ns[0], 7);
    assert_int_equal(step.n_unknown, 2);
    cs_arena_free(arena);
}

static void no_events_give_no_bubble(void **state)
{
    (void)state;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_span_step step;
    const struct cs_span_events none[] = {{0}, {0}};
    const struct cs_span_input in = {.n_ranks = 2, .n_stages = 3, .keys = keys, .events = none};
    cs_span_build(&in, arena, &step);
    assert_int_equal(step.n_spans, 0);
    assert_int_equal(step.makespan_ns, 0);
    assert_true(isnan(step.bubble[0]));
    cs_arena_free(arena);
}

/* twice the same ranks with the same events: a stage is as busy as on one replica */
static void replicas_are_busy_on_average(void **state)
{
    const struct cs_span_keys twice_keys[] = {keys[0], keys[1], keys[0], keys[1]};
    const struct cs_span_events twice[] = {events[0], events[1], events[0], events[1]};
    const struct cs_span_input in = {
        .n_ranks = 4, .n_stages = 3, .replicas = 2, .keys = twice_keys, .events = twice};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_span_step step;
    (void)state;
    cs_span_build(&in, arena, &step);
    assert_int_equal(step.makespan_ns, 100);
    assert_int_equal(step.replicas, 2);
    assert_int_equal(step.n_spans, 10);
    assert_int_equal(step.busy_ns[2], 50);
    assert_true(fabs(step.bubble[1] - 0.7) <= 1e-12);
    cs_arena_free(arena);
}

/* a file may say anything: times that no clock shows are dropped, sums stay within 64 bits */
static void times_that_cannot_be_are_dropped(void **state)
{
    enum { N = 40 };

    static const struct cs_event hostile[] = {
        {.start_ns = 0,          .end_ns = UINT64_MAX,              .kind = CS_EVENT_ACTION},
        {.start_ns = UINT64_MAX, .end_ns = UINT64_MAX,              .kind = CS_EVENT_ACTION},
        {.start_ns = INT64_MAX,  .end_ns = (uint64_t)INT64_MAX + 1, .kind = CS_EVENT_DATA  },
        {.start_ns = 5,          .end_ns = 4,                       .kind = CS_EVENT_SAVE  },
        {.start_ns = 1000,       .end_ns = 1010,                    .kind = CS_EVENT_ACTION},
    };
    struct cs_event longest[2 * N];
    const struct cs_span_events told[] = {
        {hostile, CS_ARRAY_LEN(hostile)},
        {longest, 2 * N                }
    };
    const struct cs_span_input in = {.n_ranks = 2, .n_stages = 3, .keys = keys, .events = told};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_span_step step;
    (void)state;
    for (int i = 0; i < 2 * N; i++)
        longest[i] = (struct cs_event){.start_ns = 0,
                                       .end_ns = (uint64_t)CS_EVENT_MAX_NS,
                                       .kind = i < N ? CS_EVENT_ACTION : CS_EVENT_SAVE};
    cs_span_build(&in, arena, &step);
    assert_int_equal(step.n_unknown, 4);
    assert_int_equal(step.n_spans, N + 1);
    assert_int_equal(step.makespan_ns, CS_EVENT_MAX_NS);
    assert_int_equal(step.busy_ns[0], 10);
    assert_true(step.busy_ns[2] >= CS_EVENT_MAX_NS);
    assert_true(step.save_ns[1] >= CS_EVENT_MAX_NS);
    cs_arena_free(arena);
    cs_events_shift(longest, 2, INT64_MIN);
    assert_int_equal(longest[0].end_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_and_bubble_are_exact),
        cmocka_unit_test(replicas_are_busy_on_average),
        cmocka_unit_test(no_events_give_no_bubble),
        cmocka_unit_test(times_that_cannot_be_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
