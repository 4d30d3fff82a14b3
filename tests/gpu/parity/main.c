/* Parity of the training step on a GPU, in fp32 and bf16.
 *
 *   gpu_test_parity [steps] [OPTION...]      against our CPU path, at real widths with few layers
 *   gpu_test_parity states [OPTION...]       state in bf16 through checkpoints
 *   gpu_test_parity full DIR [OPTION...]     against PyTorch at full depth; DIR: full_depth.py's
 *
 * Options: device=cuda:0 (cpu:0: the CPU against itself), steps=20, short=5 (steps of the other
 * frozen settings), vocab=32000, case=-1 (one setting only), bf16=1 (0: fp32 only), state=0 (1:
 * steps also with the state of training in bf16), threads (of the CPU path; default: the cores, at
 * most 16). Prints figures and "N passed, N failed". Exit: 0 all passed, 1 not, 77 no GPU. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/parity/parity.h"
#include "worker/device/blas.h"

/* Cores of this process, at most as many as products of this size can use. */
static int count_cores(void)
{
    enum { MOST = 16 };

    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < MOST ? n : MOST;
}

static bool read_option(struct parity_options *o, const char *arg)
{
    int is_bf16 = 1, is_bf16_state = 0;

    const struct {
        const char *name;
        int *number;
    } table[] = {
        {"steps=",   &o->steps      },
        {"short=",   &o->short_steps},
        {"vocab=",   &o->vocab      },
        {"case=",    &o->only       },
        {"threads=", &o->threads    },
        {"bf16=",    &is_bf16       },
        {"state=",   &is_bf16_state },
    };

    static const char device[] = "device=";
    if (strncmp(arg, device, sizeof device - 1) == 0) {
        snprintf(o->device, sizeof o->device, "%s", arg + sizeof device - 1);
        return true;
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(table); i++)
        if (strncmp(arg, table[i].name, strlen(table[i].name)) == 0) {
            *table[i].number = atoi(arg + strlen(table[i].name));
            o->is_fp32_only = o->is_fp32_only || is_bf16 == 0;
            o->has_bf16_state = o->has_bf16_state || is_bf16_state != 0;
            return true;
        }
    return false;
}

/* In a process of its own: one that has opened a GPU cannot fork others that use it. */
static bool has_device(const char *name)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        struct cs_device device;
        struct cs_err err = {0};
        if (cs_device_open(name, "fp32", &device, &err) == CS_OK)
            _exit(0);
        fprintf(stderr, "gpu_test_parity: %s\n", err.text);
        _exit(77);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
    struct parity_options o = {.device = "cuda:0",
                               .steps = 20,
                               .short_steps = 5,
                               .vocab = 32000,
                               .only = -1,
                               .threads = count_cores()};
    struct parity_tally tally = {0};
    int at = 1;
    const bool is_full = argc > 2 && strcmp(argv[1], "full") == 0;
    if (is_full && realpath(argv[2], o.dir) == NULL) {
        fprintf(stderr, "gpu_test_parity: no folder %s\n", argv[2]);
        return 1;
    }
    const bool is_states = argc > 1 && strcmp(argv[1], "states") == 0;
    at += is_full ? 2 : is_states || (argc > 1 && strcmp(argv[1], "steps") == 0);
    for (; at < argc; at++)
        if (!read_option(&o, argv[at])) {
            fprintf(stderr, "gpu_test_parity: unknown argument %s\n", argv[at]);
            return 1;
        }
    if (o.steps < 1 || o.short_steps < 1 || o.vocab < 2 || o.threads < 1) {
        fprintf(stderr, "gpu_test_parity: numbers out of range\n");
        return 1;
    }
    /* OpenBLAS reads its environment when it starts; where it cannot start again: only slower */
    if (cs_blas_set_environment())
        execv("/proc/self/exe", argv);
    if (!has_device(o.device))
        return 77;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* settings side by side print in one piece each */
    if (!is_states)
        (is_full ? parity_full : parity_steps)(&tally, &o);
    if (is_states)
        parity_states(&tally, &o);
    printf("%d passed, %d failed\n", tally.passed, tally.failed);
    return tally.failed == 0 ? 0 : 1;
}
