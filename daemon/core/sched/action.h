/* Actions: the steps of a rank's program, and the table of their operations.
 *
 * One row of the table says what generators, messages, verifier, simulator, worker and views need
 * to know of an operation. A new one is a row here, what the worker does for it
 * (worker/exec/actions.c), and what it costs if that is not the time of a stage's parts
 * (sched/sim/predict.c).
 *
 * Actions are private to core/sched and the worker: never on the wire or on disk. */
#ifndef CS_SCHED_ACTION_H
#define CS_SCHED_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/plan/groups.h"

/* A stream of a rank is a FIFO of actions. */
enum cs_stream { CS_STREAM_COMPUTE, CS_STREAM_COMM, CS_STREAM_COUNT };

enum cs_op_kind {
    CS_OP_KIND_WORK,       /* of a stage on a slot: has parts */
    CS_OP_KIND_MESSAGE,    /* rows or a gradient of an edge for a slot, to or from one peer */
    CS_OP_KIND_COLLECTIVE, /* of a group of ranks, once a step */
    CS_OP_KIND_STEP        /* of this rank alone, once a step */
};

/* What the work of a stage on a slot does; a backward does one half or both. */
enum cs_op_part {
    CS_PART_NONE = 0,
    CS_PART_FORWARD = 1, /* makes rows; the slot is live from here on where there is a backward */
    CS_PART_INPUT = 2,   /* makes the gradient of the stage's input */
    CS_PART_WEIGHT = 4,  /* adds to the gradients of the stage's weights */
    CS_PART_BACKWARD = CS_PART_INPUT | CS_PART_WEIGHT
};

/* X(op, letter, stream, kind, parts, group, words)
 *
 * FWD         forward of the stage on the slot.
 * BWD         backward: input and weight gradients as the stage's layers need; absent where the
 *             stage needs neither.
 * BWD_INPUT,  its two halves, in zero-bubble schedules only; each absent where the stage has no
 * BWD_WEIGHT  such work. A stage without BWD_INPUT receives its gradient in BWD_WEIGHT.
 * SEND, RECV  rows of the edge for the slot; is_grad: the gradient, which flows from `to` to
 *             `from`. Edges between stages of one rank have no messages: the consumer depends on
 *             the producer.
 * COPIES      sum of the stage's gradients over the ranks that have a copy of its branch, in the
 *             order of the copies, after all its backwards.
 * TENSORS     where ranks share the matrices of a stage: gradients of what all of them have and each
 *             makes a part of (norms of heads, keys that repeat), summed in the order of the ranks,
 *             after all backwards.
 * REDUCE      with replicas: the gradients of this rank's weights summed over the same rank of
 *             every replica, of which each keeps its part (reduce-scatter).
 * TIED        exchange of the tied embedding's gradients between embedding and head, after all
 *             backwards and REDUCE; with replicas, of the parts that REDUCE left.
 * NORM        sum of squares of every trained tensor, all-gathered over all ranks, after all of
 *             these.
 * STEP        the optimizer updates every trained parameter of the rank.
 * GATHER      with replicas: the updated weights back to all of them.
 * MARK        end of the step; all boundary buffers are free. */
/* clang-format off */
#define CS_OPS_TABLE(X)                                                                            \
    X(FWD,        "F", COMPUTE, WORK,       FORWARD,  NONE,     "forward")                         \
    X(BWD,        "B", COMPUTE, WORK,       BACKWARD, NONE,     "backward")                        \
    X(BWD_INPUT,  "I", COMPUTE, WORK,       INPUT,    NONE,     "input backward")                  \
    X(BWD_WEIGHT, "W", COMPUTE, WORK,       WEIGHT,   NONE,     "weight backward")                 \
    X(SEND,       "s", COMM,    MESSAGE,    NONE,     NONE,     "send")                            \
    X(RECV,       "r", COMM,    MESSAGE,    NONE,     NONE,     "recv")                            \
    X(TIED,       "T", COMM,    COLLECTIVE, NONE,     TIED,     "exchange of the tied embedding's gradients") \
    X(NORM,       "N", COMM,    COLLECTIVE, NONE,     WORLD,    "gradient norm")                   \
    X(STEP,       "O", COMPUTE, STEP,       NONE,     NONE,     "optimizer step")                  \
    X(MARK,       "M", COMPUTE, STEP,       NONE,     NONE,     "end of the step")                 \
    X(COPIES,     "C", COMM,    COLLECTIVE, NONE,     COPIES,   "sum of the gradients over the copies") \
    X(REDUCE,     "R", COMM,    COLLECTIVE, NONE,     DP,       "sum of the gradients over the replicas") \
    X(GATHER,     "G", COMM,    COLLECTIVE, NONE,     DP,       "updated weights of the replicas") \
    X(TENSORS,    "P", COMM,    COLLECTIVE, NONE,     TP,       "sum of the gradients that ranks of a stage have in parts")

enum cs_op {
#define X(op, letter, stream, kind, parts, group, words) CS_OP_##op,
    CS_OPS_TABLE(X)
#undef X
    CS_OP_COUNT
};

/* clang-format on */

struct cs_op_info {
    const char *name;   /* "BWD_INPUT" */
    const char *letter; /* one character, of its own: names the operation in traces and documents */
    enum cs_stream stream;
    enum cs_op_kind kind;
    unsigned parts; /* bits of enum cs_op_part; of CS_OP_KIND_WORK only */
    int group;      /* enum cs_group_kind: whom a collective meets; CS_GROUP_NONE */
    const char *words;
};

/* by enum cs_op */
extern const struct cs_op_info cs_op_table[CS_OP_COUNT];

/* "?" of what is no operation */
const char *cs_op_letter(enum cs_op op);
/* CS_OP_COUNT: no operation has the letter */
enum cs_op cs_op_of_letter(char letter);

static inline enum cs_stream cs_op_stream(enum cs_op op)
{
    return (unsigned)op < CS_OP_COUNT ? cs_op_table[op].stream : CS_STREAM_COMPUTE;
}

static inline bool cs_op_is(enum cs_op op, enum cs_op_kind kind)
{
    return (unsigned)op < CS_OP_COUNT && cs_op_table[op].kind == kind;
}

/* does one of the parts */
static inline bool cs_op_does(enum cs_op op, unsigned parts)
{
    return (unsigned)op < CS_OP_COUNT && (cs_op_table[op].parts & parts) != 0;
}

struct cs_action {
    uint32_t id; /* index in the rank's list */
    uint8_t op;  /* enum cs_op */
    uint8_t is_grad;
    uint8_t lead; /* 1: a slot of the next step */
    uint8_t part;
    int16_t stage; /* plan->stages, -1: none */
    int16_t edge;  /* plan->edges, -1: none */
    int16_t peer;  /* rank, -1: none */
    /* A collective: its group in the plan's table as the first replica has it (core/plan/groups.h),
     * -1: it is none. All members of a group meet; a member's collectives block its COMM stream,
     * messages do not. A program is of one replica, so of a group over replicas nobody else in it
     * is a member. */
    int16_t comm;
    int32_t slot;               /* -1: none */
    uint32_t first_dep, n_deps; /* in rank_program.deps: action ids of the same rank */
};

#endif
