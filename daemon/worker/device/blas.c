/* Chooses the environment in which OpenBLAS is loaded: its threads, and kernels for the
 * processor. */
#include "worker/device/blas.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

#if defined(__x86_64__)
/* what OpenBLAS falls back to on a processor it does not know */
static const char *const outdated[] = {"Katmai", "Coppermine", "Northwood", "Prescott", "Banias"};

static const char *better_core(void)
{
    const char *core = openblas_get_corename();
    for (size_t i = 0; i < CS_ARRAY_LEN(outdated); i++) {
        if (strcmp(core, outdated[i]) != 0)
            continue;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
            return "SKYLAKEX";
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            return "HASWELL";
    }
    return NULL;
}
#else
static const char *better_core(void)
{
    return NULL;
}
#endif

bool cs_blas_set_environment(void)
{
    bool is_changed = false;
    const char *core = getenv("OPENBLAS_CORETYPE") == NULL ? better_core() : NULL;
    if (core != NULL)
        is_changed = setenv("OPENBLAS_CORETYPE", core, 1) == 0;
    if (getenv("OPENBLAS_NUM_THREADS") == NULL)
        is_changed = setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0 || is_changed;
    return is_changed;
}
