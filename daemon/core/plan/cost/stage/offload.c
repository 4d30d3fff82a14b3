/* What moving activations between a GPU and the host costs. */
#include "core/plan/cost/stage/offload.h"

/* One way of a PCIe 5.0 x16 link, as copies from and to page-locked memory reach it. */
static const double host_bytes_per_s = 50e9;

void cs_offload_times(struct cs_stage *stage, int32_t alive)
{
    const int64_t moves_ns = (int64_t)((double)stage->saved_bytes * 1e9 / host_bytes_per_s);
    const int64_t back_ns = stage->bwd_input_ns + stage->bwd_weight_ns;
    if (!stage->offloads || cs_offload_sets(alive) == 0)
        return;
    if (moves_ns > stage->fwd_ns)
        stage->fwd_ns = moves_ns;
    if (moves_ns > back_ns)
        stage->bwd_input_ns += moves_ns - back_ns;
}
