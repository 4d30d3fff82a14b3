/* Attention on one GPU: gpu_test_attention [PLUGIN [PART]]. Parts: mask (the builder against the
 * CPU twin). Prints one line per part and "N passed, N failed". Exit: 0 all passed, 1 not, 77 no
 * GPU. */
#include <stdio.h>
#include <string.h>

#include "gpu/attention_lab.h"

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct att_lab *lab);
    } part[] = {
        {"mask", att_test_builder},
    };

    struct att_lab lab = {.seed = 1};
    att_open(&lab, argc > 1 ? argv[1] : "lib/libcornstarch-cuda.so");
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (argc < 3 || strcmp(argv[2], part[i].name) == 0)
            part[i].run(&lab);
    att_close(&lab);
    printf("%d passed, %d failed\n", lab.passed, lab.failed);
    return lab.failed == 0 && lab.passed > 0 ? 0 : 1;
}
