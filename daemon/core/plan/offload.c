/* How many sets of activations of a stage stay on a GPU. */
#include "core/plan/offload.h"

int32_t cs_offload_sets(int32_t alive)
{
    for (int32_t sets = 2; sets <= CS_OFFLOAD_SETS && sets < alive; sets++)
        if ((alive - 1) % sets != 0)
            return sets;
    return 0;
}
