/* Fresh parameters: a function of the seed and of a parameter's name alone. */
#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/base/system/parallel.h"
#include "core/model/tensor_parallel.h"

enum {
    GRAIN = 1 << 16
}; /* even: normals come in pairs; some 2 ms, more than a thread takes to start */

struct fresh {
    const struct cs_param *param;
    uint64_t seed, name;
    double std; /* of normals */
};

static void make(void *user, int64_t first, int64_t n, float *out)
{
    const struct fresh *f = user;
    const enum cs_init init = f->param->init;
    if (init == CS_INIT_NORMAL || init == CS_INIT_FAN_IN)
        cs_philox_fill_normal(f->seed, f->name, (uint64_t)first, n, f->std, out);
    else if (init == CS_INIT_DECAY)
        cs_philox_fill_decay(f->seed, f->name, (uint64_t)first, n, out);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = init == CS_INIT_ONE ? 1.0f : 0.0f;
}

void cs_param_fill_part(const struct cs_module *module, uint64_t seed, const struct cs_param *param,
                        const struct cs_tp_part *part, int threads, float *out)
{
    struct fresh f = {.param = param,
                      .seed = seed,
                      .name = cs_fnv1a64(param->name, strlen(param->name)),
                      .std = param->init == CS_INIT_FAN_IN
                                 ? 1.0 / sqrt(3.0 * (double)param->dim[1])
                                 : (double)module->arch.initializer_range};
    const struct cs_tp_making making = {
        .make = make, .user = &f, .threads = threads, .grain = GRAIN};
    cs_tp_make(part, param, &making, out);
}

void cs_param_fill_fresh(const struct cs_module *module, uint64_t seed,
                         const struct cs_param *param, int threads, float *out)
{
    static const struct cs_tp_part all = {.dim = -1, .holders = 1};
    cs_param_fill_part(module, seed, param, &all, threads, out);
}
