/* Repeats what is timed and takes medians. */
#include "worker/measure/timing.h"

#include "worker/measure/fit.h"

enum { MAX_REPEATS = 4096 };

const struct cs_effort cs_effort_whole = {3, 5, 15000000, 3000000, 60000000},
                       cs_effort_brief = {1, 3, 5000000, 1000000, 15000000};

static bool is_gpu(const struct cs_subject *s)
{
    return s->config.device->mem != NULL;
}

static int repeats_of(const struct cs_effort *effort, const struct cs_subject *s, int64_t once_ns)
{
    const int64_t least = is_gpu(s) ? effort->gpu_least_ns : effort->cpu_least_ns;
    const int64_t n = least / (once_ns > 0 ? once_ns : 1) + 1;
    return n > MAX_REPEATS ? MAX_REPEATS : (int)n;
}

enum cs_status cs_time_passes(const struct cs_effort *effort, struct cs_subject *s, double *fwd,
                              double *bwd, struct cs_err *err)
{
    const bool is_keeping = bwd != NULL;
    const int64_t warm = is_gpu(s) ? effort->gpu_warm_ns : 0;
    const int samples = effort->samples;
    double f[CS_EFFORT_SAMPLES], b[CS_EFFORT_SAMPLES];
    int64_t f_ns = 0, b_ns = 0, spent = 0;
    for (int i = 0; i < effort->first || spent < warm; i++) {
        CS_TRY(cs_subject_fwd(s, 1, is_keeping, &f_ns, err));
        if (is_keeping)
            CS_TRY(cs_subject_bwd(s, 1, &b_ns, err));
        spent += f_ns + b_ns;
    }
    const int n_f = repeats_of(effort, s, f_ns), n_b = repeats_of(effort, s, b_ns);
    for (int i = 0; i < samples; i++) {
        CS_TRY(cs_subject_fwd(s, n_f, is_keeping, &f_ns, err));
        f[i] = (double)f_ns / n_f / s->config.n_layers;
        if (is_keeping)
            CS_TRY(cs_subject_bwd(s, n_b, &b_ns, err));
        b[i] = (double)b_ns / n_b / s->config.n_layers;
    }
    *fwd = cs_median(samples, f);
    if (is_keeping)
        *bwd = cs_median(samples, b);
    return CS_OK;
}

enum cs_status cs_time_one(const struct cs_effort *effort, struct cs_subject *s, cs_timed run,
                           double *out, struct cs_err *err)
{
    double sample[CS_EFFORT_SAMPLES];
    const int samples = effort->samples;
    int64_t ns = 0;
    for (int i = 0; i < 2; i++)
        CS_TRY(run(s, 1, &ns, err));
    const int n = repeats_of(effort, s, ns);
    for (int i = 0; i < samples; i++) {
        CS_TRY(run(s, n, &ns, err));
        sample[i] = (double)ns / n;
    }
    *out = cs_median(samples, sample);
    return CS_OK;
}
