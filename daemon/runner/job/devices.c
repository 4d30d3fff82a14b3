/* Reads the list of leased devices. */
#include "runner/job/devices.h"
#include "core/base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_name(bool is_gpu)
{
    return is_gpu ? "cuda" : "cpu";
}

/* One entry at *at, which moves behind it and its comma. */
static enum cs_status read_one(const char **at, bool is_gpu, struct cs_rank_device *out,
                               struct cs_err *err)
{
    const size_t n = strcspn(*at, ",");
    const char *kind = kind_name(is_gpu);
    const size_t kind_n = strlen(kind);
    char *end = NULL;
    if (n >= sizeof out->name || n < kind_n + 2 || strncmp(*at, kind, kind_n) != 0 ||
        (*at)[kind_n] != ':')
        return cs_fail(err, CS_INVALID, "a leased device is %s:NUMBER, not '%.*s'", kind, (int)n,
                       *at);
    snprintf(out->name, sizeof out->name, "%.*s", (int)n, *at);
    const long index = strtol(out->name + kind_n + 1, &end, 10);
    if (*end != '\0' || index < 0 || index > INT32_MAX || out->name[kind_n + 1] == '-')
        return cs_fail(err, CS_INVALID, "a leased device is %s:NUMBER, not '%s'", kind, out->name);
    out->is_gpu = is_gpu;
    out->index = (int32_t)index;
    *at += n + ((*at)[n] == ',');
    return CS_OK;
}

enum cs_status cs_rank_devices_read(const char *lease, bool is_gpu, int n_ranks,
                                    struct cs_arena *arena, const struct cs_rank_device **out,
                                    struct cs_err *err)
{
    struct cs_rank_device *device = CS_NEW_ARRAY(arena, struct cs_rank_device, n_ranks);
    const char *at = lease;
    for (int r = 0; r < n_ranks; r++) {
        if (lease == NULL) {
            device[r] = (struct cs_rank_device){.is_gpu = is_gpu, .index = r};
            snprintf(device[r].name, sizeof device[r].name, "%s:%d", kind_name(is_gpu), r);
            continue;
        }
        if (*at == '\0')
            return cs_fail(err, CS_PLAN, "the plan needs %d rank%s, %d %s leased to it", n_ranks,
                           CS_PLURAL(n_ranks), r, CS_NOUN(r, "device is", "devices are"));
        CS_TRY(read_one(&at, is_gpu, &device[r], err));
        for (int k = 0; k < r; k++)
            if (device[k].index == device[r].index)
                return cs_fail(err, CS_INVALID, "device %s is leased twice", device[r].name);
    }
    *out = device;
    return CS_OK;
}
