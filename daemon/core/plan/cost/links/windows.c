/* Counts the rings of a rank. */
#include "core/plan/cost/links/windows.h"

#include "core/plan/plan.h"

static int64_t rings(int32_t ranks, int32_t devices_per_node)
{
    const bool have_some = ranks > 1 && ranks <= CS_WINDOW_RANKS && ranks <= devices_per_node;
    return have_some ? (ranks - 1) * CS_WINDOW_RING_BYTES : 0;
}

int64_t cs_window_bytes(const struct cs_device_class *device, int32_t devices_per_node, int32_t tp,
                        int32_t ep)
{
    return device->mem_bytes > 0 ? rings(tp, devices_per_node) + rings(ep, devices_per_node) : 0;
}

static bool is_channel_of(const struct cs_group *group, int32_t rank)
{
    return group->kind == CS_GROUP_CHANNEL && cs_group_position(group, rank) >= 0;
}

static bool has_few_channels(const struct cs_plan *plan, int32_t rank)
{
    int n = 0;
    for (int32_t i = cs_plan_collectives(plan); i < plan->n_groups; i++)
        n += is_channel_of(&plan->group[i], rank);
    return n <= CS_WINDOW_CHANNELS;
}

bool cs_channel_has_window(const struct cs_plan *plan, int32_t devices_per_node,
                           const struct cs_group *channel)
{
    const int32_t *rank = channel->rank;
    return rank[0] / devices_per_node == rank[1] / devices_per_node &&
           has_few_channels(plan, rank[0]) && has_few_channels(plan, rank[1]);
}

/* of a rank: those that come to it and have a window, and all that have none */
struct channels {
    int32_t windows, others;
};

static struct channels channels_of(const struct cs_cluster *cluster, const struct cs_plan *plan,
                                   int32_t rank)
{
    struct channels n = {0, 0};
    for (int32_t i = cs_plan_collectives(plan); i < plan->n_groups; i++) {
        const struct cs_group *group = &plan->group[i];
        if (!is_channel_of(group, rank))
            continue;
        const bool has_window = cs_channel_has_window(plan, cluster->devices_per_node, group);
        n.windows += has_window && group->of != rank;
        n.others += !has_window;
    }
    return n;
}

int64_t cs_channel_window_bytes(const struct cs_cluster *cluster, const struct cs_plan *plan,
                                int32_t rank)
{
    return cluster->device->mem_bytes > 0
               ? channels_of(cluster, plan, rank).windows * CS_WINDOW_LANE_BYTES
               : 0;
}

int32_t cs_channels_without_window(const struct cs_cluster *cluster, const struct cs_plan *plan,
                                   int32_t rank)
{
    return channels_of(cluster, plan, rank).others;
}
