/* What the pass that adds messages knows while it runs. Private to core/sched/lower: channels.c says which messages there
 * are, messages.c writes a rank, step_end.c the end of its step, both by actions.c. */
#ifndef CS_SCHED_LOWER_PASS_H
#define CS_SCHED_LOWER_PASS_H

#include "core/plan/groups.h"
#include "core/sched/orders/order.h"

#define CS_NO_ACTION UINT32_MAX

/* what flows over an edge for a slot */
enum cs_message_flow { CS_MESSAGE_ROWS, CS_MESSAGE_GRAD, CS_MESSAGE_LEAD_ROWS, CS_MESSAGE_FLOWS };

/* what a stage computes for a slot; CS_WORK_GRAD: the backward that receives the gradient */
enum cs_work { CS_WORK_FORWARD, CS_WORK_GRAD, CS_WORK_WEIGHT, CS_WORK_LEAD_FORWARD, CS_WORKS };

struct cs_slot_message {
    int16_t edge;
    uint8_t flow;
    int32_t slot;
};

/* all messages of one pair of ranks in one direction, in the order of the sends */
struct cs_message_channel {
    int32_t from, to;
    struct cs_slot_message *msg;
    uint32_t n, cap;
    uint32_t n_received;       /* emitted so far on the receiving rank */
    uint32_t last_send;        /* action id on the sending rank */
    int32_t next_out, next_in; /* other channels that begin, end at the same rank; -1: the last */
};

struct cs_stage_links {
    int32_t *in, *out; /* edge ids */
    int32_t n_in, n_out;
};

struct cs_pass {
    const struct cs_pipeline *pipe;
    const struct cs_plan *plan;
    const struct cs_program_options *options;
    struct cs_arena *arena;
    struct cs_stage_links *links;
    struct cs_message_channel *channel;
    int32_t n_channels;
    int32_t *first_out, *first_in; /* (n_ranks) channels, -1: none */
    int32_t *edge_channel;         /* (n_edges, 2) rows, gradient; -1: same rank */
    uint32_t *position;            /* (n_edges, CS_MESSAGE_FLOWS, n_slots) in its channel */
    uint32_t *send, *recv;         /* (n_edges, CS_MESSAGE_FLOWS, n_slots) action ids */
    uint32_t *done;                /* (n_stages, CS_WORKS, n_slots) action ids */
    bool has_tied;
    /* the rank being written */
    struct cs_rank_program *out;
    uint32_t cap_actions, cap_deps;
};

/* ---- channels.c ---- */

/* Links, channels and empty tables, in the arena; fields before links are set. */
void cs_pass_open(struct cs_pass *p);
/* The messages that a rank's order sends, behind those of other ranks. */
void cs_pass_list(struct cs_pass *p, const struct cs_order *order);
/* places in the tables of edges, of stages */
size_t cs_pass_edge(const struct cs_pass *p, int32_t edge, int flow, int32_t slot);
size_t cs_pass_stage(const struct cs_pass *p, int32_t stage, int work, int32_t slot);
enum cs_work cs_pass_work(const struct cs_pass *p, const struct cs_order_item *item);
/* the edge carries the flow for the slot */
bool cs_pass_flows(const struct cs_pass *p, int32_t edge, int flow, int32_t slot);
/* -1: both ends are on one rank */
int32_t cs_pass_channel(const struct cs_pass *p, int32_t edge, int flow);
/* What the finished item sends, edge by edge: rows to consumers, gradients to producers; is_out false: what it consumes
 * before, from the other ends. Returns how many edges. */
int32_t cs_pass_edges(const struct cs_pass *p, const struct cs_order_item *item, bool is_out,
                      int32_t **edges, int *flow);

/* ---- actions.c: those of the rank being written ---- */

struct cs_action cs_pass_blank(enum cs_op op);
/* returns its id */
uint32_t cs_pass_add(struct cs_pass *p, struct cs_action action);
/* of the action added last; CS_NO_ACTION: nothing */
void cs_pass_add_dep(struct cs_pass *p, uint32_t on);
/* the group of a rank, -1: none (core/plan/groups.h) */
int16_t cs_pass_group(const struct cs_pass *p, enum cs_group_kind kind, int32_t of, int32_t rank);
/* this rank's end of a message */
uint32_t cs_pass_add_transfer(struct cs_pass *p, enum cs_op op, const struct cs_slot_message *msg,
                              int32_t peer);
/* with what it waits for */
void cs_pass_add_recv(struct cs_pass *p, const struct cs_message_channel *ch,
                      const struct cs_slot_message *msg);

/* ---- step_end.c ---- */

void cs_pass_add_end(struct cs_pass *p, int32_t rank, uint32_t last_compute);

#endif
