/* Trace files: what is encoded is decoded, a tail cut anywhere ends reading cleanly, and no damaged
 * byte makes the decoder read outside its buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/trace/tracefile.h"

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static const struct cs_trace_stage stages[] = {
    {"vision.0", 0, 0},
    {"llm.0",    1, 0},
    {"llm.1",    2, 1}
};
static const struct cs_trace_node nodes[] = {
    {"here",  0          },
    {"there", -1234567890}
};
static const struct cs_trace_head head = {.spec_hash = "5e1f",
                                          .plan_hash = "9a00",
                                          .generation = 2,
                                          .n_ranks = 3,
                                          .n_stages = 3,
                                          .slots = 4,
                                          .predicted_ns = 123456789012,
                                          .stage = stages,
                                          .n_nodes = 2,
                                          .node = nodes};

static void encode_sample(struct cs_buf *out, int n_steps)
{
    uint64_t seed = 8;
    struct cs_span_key key[3][5];
    struct cs_event event[3][7];
    memset(key, 0, sizeof key);
    memset(event, 0, sizeof event);
    const struct cs_span_keys keys[3] = {
        {key[0], 5},
        {key[1], 4},
        {key[2], 0}
    };
    struct cs_span_events events[3];
    for (int i = 0; i < 15; i++)
        key[i / 5][i % 5] = (struct cs_span_key){.stage = (int16_t)i, .letter = 'F', .slot = i};
    cs_trace_head_encode(&head, out);
    cs_trace_record_encode(
        &(struct cs_trace_record){
            .type = CS_TRACE_PROGRAM, .n_slots = 4, .n_ranks = 3, .keys = keys},
        out);
    for (int64_t step = 0; step < n_steps; step++) {
        uint64_t lost[3] = {0, (uint64_t)step, 0};
        for (int i = 0; i < 21; i++)
            event[i / 7][i % 7] =
                (struct cs_event){.start_ns = next_random(&seed), .step = (uint32_t)step};
        for (int r = 0; r < 3; r++)
            events[r] = (struct cs_span_events){event[r], (uint32_t)((step + r) % 8)};
        cs_trace_record_encode(&(struct cs_trace_record){.type = CS_TRACE_STEP,
                                                         .step = step,
                                                         .n_slots = 4,
                                                         .generation = 2,
                                                         .wall_ns = step * 10,
                                                         .n_ranks = 3,
                                                         .lost = lost,
                                                         .events = events},
                               out);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct cs_buf file = {0};
    encode_sample(&file, 20);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_trace_head got;
    struct cs_trace_record record;
    struct cs_err err;
    size_t at = 0;
    assert_int_equal(cs_trace_head_decode(file.data, file.len, arena, &got, &at, &err), CS_OK);
    assert_string_equal(got.spec_hash, "5e1f");
    assert_string_equal(got.plan_hash, "9a00");
    assert_string_equal(got.stage[2].name, "llm.1");
    assert_int_equal(got.stage[2].rank, 2);
    assert_int_equal(got.stage[2].node, 1);
    assert_int_equal(got.n_nodes, 2);
    assert_string_equal(got.node[1].name, "there");
    assert_int_equal(got.node[1].clock_offset_ns, -1234567890);
    assert_int_equal(got.predicted_ns, head.predicted_ns);
    assert_int_equal(got.slots, 4);
    assert_int_equal(cs_trace_record_decode(file.data, file.len, &at, arena, &record, &err), CS_OK);
    assert_int_equal(record.type, CS_TRACE_PROGRAM);
    assert_int_equal(record.keys[0].n, 5);
    assert_int_equal(record.keys[1].key[3].slot, 8);
    assert_int_equal(record.keys[2].n, 0);
    uint64_t seed = 8;
    for (int64_t step = 0; step < 20; step++) {
        assert_int_equal(cs_trace_record_decode(file.data, file.len, &at, arena, &record, &err),
                         CS_OK);
        assert_int_equal(record.step, step);
        assert_int_equal(record.wall_ns, step * 10);
        assert_int_equal(record.lost[1], step);
        for (int i = 0; i < 21; i++) {
            uint64_t want = next_random(&seed);
            if ((uint32_t)(i % 7) < record.events[i / 7].n)
                assert_int_equal(record.events[i / 7].event[i % 7].start_ns, want);
        }
        assert_int_equal(record.events[1].n, (step + 1) % 8);
    }
    assert_int_equal(cs_trace_record_decode(file.data, file.len, &at, arena, &record, &err),
                     CS_NOT_FOUND);
    assert_int_equal(at, file.len);
    cs_arena_free(arena);
    cs_buf_free(&file);
}

/* Files of releases that knew one node only. */
static void a_head_without_nodes_is_read(void **state)
{
    (void)state;
    struct cs_trace_head old = head, got;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_buf file = {0};
    size_t at = 0;
    old.n_nodes = 0;
    cs_trace_head_encode(&old, &file);
    assert_int_equal(cs_trace_head_decode(file.data, file.len, arena, &got, &at, NULL), CS_OK);
    assert_int_equal(at, file.len);
    assert_int_equal(got.n_nodes, 0);
    assert_int_equal(got.n_stages, 3);
    cs_arena_free(arena);
    cs_buf_free(&file);
}

/* Decode a copy of exactly n bytes (so that a sanitizer sees any overrun); the number of whole
 * steps. */
static int count_steps(const char *bytes, size_t n, enum cs_status *status)
{
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    copy = realloc(copy, n ? n : 1);
    memcpy(copy, bytes, n);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_trace_head got;
    struct cs_trace_record record;
    size_t at = 0;
    int steps = 0;
    *status = cs_trace_head_decode(copy, n, arena, &got, &at, NULL);
    while (*status == CS_OK) {
        *status = cs_trace_record_decode(copy, n, &at, arena, &record, NULL);
        steps += *status == CS_OK && record.type == CS_TRACE_STEP;
    }
    cs_arena_free(arena);
    free(copy);
    return steps;
}

static void a_cut_tail_keeps_the_whole_records(void **state)
{
    (void)state;
    struct cs_buf file = {0};
    encode_sample(&file, 5);
    int last = 0;
    for (size_t n = 0; n <= file.len; n++) {
        enum cs_status status;
        int steps = count_steps(file.data, n, &status);
        assert_true(status == CS_NOT_FOUND || (status == CS_CORRUPT && steps == 0));
        assert_true(steps >= last);
        last = steps;
    }
    assert_int_equal(last, 5);
    cs_buf_free(&file);
}

static void damage_is_found(void **state)
{
    (void)state;
    struct cs_buf file = {0};
    encode_sample(&file, 5);
    uint64_t seed = 2;
    for (int round = 0; round < 3000; round++) {
        size_t at = next_random(&seed) % file.len;
        char was = file.data[at];
        file.data[at] = (char)(was ^ (char)(1 + next_random(&seed) % 255));
        enum cs_status status;
        assert_true(count_steps(file.data, file.len, &status) <= 5);
        file.data[at] = was;
    }
    cs_buf_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_head_without_nodes_is_read),
        cmocka_unit_test(a_cut_tail_keeps_the_whole_records),
        cmocka_unit_test(damage_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
