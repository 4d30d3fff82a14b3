/* Transfers between the ranks of a context (worker/model/halves/context.h), or those that share matrices
 * (worker/layer/tensors.h): what is added to one exchange moves together. On a host who computes moves
 * it, from its start until it is awaited; on a device it is enqueued and awaited by streams, and between the calls of a graph
 * it is a place where that is cut. */
#ifndef CS_WORKER_LAYER_EXCHANGE_H
#define CS_WORKER_LAYER_EXCHANGE_H

#include "kernels/device.h"
#include "worker/layer/layers.h"

/* peers are places in the context. Or a sum of what all of them have, where they can (cs_context.sums) */
struct cs_context_exchange {
    struct cs_device_move *move; /* grows */
    int n, room;
    void *sum; /* (sum_n), in place; NULL: moves */
    size_t sum_n;
    enum cs_grad_type sum_type;
};

struct cs_context {
    int n, place;
    int32_t groups; /* of heads, or most of rows that are summed; 1: one */
    int64_t
        group_bytes; /* fewest bytes of a group that are worth one: keys and values, or sums; 0: even
                            groups of any size */
    bool sums;       /* an exchange can be a sum (devices) */
    /* Exchange number `which` begins, after all that was run before; and is complete for all that is
     * run afterwards. Or the step has failed, which whoever runs it knows. */
    void (*start)(void *user, int32_t which, const struct cs_context_exchange *exchange);
    void (*finish)(void *user, int32_t which);
    /* both at once, where nothing runs beside it: on a device without a way to another stream and back; NULL: start and
     * finish */
    void (*move)(void *user, int32_t which, const struct cs_context_exchange *exchange);
    void *user;
    /* Experts on devices: rows of the slot that runs on its places, rows[r * row_step] and, of layers that have
     * other rows (worker/layer/stretch.h), the number behind it; NULL: nobody asks. */
    const int32_t *rows;
    int32_t row_step;
    struct cs_context_exchange *exchange; /* (room) of a stage's pass, n_exchanges of them */
    int32_t n_exchanges, room;
};

void cs_context_begin(struct cs_context *context); /* of a pass; accepts NULL */
void cs_context_free(struct cs_context *context);  /* what it took; accepts NULL */

struct cs_exchange {
    struct cs_run *run;
    struct cs_context *context; /* who meet: run->context or run->tensors */
    int32_t which;
};

/* an empty one */
struct cs_exchange cs_exchange_new(struct cs_run *run, struct cs_context *context);
/* bytes of data to, or from, one of those; 0: nothing. Both ends add the same ones in the same
 * order. */
void cs_exchange_add(const struct cs_exchange *e, int place, void *data, int64_t bytes,
                     bool is_send);
void cs_exchange_add_acts(const struct cs_exchange *e, int place, void *data, int64_t n,
                          bool is_send); /* n of the device's act type */
/* the exchange is the sum of data (n) */
void cs_exchange_sum(const struct cs_exchange *e, void *data, size_t n, enum cs_grad_type type);
void cs_exchange_start(const struct cs_exchange *e);
void cs_exchange_finish(const struct cs_exchange *e); /* for what is run from here on */
void cs_exchange_move(const struct cs_exchange *e);   /* both */

#endif
