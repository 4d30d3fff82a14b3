/* Buffers for the rows of edges and their gradients, which slots share where the orders of ranks prove that the one is
 * read before the other is written, whatever the speed of ranks and messages (buffers.c). Workers lay them out so; plans
 * and forecasts count them. */
#ifndef CS_SCHED_BUFFERS_H
#define CS_SCHED_BUFFERS_H

#include "core/sched/kept.h"

struct cs_crossing; /* when rows are made and read */
struct cs_crossing_message;

struct cs_buffers {
    const struct cs_plan *plan;
    const struct cs_kept_order *order; /* (n_ranks) compute actions of a step */
    int32_t n_slots;
    struct cs_crossing *crossing; /* (n_edges, n_slots, 2) */
    bool *is_apart;               /* (n_edges) all rows have buffers of their own */
    int32_t *first_from;          /* (n_ranks) the first edge that begins on the rank, -1: none */
    int32_t *next_from;     /* (n_edges) the next one that begins on the same rank, -1: none */
    int32_t *near, *beside; /* (n_ranks), (n_edges) of a search */
    const struct cs_crossing_message **message; /* (n_edges) of all slots, of branches once known */
    struct cs_arena *scratch;                   /* of the caller; everything lies there */
};

/* order must live as long */
struct cs_buffers cs_buffers_make(const struct cs_plan *plan, const struct cs_kept_order *order,
                                  int32_t n_slots, struct cs_arena *scratch);
/* Buffers of an edge on a rank, one of its two ends -> how many. buffer (n_slots, 2): which of them rows of a slot and
 * their gradient lie in, -1: they are not in this step; NULL: not asked for. */
int32_t cs_buffers_share(const struct cs_buffers *of, int32_t edge, int32_t rank, int32_t *buffer);
/* n_buffers (n_edges, 2): of the rank that sends rows, of the one that receives them; of one rank, twice the same */
void cs_buffers_count(const struct cs_buffers *of, int32_t *n_buffers);

#endif
