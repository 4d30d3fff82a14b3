/* What "here" is: class of a GPU by its name, CLASS:DEVICES texts, the cluster they make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/cluster.h"

#define GIB ((int64_t)1 << 30)

static void gpus_are_planned_as_their_class(void **state)
{
    (void)state;

    static const struct {
        const char *name, *class, *note;
        int64_t mem_bytes;
    } cases[] = {
        {"NVIDIA H100 80GB HBM3",   "h100-80g",  "",                      85520809984 },
        {"NVIDIA H100 PCIe",        "h100-80g",  "",                      85520809984 },
        {"NVIDIA H200",             "h200-141g", "",                      150754820096},
        {"NVIDIA A100-SXM4-80GB",   "a100-80g",  "",                      85520809984 },
        {"NVIDIA A40",              "a40-48g",   "",                      47844360192 },
        {"NVIDIA H100 80GB HBM3",   "h100-80g",  "",                      -1          }, /* unknown memory */
        {"NVIDIA GH200 480GB",      "a100-80g",  "planned as a100-80g",   102005473280},
        {"NVIDIA RTX A4000",        "a40-48g",   "which has more memory", 16 * GIB    },
        {"NVIDIA A100-SXM4-40GB",   "a40-48g",   "which has more memory", 40 * GIB    },
        {"NVIDIA H200 MIG 1g.18gb", "a40-48g",   "which has more memory", 18 * GIB    },
        {"NVIDIA L40S",             "a40-48g",   "planned as a40-48g",    47844360192 },
        {"NVIDIA B200",             "h200-141g", "planned as h200-141g",  183 * GIB   },
        {"",                        "a40-48g",   "planned as a40-48g",    -1          },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        char note[256];
        const struct cs_device_class *class =
            cs_device_class_of_gpu(cases[i].name, cases[i].mem_bytes, note, sizeof note);
        bool is_fitting = cases[i].note[0] ? strstr(note, cases[i].note) != NULL : note[0] == '\0';
        if (strcmp(class->name, cases[i].class) != 0)
            fail_msg("'%s' is planned as %s", cases[i].name, class->name);
        if (!is_fitting)
            fail_msg("'%s': '%s'", cases[i].name, note);
        assert_true(class->mem_bytes > 0); /* never a CPU */
    }
}

static void texts_go_there_and_back(void **state)
{
    (void)state;
    struct cs_here here;
    struct cs_err err = {.text = ""};
    char text[64];
    static const char *const good[] = {"cpu:8", "h100-80g:4", "h200-141g:1024"};
    static const char *const bad[] = {"",       "h100-80g",   "h100-80g:", "h100-80g:0",
                                      "h100:4", "h100-80g:x", ":4",        "h100-80g:4x",
                                      "cpu:-1", "cpu:1025",   "cpu:8:8"};
    for (size_t i = 0; i < CS_ARRAY_LEN(good); i++) {
        assert_int_equal(cs_here_read(good[i], &here, &err), CS_OK);
        cs_here_print(&here, text, sizeof text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        if (cs_here_read(bad[i], &here, &err) != CS_INVALID)
            fail_msg("\"%s\" is accepted", bad[i]);
        assert_non_null(strstr(err.text, "h100-80g:4"));
    }
    here = (struct cs_here){0};
    cs_here_print(&here, text, sizeof text);
    assert_string_equal(text, "");
}

static void only_the_word_here_asks_the_node(void **state)
{
    (void)state;
    struct cs_here here;
    struct cs_cluster cluster, cpu;
    struct cs_err err = {.text = ""};
    json_t *word = json_string("here"),
           *box = json_pack("{s:i,s:i,s:s}", "nodes", 1, "devices_per_node", 2, "device", "cpu");
    assert_int_equal(cs_here_read("h200-141g:4", &here, &err), CS_OK);
    assert_int_equal(cs_cluster_read_here(word, &here, &cluster, &err), CS_OK);
    assert_string_equal(cluster.device->name, "h200-141g");
    assert_int_equal(cluster.devices_per_node, 4);
    assert_int_equal(cluster.n_nodes, 1);
    assert_int_equal(cs_cluster_read_here(box, &here, &cluster, &err), CS_OK);
    assert_string_equal(cluster.device->name, "cpu");
    assert_int_equal(cluster.devices_per_node, 2);
    /* without GPUs everything is as it was */
    assert_int_equal(cs_cluster_read_here(word, NULL, &cluster, &err), CS_OK);
    assert_int_equal(cs_cluster_read(word, 8, &cpu, &err), CS_OK);
    assert_ptr_equal(cluster.device, cpu.device);
    assert_int_equal(cluster.devices_per_node, cpu.devices_per_node);
    json_decref(word);
    json_decref(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_planned_as_their_class),
        cmocka_unit_test(texts_go_there_and_back),
        cmocka_unit_test(only_the_word_here_asks_the_node),
    };
    return cmocka_run_group_tests_name("plan/here", tests, NULL, NULL);
}
