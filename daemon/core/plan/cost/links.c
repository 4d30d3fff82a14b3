/* From measured collectives to the link that costs are counted with. */
#include "core/plan/cost/links.h"

#include <string.h>

#include "core/plan/cost/round.h"

int64_t cs_link_ns(const struct cs_device_class *device, int64_t bytes)
{
    if (bytes == 0 || device->link_bytes_per_s <= 0)
        return 0;
    return device->link_latency_ns +
           cs_divide_up((cs_u128)bytes * 1000000000u, device->link_bytes_per_s);
}

/* A ring of n sums n parts in n - 1 steps and sends them around in as many: 2 (n - 1) latencies, and
 * 2 (n - 1) / n of the bytes over each link. */
bool cs_profile_ring(const struct cs_profile *profile, int64_t *latency_ns, int64_t *bytes_per_s)
{
    const struct cs_profile_link *best = NULL;
    for (int32_t i = 0; profile != NULL && i < profile->n_links; i++) {
        const struct cs_profile_link *l = &profile->link[i];
        const bool is_ring = strcmp(l->op, "all-reduce") == 0;
        if (is_ring ? best == NULL || strcmp(best->op, l->op) != 0 || l->ranks > best->ranks
                    : best == NULL && strcmp(l->op, "send") == 0)
            best = l;
    }
    if (best == NULL)
        return false;
    const bool is_ring = strcmp(best->op, "all-reduce") == 0;
    const int64_t steps = is_ring ? 2 * ((int64_t)best->ranks - 1) : 1;
    const double times = is_ring ? (double)steps / best->ranks : 1;
    *latency_ns = best->latency_ns / steps;
    *bytes_per_s = (int64_t)((double)best->bytes_per_s * times);
    return *bytes_per_s > 0;
}

void cs_profile_cluster(const struct cs_profile *profile, struct cs_arena *arena,
                        struct cs_cluster *cluster)
{
    int64_t latency_ns, bytes_per_s;
    if (!cs_profile_ring(profile, &latency_ns, &bytes_per_s))
        return;
    struct cs_device_class *own = CS_NEW(arena, struct cs_device_class);
    *own = *cluster->device;
    own->link_latency_ns = latency_ns;
    own->link_bytes_per_s = bytes_per_s;
    cluster->device = own;
}

enum cs_status cs_spec_cluster(const struct cs_spec *spec, const struct cs_here *here,
                               struct cs_arena *arena, struct cs_cluster *out, struct cs_err *err)
{
    struct cs_profile *profile = NULL;
    json_t *this_node = json_string("here");
    enum cs_status status =
        cs_cluster_read_here(spec->cluster != NULL ? spec->cluster : this_node, here, out, err);
    json_decref(this_node);
    if (status == CS_OK)
        status = cs_spec_profile(spec, arena, &profile, err);
    if (status == CS_OK)
        cs_profile_cluster(profile, arena, out);
    return status;
}
