/* Programs: for every rank a flat list of actions over slots. Worker and simulator interpret the
 * same program. Processes receive the plan, lower it themselves (sched/lower) and compare hashes.
 *
 * Streams of a rank are FIFOs: an action starts when it is the head of its stream and its
 * dependencies (ids on the same rank) are done. Ranks meet only in matched SEND/RECV and in
 * collectives. COMM: a message is posted when its dependencies are done, every earlier message of
 * the same (peer, direction) is posted and every earlier collective is complete; other peers and
 * directions are independent (as in kernels/comm.h). A collective is posted when its dependencies
 * are done, every earlier message is posted and every earlier collective is complete. The k-th send
 * of a pair of ranks meets the k-th receive. Receives have no dependencies: boundary buffers exist
 * for every slot. */
#ifndef CS_SCHED_PROGRAM_H
#define CS_SCHED_PROGRAM_H

#include "core/base/buf.h"
#include "core/plan/plan.h"
#include "core/sched/action.h"

struct cs_rank_program {
    int32_t rank;
    struct cs_action *actions; /* execution order, all streams merged; of each its FIFO order */
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
    int32_t lead_before; /* slots that leading stages computed in the step before; 0 in the first */
    int32_t lead_after;  /* slots of the next step that they compute in this one; 0 in the last */
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

/* Order of the compute of one stage as text, "F0 F1 B0 ..." (cs.lab.program, tests). A split backward
 * is "B0" and "W0"; slots of the next step are marked, "F0'". */
const char *cs_program_letter(enum cs_op op);
void cs_program_text(const struct cs_program *program, int stage, struct cs_buf *out);

/* "rank 2: recv grad of edge vision.0 -> llm.0, slot 3" */
void cs_action_text(const struct cs_program *program, int rank, uint32_t id, struct cs_buf *out);

#endif
