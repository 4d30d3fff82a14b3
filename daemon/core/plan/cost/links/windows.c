/* Counts the rings of a rank. */
#include "core/plan/cost/links/windows.h"

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
