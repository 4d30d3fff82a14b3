/* GPUs through NVML, against a library of the test's own (tests/support/lib/nvml.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "gpus/gpus.h"
#include "tests/support/tmpdir.h"

static char *dir;
static char library[512], old_library[512];

static int start(void **state)
{
    (void)state;
    const char *bin = getenv("CORNSTARCH_BIN");
    dir = tmpdir_new();
    snprintf(library, sizeof library, "%s/../lib/libfake-nvml.so", bin ? bin : ".");
    snprintf(old_library, sizeof old_library, "%s/../lib/libfake-nvml-old.so", bin ? bin : ".");
    unsetenv("CUDA_VISIBLE_DEVICES");
    return setenv("CORNSTARCH_FAKE_NVML", tmpdir_path(dir, "cards"), 1);
}

static int end(void **state)
{
    (void)state;
    unsetenv("CORNSTARCH_FAKE_NVML");
    tmpdir_free(dir);
    return 0;
}

static void cards(const char *text)
{
    tmpdir_write(tmpdir_path(dir, "cards"), text, strlen(text));
}

static struct cs_gpus *open_with(const char *text)
{
    struct cs_gpus *gpus = NULL;
    struct cs_err err = {0};
    cards(text);
    if (cs_gpus_open(library, &gpus, &err) != CS_OK)
        fail_msg("%s", err.text);
    return gpus;
}

static void every_value_is_read(void **state)
{
    (void)state;
    struct cs_gpus *gpus = open_with("count 2\n1 busy 12\n1 name NVIDIA H200\n1 throttle 36\n"
                                     "1 energy 123456789012\n1 process 4242 1048576\n");
    assert_int_equal(cs_gpus_count(gpus), 2);
    assert_string_equal(cs_gpus_driver(gpus), "580.95.05");
    const struct cs_gpu *g = cs_gpus_at(gpus, 0);
    assert_string_equal(g->name, "NVIDIA H100 80GB HBM3");
    assert_string_equal(g->error, "");
    assert_int_equal(g->mem_bytes, 85520809984);
    assert_int_equal(g->mem_used_bytes, 15252586496);
    assert_int_equal(g->busy_pct, 71);
    assert_int_equal(g->mem_busy_pct, 30);
    assert_int_equal(g->power_mw, 262000);
    assert_int_equal(g->power_limit_mw, 700000);
    assert_int_equal(g->temp_c, 58);
    assert_int_equal(g->slowdown_c, 87);
    assert_int_equal(g->sm_mhz, 1755);
    assert_int_equal(g->sm_max_mhz, 1980);
    assert_int_equal(g->mem_mhz, 2619);
    assert_int_equal(g->throttle, 0); /* by the older name of the function */
    assert_int_equal(g->pcie_gen, 5);
    assert_int_equal(g->pcie_max_width, 16);
    assert_int_equal(g->n_processes, 0);
    g = cs_gpus_at(gpus, 1);
    assert_int_equal(g->index, 1);
    assert_string_equal(g->name, "NVIDIA H200");
    assert_int_equal(g->busy_pct, 12);
    assert_int_equal(g->energy_mj, 123456789012);
    assert_int_equal(g->n_processes, 1);
    assert_int_equal(g->process[0].pid, 4242);
    assert_int_equal(g->process[0].mem_bytes, 1048576);
    cs_gpus_close(gpus);
}

static void values_follow_the_card(void **state)
{
    (void)state;
    struct cs_gpus *gpus = open_with("count 1\n0 energy 1000\n0 temp 40\n");
    assert_int_equal(cs_gpus_energy_mj(gpus, 0), 1000);
    cards("count 1\n0 energy 2500\n0 temp 71\n");
    assert_int_equal(cs_gpus_energy_mj(gpus, 0), 2500);
    assert_int_equal(cs_gpus_at(gpus, 0)->temp_c, 40); /* of the last sample */
    cs_gpus_sample(gpus);
    assert_int_equal(cs_gpus_at(gpus, 0)->temp_c, 71);
    assert_int_equal(cs_gpus_at(gpus, 0)->energy_mj, 2500);
    assert_int_equal(cs_gpus_energy_mj(gpus, 1), CS_GPU_UNKNOWN);
    assert_int_equal(cs_gpus_energy_mj(NULL, 0), CS_GPU_UNKNOWN);
    cs_gpus_close(gpus);
}

