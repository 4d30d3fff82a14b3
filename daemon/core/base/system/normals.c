#include "core/base/system/normals.h"

#include "core/base/philox.h"
#include "core/base/system/parallel.h"

enum { THREAD_VALUES = 1 << 16 }; /* even; some 2 ms: more than a thread takes to start */

struct filling {
    uint64_t seed, name_hash;
    double std;
    float *out;
};

static void fill_range(void *user, int64_t first, int64_t n)
{
    const struct filling *f = user;
    cs_philox_fill_normal(f->seed, f->name_hash, (uint64_t)first, n, f->std, f->out + first);
}

void cs_philox_fill_normal_on(int threads, uint64_t seed, uint64_t name_hash, int64_t n, double std,
                              float *out)
{
    struct filling f = {.seed = seed, .name_hash = name_hash, .std = std, .out = out};
    cs_parallel_for(threads, n, THREAD_VALUES, fill_range, &f);
}
