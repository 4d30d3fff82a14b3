/* Programs: for every rank a flat list of actions over slots. Worker and simulator interpret the
 * same program. Actions are private to core/sched and the worker: never on the wire or on disk;
 * processes receive the plan, lower it themselves and compare program hashes.
 *
 * Streams of a rank are FIFOs: an action starts when it is the head of its stream and its
 * dependencies (ids on the same rank) are done. Ranks meet only in matched SEND/RECV and in
 * collectives. COMM: a message is posted when its dependencies are done, every earlier message of
 * the same (peer, direction) is posted and every earlier collective is complete; other peers and
 * directions are independent (as in kernels/comm.h). A collective is posted when its dependencies
 * are done, every earlier message is posted and every earlier collective is complete. The k-th send
 * of a pair of ranks meets the k-th receive. Receives have no dependencies: boundary buffers exist
 * for every slot.
 *
 * What an action means for the worker:
 *   FWD   forward of `stage` on `slot`
 *   BWD   backward: input and weight gradients as the stage's layers need (frozen-aware; absent
 * where the stage needs neither)        BWD_INPUT / BWD_WEIGHT: the two halves, zero-bubble only;
 * each absent where the stage has no such work. A stage without BWD_INPUT receives its gradient in
 * BWD_WEIGHT.
 *   SEND/RECV   rows of `edge` for `slot`; is_grad: the gradient, flowing to -> from. Peer: a rank.
 *               Edges between stages of one rank have no messages; the consumer depends on the
 *               producer
 *   COPIES  sum of the gradients of the stage over the ranks that have a copy of its branch, in
 *           order of the copies (after all its backwards; collective)
 *   REDUCE  with replicas: the gradients of this rank's weights summed over the same rank of every
 *           replica, of which each keeps its part (reduce-scatter)
 *   TIED  exchange of the tied embedding's gradients between embed and head stage (after all
 *         backwards and REDUCE): with replicas, of the parts that REDUCE left
 *   NORM  sum of squares of every trainable tensor, all-gathered over all ranks (collective, after
 *         all of these)
 *   STEP  clip factor, AdamW on the parameters this rank owns
 *   GATHER  the updated weights back to all replicas (after STEP)
 *   EVAL  forward-only programs: loss and exact match of the slot (head stage)
 *   MARK  end of step */
#ifndef CS_SCHED_PROGRAM_H
#define CS_SCHED_PROGRAM_H

#include "core/base/buf.h"
#include "core/plan/plan.h"

#define CS_OPS_TABLE(X)                                                                            \
    X(FWD, "F", COMPUTE)                                                                           \
    X(BWD, "B", COMPUTE)                                                                           \
    X(BWD_INPUT, "I", COMPUTE)                                                                     \
    X(BWD_WEIGHT, "W", COMPUTE)                                                                    \
    X(SEND, "s", COMM)                                                                             \
    X(RECV, "r", COMM)                                                                             \
    X(TIED, "T", COMM)                                                                             \
    X(NORM, "N", COMM)                                                                             \
    X(STEP, "O", COMPUTE)                                                                          \
    X(MARK, "M", COMPUTE) X(COPIES, "C", COMM) X(REDUCE, "R", COMM) X(GATHER, "G", COMM)

enum cs_op {

#define X(op, letter, stream) CS_OP_##op,
    CS_OPS_TABLE(X)
#undef X
        CS_OP_COUNT
};

enum cs_stream { CS_STREAM_COMPUTE, CS_STREAM_COMM, CS_STREAM_COUNT };

/* collective groups: cs_action.comm. All members of a group meet; a member's collectives block its
 * COMM stream, messages do not. CS_COMM_COPIES + b: the ranks that have a copy of branch b.
 * CS_COMM_REPLICAS: the same rank of every replica; a program is of one replica, so nobody else of
 * it is a member. */
enum { CS_COMM_WORLD, CS_COMM_TIED, CS_COMM_REPLICAS, CS_COMM_COPIES };

const char *cs_op_letter(enum cs_op op);
enum cs_stream cs_op_stream(enum cs_op op);

struct cs_action {
    uint32_t id; /* index in the rank's list */
    uint8_t op;  /* enum cs_op */
    uint8_t is_grad;
    uint8_t lead; /* 1: a slot of the next step */
    uint8_t part;
    int16_t stage;              /* plan->stages, -1: none */
    int16_t edge;               /* plan->edges, -1: none */
    int16_t peer;               /* rank, -1: none */
    int16_t comm;               /* collective group, -1: none */
    int32_t slot;               /* -1: none */
    uint32_t first_dep, n_deps; /* in rank_program.deps: action ids of the same rank */
};

struct cs_rank_program {
    int32_t rank;
    struct cs_action
        *actions; /* execution order of the merged list; per stream it is the FIFO order */
    uint32_t n_actions;
    uint32_t *deps;
    uint32_t n_deps;
    uint32_t *fifo[CS_STREAM_COUNT]; /* action ids in FIFO order */
    uint32_t n_fifo[CS_STREAM_COUNT];
};

