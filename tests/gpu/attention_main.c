/* Attention on one GPU: gpu_test_attention [PLUGIN [PART...]]. Parts are named below; without any
 * all run but small. Prints one line per part and "N passed, N failed". Exit: 0 all passed, 1 not,
 * 77 no GPU. */
#include <stdio.h>
#include <string.h>

#include "gpu/attention_cases.h"

static const struct part {
    const char *name;
    void (*run)(struct att_lab *lab);
    bool is_extra; /* runs when named only */
} parts[] = {
    {"mask",     att_test_builder,  false},
    {"oracle",   att_test_oracle,   false},
    {"pairs",    att_test_pairs,    false},
    {"cut",      att_test_cut,      false},
    {"same",     att_test_same,     false},
    {"product",  att_test_product,  false},
    {"mma",      att_test_mma,      false},
    {"portable", att_test_portable, false},
    {"steep",    att_test_steep,    false},
    {"merge",    att_test_merge,    false},
    {"graph",    att_test_graph,    false},
    {"small",    att_test_small,    true },
};

static bool is_wanted(const struct part *part, int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], part->name) == 0)
            return true;
    return argc <= 2 && !part->is_extra;
}

int main(int argc, char **argv)
{
    struct att_lab lab = {.seed = 1};
    att_open(&lab, argc > 1 ? argv[1] : "lib/libcornstarch-cuda.so");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (is_wanted(&parts[i], argc, argv))
            parts[i].run(&lab);
    att_close(&lab);
    printf("%d passed, %d failed\n", lab.passed, lab.failed);
    return lab.failed == 0 && lab.passed > 0 ? 0 : 1;
}
