/* Which device each rank runs on: a list in the order of the ranks, as the daemon leased them. */
#ifndef CS_RUNNER_DEVICES_H
#define CS_RUNNER_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

struct cs_rank_device {
    char name[24]; /* "cuda:2": what the worker opens */
    bool is_gpu;
    int32_t index; /* 2 */
};

/* *out: (n_ranks) in the arena. lease: "cuda:0,cuda:1", may hold more than n_ranks; NULL: the first
 * of the node. CS_PLAN: fewer than ranks; CS_INVALID: no such list, a device twice or of the other
 * kind. */
enum cs_status cs_rank_devices_read(const char *lease, bool is_gpu, int n_ranks,
                                    struct cs_arena *arena, const struct cs_rank_device **out,
                                    struct cs_err *err) CS_NODISCARD;

#endif
