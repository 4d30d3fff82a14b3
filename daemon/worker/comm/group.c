/* The ranks of a communicator meet, then its id goes from the first of them to the others. */
#include "worker/comm/group.h"

#include <stdlib.h>

/* The first hears of all others before it tells them the id: devices wait for each other within a time, and how long
 * ranks take to come here is not known. */
static enum cs_status share_id(struct cs_comm *comm, const int32_t *rank, int n,
                               char id[CS_DEVICE_COMM_ID], int deadline_ms, struct cs_err *err)
{
    char here;
    struct cs_xfer *x = calloc((size_t)n, sizeof *x);
    if (x == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d ranks", n);
    for (int k = 1; k < n; k++)
        x[k - 1] = (struct cs_xfer){.peer = rank[k], .data = &here, .bytes = sizeof here};
    enum cs_status status = comm->table->exchange(comm, x, n - 1, deadline_ms, err);
    for (int k = 1; k < n; k++)
        x[k - 1] =
            (struct cs_xfer){.peer = rank[k], .data = id, .bytes = CS_DEVICE_COMM_ID, .is_send = 1};
    if (status == CS_OK)
        status = comm->table->exchange(comm, x, n - 1, deadline_ms, err);
    free(x);
    return status;
}

static enum cs_status hear_id(struct cs_comm *comm, int32_t first, char id[CS_DEVICE_COMM_ID],
                              int deadline_ms, struct cs_err *err)
{
    char here = 1;
    struct cs_xfer both[] = {
        {.peer = first, .data = &here, .bytes = sizeof here,       .is_send = 1},
        {.peer = first, .data = id,    .bytes = CS_DEVICE_COMM_ID, .is_send = 0}
    };
    return comm->table->exchange(comm, both, 2, deadline_ms, err);
}

enum cs_status cs_comm_group_open(struct cs_device *device, const int32_t *rank, int n, int place,
                                  enum cs_device_comm_kind kind, struct cs_comm *comm,
                                  int deadline_ms, void **out, struct cs_err *err)
{
    const struct cs_device_comm_ops *ops = device->mem->comm;
    char id[CS_DEVICE_COMM_ID] = {0};
    *out = NULL;
    if (place == 0) {
        CS_TRY(ops->new_id(id, err));
        CS_TRY(share_id(comm, rank, n, id, deadline_ms, err));
    } else {
        CS_TRY(hear_id(comm, rank[0], id, deadline_ms, err));
    }
    return ops->open(id, place, n, kind, out, err);
}
