/* Compute orders: what a schedule generator fills. Generators see rank nodes, all stages of one
 * rank together, and emit only forward and backward; messages are added by the communication pass.
 * Private to core/sched. */
#ifndef CS_SCHED_ORDER_H
#define CS_SCHED_ORDER_H

#include "core/sched/program.h"

struct cs_order_item {
    uint8_t op; /* enum cs_op: FWD or BWD */
    int16_t stage;
    int32_t slot;
};

struct cs_order {
    struct cs_order_item *item;
    uint32_t n;
};

struct cs_rank_node {
    int32_t *stages; /* ids, dataflow order */
    int32_t n_stages;
    int32_t depth;     /* rank nodes after this one on the longest path */
    bool has_backward; /* of any stage; false in programs that only run forward */
};

struct cs_pipeline {
    const struct cs_plan *plan;
    struct cs_rank_node *node; /* (n_ranks) */
    int32_t n_ranks, n_slots;
    bool is_eval;
    bool is_cyclic;        /* stages share ranks so that rank nodes feed each other in a circle */
    int32_t longest_chain; /* stages on the longest path */
};

/* a schedule: emits the order of one rank */
typedef void (*cs_schedule_order)(const struct cs_pipeline *pipeline, int32_t rank,
                                  struct cs_order *order);

struct cs_schedule {
    const char *name;
    cs_schedule_order order;
};

const struct cs_schedule *cs_schedule_find(const char *name); /* NULL: unknown */
void cs_schedule_1f1b(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);
void cs_schedule_gpipe(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);

void cs_pipeline_init(const struct cs_plan *plan, int n_slots, bool is_eval, struct cs_arena *arena,
                      struct cs_pipeline *out);
/* room for every forward and backward of the rank */
void cs_order_init(const struct cs_pipeline *pipeline, int32_t rank, struct cs_arena *arena,
                   struct cs_order *order);
/* forward of the slot: the rank's stages in dataflow order; backward: those that have one, reversed
 */
void cs_order_fwd(const struct cs_pipeline *pipeline, int32_t rank, int32_t slot,
                  struct cs_order *order);
void cs_order_bwd(const struct cs_pipeline *pipeline, int32_t rank, int32_t slot,
                  struct cs_order *order);

#endif
