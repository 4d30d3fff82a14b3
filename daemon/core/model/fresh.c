/* Fresh parameters: a function of the seed and of a parameter's name alone. */
#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/model/graph.h"

void cs_param_fill_fresh(const struct cs_module *module, uint64_t seed,
                         const struct cs_param *param, int threads, float *out)
{
    const uint64_t name = cs_fnv1a64(param->name, strlen(param->name));
    if (param->init == CS_INIT_NORMAL)
        cs_philox_fill_normal_on(threads, seed, name, param->count,
                                 (double)module->arch.initializer_range, out);
    else if (param->init == CS_INIT_FAN_IN)
        cs_philox_fill_normal_on(threads, seed, name, param->count,
                                 1.0 / sqrt(3.0 * (double)param->dim[1]), out);
    else if (param->init == CS_INIT_DECAY)
        cs_philox_fill_decay(seed, name, param->count, out);
    else
        for (int64_t i = 0; i < param->count; i++)
            out[i] = param->init == CS_INIT_ONE ? 1.0f : 0.0f;
}