/* Leading: a fully frozen encoder, whose ranks have no backward at all, computes slots of the next
 * step (actions with lead = 1) while this step drains. Its rows replace those of the same slot of
 * this step once the consumer is done with them, so they take no memory. */
struct cs_program_options {
    int32_t n_slots;
    bool is_eval;
    /* Slots a forward-only stage may be ahead of its messages: it holds at most that many outputs,
     * and its consumers at most two inputs that wait. 0: rows of every slot have room. */
    int32_t ahead;
    int32_t lead_before; /* leading stages computed so many slots in the step before, 0 in the first
                          */
    int32_t lead_after;  /* ... and compute so many of the next, 0 in the last; the others never do
                          */
    int32_t window;      /* anchors: groups of encoder slots that are ahead, >= 1; 0: 2 */
    const struct cs_slot_share *share; /* (n_stages), must outlive the program; NULL: the plan's */
};

struct cs_program {
    const struct cs_plan *plan;
    int32_t n_ranks, n_slots;
    bool is_eval; /* forward only */
    int32_t ahead, lead_before, lead_after;
    const struct cs_slot_share *share; /* (n_stages), NULL: every stage runs every slot */
    int32_t n_copies; /* of a program repeated for the simulator, rank by rank; 0: it is not */
    struct cs_rank_program *rank;
    char hash[65];
};

/* What processes run: lower a plan for n_slots slots (>= 1): generator of the plan's schedule, then
 * the communication pass, then the verifier. is_eval: forward only, no NORM/STEP. graph NULL: no
 * exchange of a tied embedding (plans made from numbers). CS_PLAN: unknown schedule, over the
 * limits of an action's fields. CS_UNSUPPORTED: workers do not run such plans (cs_plan_check_runs);
 * those are lowered by cs_program_make_with, to be simulated. */
enum cs_status cs_program_make(const struct cs_plan *plan, const struct cs_graph *graph,
                               int n_slots, bool is_eval, struct cs_arena *arena,
                               struct cs_program **out, struct cs_err *err) CS_NODISCARD;

/* The same with all options, for every schedule of the table in order.c. zb-h1 and zb-h2: any plan.
 * interleaved: the branch of the head has its stage i on rank i % p of its ranks. three-phase and
 * anchors: encoders on the ranks of the head's branch, shared by slot. CS_PLAN: the plan does not
 * fit the schedule, more leading slots than slots, leading slots without a fully frozen encoder. */
enum cs_status cs_program_make_with(const struct cs_plan *plan, const struct cs_graph *graph,
                                    const struct cs_program_options *options,
                                    struct cs_arena *arena, struct cs_program **out,
                                    struct cs_err *err) CS_NODISCARD;

/* Activations that a rank keeps when it keeps most, by the plan's bytes of a slot; held (n_stages),
 * may be NULL: bytes more between the halves of a split backward. Slots of one stage that are alive
 * together at most. */
int64_t cs_program_kept_bytes(const struct cs_program *program, int32_t rank, const int64_t *held,
                              struct cs_arena *arena);
int32_t cs_program_live_slots(const struct cs_program *program, int32_t stage,
                              struct cs_arena *arena);

/* Compute-only order of one stage as text, "F0 F1 B0 ..." (cs.lab.program, tests). A split backward
 * is "B0" and "W0"; slots of the next step are marked, "F0'". */
const char *cs_program_letter(enum cs_op op);
void cs_program_text(const struct cs_program *program, int stage, struct cs_buf *out);

/* "rank 2: recv grad of edge vision.0 -> llm.0, slot 3" */
void cs_action_text(const struct cs_program *program, int rank, uint32_t id, struct cs_buf *out);

/* The proof before anything starts: sends match receives (edge, slot, direction, order per pair and
 * direction), collectives in one order, graph acyclic, every F has its B (or its I and W) iff the
 * stage has a backward, weight gradients in slot order, sums over copies, NORM after all of them,
 * every trainable parameter exactly one STEP. Names the actions involved. */
enum cs_status cs_program_verify(const struct cs_program *program, struct cs_err *err) CS_NODISCARD;

/* What the ranks have; 0: no limit. */
struct cs_program_limits {
    int64_t mem_bytes; /* for weights, gradients, optimizer and the activations of live slots;
                          boundary buffers, whose number depends on times, are in forecasts */
    int32_t
        channels; /* peers times directions in which messages may be under way at once on a rank:
                      on accelerators each may hold a kernel that waits */
};

/* most channels on accelerators: half the multiprocessors of a card stay free */
enum { CS_MAX_CHANNELS = 64 };

/* CS_PLAN names the first action that is over a limit, with the figures. The program must be
 * verified. */
enum cs_status cs_program_check_limits(const struct cs_program *program,
                                       const struct cs_program_limits *limits,
                                       struct cs_err *err) CS_NODISCARD;

#endif
