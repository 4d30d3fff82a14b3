/* Counts the rings of a rank. */
#include "core/plan/cost/links/windows.h"

#include "core/plan/plan.h"

static int64_t rings(int32_t ranks, int32_t devices_per_node)
{
    const bool have_some = ranks > 1 && ranks <= CS_WINDOW_RANKS && ranks <= devices_per_node;
    return have_some ? (ranks - 1) * CS_WINDOW_RING_BYTES : 0;
}

bool cs_device_has_windows(const struct cs_device_class *device)
{
    return device->mem_bytes > 0;
}

int64_t cs_window_bytes(int32_t devices_per_node, int32_t tp, int32_t ep)
{
    return rings(tp, devices_per_node) + rings(ep, devices_per_node);
}

static bool is_channel_of(const struct cs_group *group, int32_t rank)
{
    return group->kind == CS_GROUP_CHANNEL && (group->rank[0] == rank || group->rank[1] == rank);
}

static int32_t count_channels(const struct cs_plan *plan, int32_t rank)
{
    int32_t n = 0;
    for (int32_t i = cs_plan_collectives(plan); i < plan->n_groups; i++)
        n += is_channel_of(&plan->group[i], rank);
    return n;
}

/* n: channels of both its ranks */
static bool has_window(const struct cs_group *channel, int32_t devices_per_node, int32_t n_first,
                       int32_t n_second)
{
    return channel->rank[0] / devices_per_node == channel->rank[1] / devices_per_node &&
           n_first <= CS_WINDOW_CHANNELS && n_second <= CS_WINDOW_CHANNELS;
}

bool cs_channel_has_window(const struct cs_plan *plan, int32_t devices_per_node,
                           const struct cs_group *channel)
{
    return has_window(channel, devices_per_node, count_channels(plan, channel->rank[0]),
                      count_channels(plan, channel->rank[1]));
}

void cs_channel_windows(const struct cs_plan *plan, int32_t devices_per_node,
                        struct cs_arena *scratch, int32_t *windows)
{
    const int32_t first = cs_plan_collectives(plan), n_ranks = cs_plan_world(plan);
    int32_t *n = CS_NEW_ARRAY(scratch, int32_t, n_ranks + 1);
    for (int32_t r = 0; r < n_ranks; r++)
        windows[r] = 0;
    for (int32_t i = first; i < plan->n_groups; i++)
        for (int k = 0; k < 2; k++)
            n[plan->group[i].rank[k]]++;
    for (int32_t i = first; i < plan->n_groups; i++) {
        const struct cs_group *channel = &plan->group[i];
        const int32_t a = channel->rank[0], b = channel->rank[1];
        windows[channel->of == a ? b : a] += has_window(channel, devices_per_node, n[a], n[b]);
    }
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
    return cs_device_has_windows(cluster->device)
               ? channels_of(cluster, plan, rank).windows * CS_WINDOW_LANE_BYTES
               : 0;
}

int32_t cs_channels_without_window(const struct cs_cluster *cluster, const struct cs_plan *plan,
                                   int32_t rank)
{
    return channels_of(cluster, plan, rank).others;
}