/* a question that fails leaves its own value unknown and no other */
static void each_value_is_unknown_for_itself(void **state)
{
    (void)state;

    static const struct {
        const char *key;
        size_t at;
    } values[] = {
        {"busy",        offsetof(struct cs_gpu, busy_pct)      },
        {"mem_total",   offsetof(struct cs_gpu, mem_bytes)     },
        {"power",       offsetof(struct cs_gpu, power_mw)      },
        {"power_limit", offsetof(struct cs_gpu, power_limit_mw)},
        {"temp",        offsetof(struct cs_gpu, temp_c)        },
        {"slowdown",    offsetof(struct cs_gpu, slowdown_c)    },
        {"sm_mhz",      offsetof(struct cs_gpu, sm_mhz)        },
        {"sm_max_mhz",  offsetof(struct cs_gpu, sm_max_mhz)    },
        {"mem_mhz",     offsetof(struct cs_gpu, mem_mhz)       },
        {"throttle",    offsetof(struct cs_gpu, throttle)      },
        {"energy",      offsetof(struct cs_gpu, energy_mj)     },
        {"pcie_gen",    offsetof(struct cs_gpu, pcie_gen)      },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(values); i++) {
        char text[96];
        snprintf(text, sizeof text, "count 2\n1 %s error 3\n", values[i].key);
        struct cs_gpus *gpus = open_with(text);
        for (size_t k = 0; k < CS_ARRAY_LEN(values); k++)
            for (int32_t g = 0; g < 2; g++) {
                int64_t v;
                memcpy(&v, (const char *)cs_gpus_at(gpus, g) + values[k].at, sizeof v);
                bool depends = strcmp(values[i].key, "power") == 0 &&
                               strcmp(values[k].key, "energy") == 0; /* of the stand-in */
                if (!depends && (v == CS_GPU_UNKNOWN) != (g == 1 && k == i))
                    fail_msg("%s of card %d when %s fails", values[k].key, (int)g, values[i].key);
            }
        cs_gpus_close(gpus);
    }
    struct cs_gpus *gpus = open_with("count 1\n0 process error 3\n0 name error 3\n");
    assert_int_equal(cs_gpus_at(gpus, 0)->n_processes, -1);
    assert_string_equal(cs_gpus_at(gpus, 0)->name, "unknown GPU");
    cs_gpus_close(gpus);
}

static void nonsense_is_unknown(void **state)
{
    (void)state;
    struct cs_gpus *gpus = open_with("count 1\n0 busy 4000000000\n0 mem_busy 101\n"
                                     "0 mem_used 18446744073709551615\n"
                                     "0 process 7 18446744073709551615\n");
    const struct cs_gpu *g = cs_gpus_at(gpus, 0);
    assert_int_equal(g->busy_pct, CS_GPU_UNKNOWN);
    assert_int_equal(g->mem_busy_pct, CS_GPU_UNKNOWN);
    assert_int_equal(g->mem_used_bytes, CS_GPU_UNKNOWN);
    assert_int_equal(g->process[0].pid, 7);
    assert_int_equal(g->process[0].mem_bytes, CS_GPU_UNKNOWN);
    cs_gpus_close(gpus);
}

static void an_old_driver_lacks_functions_and_serves_the_others(void **state)
{
    (void)state;
    struct cs_gpus *gpus = NULL;
    struct cs_err err = {0};
    cards("count 1\n");
    assert_int_equal(cs_gpus_open(old_library, &gpus, &err), CS_OK);
    const struct cs_gpu *g = cs_gpus_at(gpus, 0);
    assert_int_equal(g->energy_mj, CS_GPU_UNKNOWN);
    assert_int_equal(g->throttle, CS_GPU_UNKNOWN);
    assert_int_equal(g->pcie_width, CS_GPU_UNKNOWN);
    assert_int_equal(g->temp_c, 58);
    assert_int_equal(g->mem_used_bytes, 15252586496 + 600000000); /* all that it can tell */
    assert_int_equal(cs_gpus_energy_mj(gpus, 0), CS_GPU_UNKNOWN);
    cs_gpus_close(gpus);
}

static void a_card_that_fell_off_the_bus_says_so(void **state)
{
    (void)state;
    struct cs_gpus *gpus = open_with("count 3\n1 mem_total error 15\n2 handle error 15\n");
    assert_int_equal(cs_gpus_count(gpus), 3);
    assert_string_equal(cs_gpus_at(gpus, 0)->error, "");
    assert_string_equal(cs_gpus_at(gpus, 1)->error, "GPU is lost");
    cards("count 3\n");
    cs_gpus_sample(gpus); /* back again */
    assert_string_equal(cs_gpus_at(gpus, 1)->error, "");
    cs_gpus_close(gpus);
}

