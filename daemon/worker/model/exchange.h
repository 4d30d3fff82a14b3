/* Transfers of one call between the ranks of a context (worker/model/context.h). */
#ifndef CS_WORKER_MODEL_EXCHANGE_H
#define CS_WORKER_MODEL_EXCHANGE_H

#include "worker/model/context.h"

struct cs_exchange {
    struct cs_context *context;
    int n;
};

/* Elements of four bytes to, or from, a rank of the context; 0: nothing. Both ends add the same ones in
 * the same order. */
void cs_exchange_add(struct cs_exchange *e, int place, void *data, int64_t elements, bool is_send);
/* Moves them; returns when they are complete. */
void cs_exchange_move(const struct cs_exchange *e);

#endif
