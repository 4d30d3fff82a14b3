/* Attention of one slot (context_slot.h) on one rank: its arrays, and passes as layers run them. */
#ifndef CS_TESTS_BENCH_CONTEXT_RANK_H
#define CS_TESTS_BENCH_CONTEXT_RANK_H

#include "bench/context_slot.h"
#include "kernels/comm.h"
#include "worker/comm/context_comm.h"
#include "worker/layer/exchange.h"

struct cs_context_rank {
    const struct cs_context_lab *lab;
    struct cs_context_slot slot;
    struct cs_device *device;
    struct cs_context_comm *comm; /* borrowed; NULL: one rank */
    struct cs_context context;
    struct cs_scratch scratch;
    struct cs_ctx ctx;
    struct cs_run run;
    int rank;
    int64_t lse_rows;         /* as many as lse has room for of all heads */
    int64_t rows, q, kv, all; /* columns: of queries, keys, and all three */
    void *qkv, *o, *d_o, *dqkv;
    float *lse;
    void *begin, *end; /* events */
};

/* Opens *comm, for this case and later ones, where it is NULL and there are several ranks. Stays where
 * it is opened. */
void cs_context_rank_open(struct cs_context_rank *rank, const struct cs_context_lab *lab,
                          struct cs_device *device, int place, struct cs_comm *sockets,
                          struct cs_context_comm **comm);
void cs_context_rank_close(struct cs_context_rank *rank);
void cs_context_rank_forward(struct cs_context_rank *rank);
void cs_context_rank_backward(struct cs_context_rank *rank); /* after a forward pass */
/* what the passes have made of this rank's rows, to their places among all */
void cs_context_rank_keep(struct cs_context_rank *rank, const struct cs_context_lab_values *out);

#endif
