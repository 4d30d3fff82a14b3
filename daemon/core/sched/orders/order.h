/* Compute orders: what a schedule generator fills. Generators see rank nodes, all stages of one
 * rank together, and emit only forward and backward; messages are added by
 * lowering (sched/lower/messages.c).
 * Private to core/sched. */
#ifndef CS_SCHED_ORDERS_ORDER_H
#define CS_SCHED_ORDERS_ORDER_H

#include "core/sched/program.h"
#include "core/sched/traits.h"

struct cs_order_item {
    uint8_t op;   /* enum cs_op: FWD, BWD, BWD_INPUT or BWD_WEIGHT */
    uint8_t lead; /* 1: a slot of the next step */
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
    bool leads;        /* fully frozen encoder: may compute slots of the next step */
};

struct cs_pipeline {
    const struct cs_plan *plan;
    const struct cs_program_options *options;
    const struct cs_stage_traits *traits; /* (n_stages) */
    struct cs_rank_node *node;            /* (n_ranks) */
    int32_t n_ranks, n_slots;
    bool is_eval;
    bool is_cyclic; /* stages share ranks so that rank nodes feed each other in a cycle ... */
    bool is_grid;   /* ... because stage s of every branch is on the s-th rank of the head */
    int32_t longest_chain; /* stages on the longest path */
    int32_t *tail;         /* (n_stages) stages after this one on the longest path */
    int32_t max_depth;     /* of the nodes */
    /* the branch of the head, for schedules that chunk it or colocate encoders with it */
    int32_t n_head_ranks;   /* p */
    int32_t n_chunks;       /* v */
    int32_t *head_position; /* (n_ranks) of the rank in the branch, -1: has none of its stages */
    int32_t head_ahead;     /* interleaved: what its first stage wants ahead, see interleaved.c */
};

void cs_pipeline_init(const struct cs_plan *plan, const struct cs_program_options *options,
                      const struct cs_stage_traits *traits, struct cs_arena *arena,
                      struct cs_pipeline *out);
/* Fills n_head_ranks, n_chunks and head_position: stage i of the head's branch is on rank i % p of
 * them. CS_PLAN: it is not. */
enum cs_status cs_pipeline_find_chunks(struct cs_pipeline *pipeline, const char *schedule,
                                       struct cs_arena *arena, struct cs_err *err) CS_NODISCARD;
/* room for every action of the rank */
void cs_order_init(const struct cs_pipeline *pipeline, int32_t rank, struct cs_arena *arena,
                   struct cs_order *order);
/* one action of one stage, if the stage has it for that slot */
void cs_order_stage(const struct cs_pipeline *pipeline, enum cs_op op, int32_t stage, int32_t slot,
                    struct cs_order *order);
/* forward of the slot: the rank's stages in dataflow order; backward, its input half and its weight
 * half: those that have one, reversed */
void cs_order_fwd(const struct cs_pipeline *pipeline, int32_t rank, int32_t slot,
                  struct cs_order *order);
void cs_order_bwd(const struct cs_pipeline *pipeline, int32_t rank, enum cs_op op, int32_t slot,
                  struct cs_order *order);
/* a rank without backward: forwards of the slots that are not there yet, then of the next step's */
void cs_order_forwards(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);
/* F(0..warm-1); F(warm+i), B(i); the remaining B */
void cs_order_one_to_one(const struct cs_pipeline *pipeline, int32_t rank, int32_t warm,
                         struct cs_order *order);

#endif