static void without_gpus_there_is_a_reason(void **state)
{
    (void)state;

    const struct {
        const char *library, *cards, *visible, *word;
    } cases[] = {
        {"libnothing-of-this-name.so", "",          NULL, "no NVIDIA driver"    },
        {"none",                       "",          NULL, "switched off"        },
        {library,                      "fail 9\n",  NULL, "Driver Not Loaded"   },
        {library,                      "count 0\n", NULL, "no GPU"              },
        {library,                      "count 2\n", "",   "CUDA_VISIBLE_DEVICES"},
        {library,                      "count 2\n", "7",  "CUDA_VISIBLE_DEVICES"},
        {"libm.so.6",                  "",          NULL, "nvmlInit_v2"         },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        struct cs_gpus *gpus = NULL;
        struct cs_err err = {0};
        cards(cases[i].cards);
        if (cases[i].visible)
            setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
        assert_int_equal(cs_gpus_open(cases[i].library, &gpus, &err), CS_NOT_FOUND);
        unsetenv("CUDA_VISIBLE_DEVICES");
        assert_null(gpus);
        if (!strstr(err.text, cases[i].word))
            fail_msg("'%s' lacks '%s'", err.text, cases[i].word);
    }
}

static void the_visible_cards_are_those_of_cuda_in_its_order(void **state)
{
    (void)state;
    static const char *const uuids[] = {"GPU-aa11", "GPU-ab22", "GPU-cc33", "GPU-dd44"};

    static const struct {
        const char *list, *expected;
    } cases[] = {
        {NULL,                "0 1 2 3 "},
        {"2,0",               "2 0 "    },
        {" 3 , 1 ",           "3 1 "    },
        {"1,9,0",             "1 "      }, /* the first that is not valid ends the list */
        {"1,1,0",             "1 "      },
        {"-1",                ""        },
        {"",                  ""        },
        {"GPU-cc,gpu-aa11,3", "2 0 3 "  },
        {"GPU-a,1",           ""        }, /* two begin so */
        {"0x1",               ""        },
        {"99999999999999999", ""        },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        int32_t out[CS_GPUS_MAX];
        char text[64] = "";
        int32_t n = cs_gpus_visible(cases[i].list, uuids, 4, out);
        for (int32_t k = 0; k < n; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", (int)out[k]);
        if (strcmp(text, cases[i].expected) != 0)
            fail_msg("\"%s\" shows \"%s\"", cases[i].list ? cases[i].list : "(unset)", text);
    }
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    struct cs_gpus *gpus = open_with("count 2\n1 temp 33\n");
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(cs_gpus_count(gpus), 1);
    assert_int_equal(cs_gpus_at(gpus, 0)->index, 1);
    assert_int_equal(cs_gpus_at(gpus, 0)->temp_c, 33);
    cs_gpus_close(gpus);
}

static void reasons_for_slow_clocks_have_names(void **state)
{
    (void)state;
    char text[64];
    cs_gpu_throttle_text(0x04 | 0x20, text, sizeof text);
    assert_string_equal(text, "power cap, thermal");
    cs_gpu_throttle_text(0x01 | 0x02, text, sizeof text); /* idle, as the application set them */
    assert_string_equal(text, "");
    cs_gpu_throttle_text(CS_GPU_UNKNOWN, text, sizeof text);
    assert_string_equal(text, "");
    cs_gpu_throttle_text(0xff, text, 12); /* cut, not overrun */
    assert_string_equal(text, "power cap, ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_value_is_read, start, end),
        cmocka_unit_test_setup_teardown(values_follow_the_card, start, end),
        cmocka_unit_test_setup_teardown(each_value_is_unknown_for_itself, start, end),
        cmocka_unit_test_setup_teardown(nonsense_is_unknown, start, end),
        cmocka_unit_test_setup_teardown(an_old_driver_lacks_functions_and_serves_the_others, start,
                                        end),
        cmocka_unit_test_setup_teardown(a_card_that_fell_off_the_bus_says_so, start, end),
        cmocka_unit_test_setup_teardown(without_gpus_there_is_a_reason, start, end),
        cmocka_unit_test_setup_teardown(the_visible_cards_are_those_of_cuda_in_its_order, start,
                                        end),
        cmocka_unit_test(reasons_for_slow_clocks_have_names),
    };
    return cmocka_run_group_tests_name("gpus/nvml", tests, NULL, NULL);
}
