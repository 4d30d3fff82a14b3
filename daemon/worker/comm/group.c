/* The id of a communicator goes from its first rank to the others. */
#include "worker/comm/group.h"

enum cs_status cs_comm_group_open(struct cs_device *device, const int32_t *rank, int n, int place,
                                  enum cs_device_comm_kind kind, struct cs_comm *comm,
                                  int deadline_ms, void **out, struct cs_err *err)
{
    const struct cs_device_comm_ops *ops = device->mem->comm;
    char id[CS_DEVICE_COMM_ID] = {0};
    *out = NULL;
    if (place == 0)
        CS_TRY(ops->new_id(id, err));
    for (int k = 1; k < n; k++) {
        struct cs_xfer x = {.peer = rank[place == 0 ? k : 0],
                            .data = id,
                            .bytes = sizeof id,
                            .is_send = place == 0};
        if (place == 0 || place == k)
            CS_TRY(comm->table->exchange(comm, &x, 1, deadline_ms, err));
    }
    return ops->open(id, place, n, kind, out, err);
}
