/* Which device and which clock a rank has: lists of leased devices, energy of just these, events of a
 * node whose clock is another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "runner/job/devices.h"
#include "runner/steps/energy.h"
#include "runner/steps/events.h"
#include "tests/support/tmpdir.h"

static void a_lease_is_a_list_in_the_order_of_the_ranks(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    const struct cs_rank_device *device = NULL;
    struct cs_err err = {0};
    (void)state;
    assert_int_equal(cs_rank_devices_read("cuda:2,cuda:0", true, 2, arena, &device, &err), CS_OK);
    assert_string_equal(device[0].name, "cuda:2");
    assert_int_equal(device[0].index, 2);
    assert_string_equal(device[1].name, "cuda:0");
    assert_true(device[1].is_gpu);
    assert_int_equal(cs_rank_devices_read(NULL, false, 3, arena, &device, &err), CS_OK);
    assert_string_equal(device[2].name, "cpu:2"); /* without a list: the first of the node */
    assert_false(device[2].is_gpu);
    assert_int_equal(cs_rank_devices_read("cpu:0,cpu:1,cpu:2", false, 2, arena, &device, &err),
                     CS_OK); /* more than are needed */
    assert_int_equal(cs_rank_devices_read("cuda:0", true, 2, arena, &device, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "needs 2 ranks, 1 device is leased"));
    static const char *const bad[] = {"cpu:0,cpu:1", "cuda:0,cuda:0", "cuda:0,cuda:-1",
                                      "cuda:0,1",    "cuda:0,cuda:",  "cuda:x,cuda:1",
                                      "0,1"};
    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++)
        assert_int_equal(cs_rank_devices_read(bad[i], true, 2, arena, &device, &err), CS_INVALID);
    cs_arena_free(arena);
}

static void energy_is_of_the_listed_gpus(void **state)
{
    char library[512];
    char *dir = tmpdir_new();
    const char *bin = getenv("CORNSTARCH_BIN");
    const struct cs_rank_device device[] = {
        {"cuda:2", true, 2},
        {"cuda:0", true, 0}
    };
    struct cs_runner r = {
        .generation = {.n_ranks = 2, .device = device}
    };
    (void)state;
    r.generation.cluster.device = cs_device_class_find("h100-80g");
    snprintf(library, sizeof library, "%s/../lib/libfake-nvml.so", bin ? bin : ".");
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("CORNSTARCH_NVML", library, 1);
    setenv("CORNSTARCH_FAKE_NVML", tmpdir_path(dir, "cards"), 1);
    static const char before[] = "count 3\n0 energy 10\n1 energy 20\n2 energy 30\n",
                      after[] = "count 3\n0 energy 11\n1 energy 9000\n2 energy 50\n";
    tmpdir_write(tmpdir_path(dir, "cards"), before, sizeof before - 1);
    cs_energy_begin(&r);
    tmpdir_write(tmpdir_path(dir, "cards"), after, sizeof after - 1);
    assert_int_equal(cs_energy_take(&r), 21); /* the second GPU has no rank */
    cs_energy_end(&r);
    unsetenv("CORNSTARCH_NVML");
    tmpdir_free(dir);
}

static void events_come_onto_the_clock_of_the_trace(void **state)
{
    enum { CAPACITY = 16 };
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_child child = {.rank = 0};
    struct cs_runner r = {.generation = {.n_ranks = 1}, .child = &child};
    struct cs_ring writer;
    (void)state;
    child.ring_memory = aligned_alloc(64, cs_ring_bytes(CAPACITY));
    assert_non_null(child.ring_memory);
    cs_ring_init(child.ring_memory, CAPACITY, 0);
    assert_int_equal(cs_ring_attach(child.ring_memory, cs_ring_bytes(CAPACITY), &child.ring, NULL),
                     CS_OK);
    assert_int_equal(cs_ring_attach(child.ring_memory, cs_ring_bytes(CAPACITY), &writer, NULL),
                     CS_OK);

    static const struct {
        int64_t offset_ns;
        uint64_t start_ns, end_ns;
    } cases[] = {
        {0,     1000, 2500},
        {5000,  6000, 7500},
        {-600,  400,  1900},
        {-2000, 0,    500 }, /* before the clock of the trace began */
    };

    for (uint32_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        const struct cs_event event = {
            .start_ns = 1000, .end_ns = 2500, .step = i, .kind = CS_EVENT_ACTION};
        cs_ring_put(&writer, &event);
        r.node.clock_offset_ns = cases[i].offset_ns;
        cs_events_drain(&r);
        const struct cs_span_events got = cs_events_take(&child, i, arena);
        assert_int_equal(got.n, 1);
        assert_int_equal(got.event[0].start_ns, cases[i].start_ns);
        assert_int_equal(got.event[0].end_ns, cases[i].end_ns);
    }
    free(child.events);
    free(child.ring_memory);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_a_list_in_the_order_of_the_ranks),
        cmocka_unit_test(energy_is_of_the_listed_gpus),
        cmocka_unit_test(events_come_onto_the_clock_of_the_trace),
    };
    return cmocka_run_group_tests_name("runner/devices", tests, NULL, NULL);
}
