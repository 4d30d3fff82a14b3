/* Energy of a job's GPUs from the counters of the stand-in library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "runner/steps/energy.h"
#include "tests/support/tmpdir.h"

static char *dir;

static void cards(const char *text)
{
    tmpdir_write(tmpdir_path(dir, "cards"), text, strlen(text));
}

static int start(void **state)
{
    char library[512];
    const char *bin = getenv("CORNSTARCH_BIN");
    (void)state;
    dir = tmpdir_new();
    snprintf(library, sizeof library, "%s/../lib/libfake-nvml.so", bin ? bin : ".");
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("CORNSTARCH_NVML", library, 1);
    return setenv("CORNSTARCH_FAKE_NVML", tmpdir_path(dir, "cards"), 1);
}

static int end(void **state)
{
    (void)state;
    tmpdir_free(dir);
    unsetenv("CORNSTARCH_NVML");
    return unsetenv("CUDA_VISIBLE_DEVICES");
}

static struct cs_runner runner(const char *device, int n_ranks)
{
    static const struct cs_rank_device devices[] = {
        {"cuda:0", true, 0},
        {"cuda:1", true, 1},
        {"cuda:2", true, 2}
    };
    struct cs_runner r = {
        .generation = {.n_ranks = n_ranks, .device = devices}
    };
    r.generation.cluster.device = cs_device_class_find(device);
    return r;
}

static void rows_get_what_the_ranks_gpus_used(void **state)
{
    (void)state;
    struct cs_runner r = runner("h100-80g", 2);
    cards("count 3\n0 energy 1000\n1 energy 5000\n2 energy 1\n");
    cs_energy_begin(&r);
    cards("count 3\n0 energy 1200\n1 energy 5030\n2 energy 900000\n");
    assert_int_equal(cs_energy_take(&r), 230); /* the third has no rank */
    assert_int_equal(cs_energy_take(&r), 0);   /* the counter has not moved yet */
    cards("count 3\n0 energy 1201\n1 energy 5030\n");
    assert_int_equal(cs_energy_take(&r), 1);
    cards("count 3\n0 mem_used 5000\n1 mem_used 7000\n2 mem_used 9000\n");
    assert_int_equal(cs_energy_mem_bytes(&r), 7000);
    cs_energy_end(&r);
}

static void what_is_not_known_is_not_guessed(void **state)
{
    (void)state;
    struct cs_runner r = runner("h100-80g", 2);
    cards("count 2\n0 energy 1000\n1 energy error 3\n");
    cs_energy_begin(&r);
    assert_int_equal(cs_energy_take(&r), -1); /* half of the ranks is no figure */
    cards("count 2\n0 energy 1500\n1 energy 100\n");
    assert_int_equal(cs_energy_take(&r), -1);
    cards("count 2\n0 energy 1600\n1 energy 150\n");
    assert_int_equal(cs_energy_take(&r), 150);
    cards("count 2\n0 energy 7\n1 energy 160\n"); /* the driver was loaded anew */
    assert_int_equal(cs_energy_take(&r), -1);
    cards("count 2\n0 energy 10\n1 energy 165\n");
    assert_int_equal(cs_energy_take(&r), 8);
    cs_energy_end(&r);
}

static void the_leased_gpus_count(void **state)
{
    (void)state;
    struct cs_runner r = runner("h100-80g", 1);
    cards("count 2\n0 energy 10\n1 energy 20\n");
    setenv("CUDA_VISIBLE_DEVICES", "GPU-b1", 1);
    cs_energy_begin(&r);
    cards("count 2\n0 energy 1000\n1 energy 25\n");
    assert_int_equal(cs_energy_take(&r), 5);
    cs_energy_end(&r);
}

static void cpu_ranks_have_none(void **state)
{
    (void)state;
    struct cs_runner r = runner("cpu", 2);
    cards("count 2\n");
    cs_energy_begin(&r);
    assert_int_equal(cs_energy_take(&r), -1);
    cs_energy_end(&r);
    struct cs_runner more = runner("h100-80g", 3); /* than there are GPUs */
    cs_energy_begin(&more);
    assert_int_equal(cs_energy_take(&more), -1);
    cs_energy_end(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_get_what_the_ranks_gpus_used, start, end),
        cmocka_unit_test_setup_teardown(what_is_not_known_is_not_guessed, start, end),
        cmocka_unit_test_setup_teardown(the_leased_gpus_count, start, end),
        cmocka_unit_test_setup_teardown(cpu_ranks_have_none, start, end),
    };
    return cmocka_run_group_tests_name("runner/energy", tests, NULL, NULL);
}
