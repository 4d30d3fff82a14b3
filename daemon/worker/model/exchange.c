/* A list of transfers that are moved together; its memory is the context's. */
#include "worker/model/exchange.h"

#include <stdlib.h>

void cs_exchange_add(struct cs_exchange *e, int place, void *data, int64_t elements, bool is_send)
{
    struct cs_context *x = e->context;
    if (elements == 0)
        return;
    if (e->n == x->room) {
        x->room = x->room > 0 ? 2 * x->room : 64;
        x->xfer = realloc(x->xfer, (size_t)x->room * sizeof *x->xfer);
        CS_ASSERT(x->xfer != NULL);
    }
    x->xfer[e->n++] = (struct cs_xfer){.peer = x->first + place,
                                       .data = data,
                                       .bytes = (size_t)elements * sizeof(float),
                                       .is_send = is_send};
}

void cs_exchange_move(const struct cs_exchange *e)
{
    if (e->n > 0)
        e->context->exchange(e->context->user, e->context->xfer, e->n);
}
