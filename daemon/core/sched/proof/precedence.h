/* The precedence graph of a whole job: what verifier and simulator walk. Private to core/sched.
 *
 * Nodes: every action; and one meeting per matched message or collective, which starts when all its
 * members are posted. An action of the COMM stream is posted by its own node and done with its
 * meeting. An arc means "must be done before". */
#ifndef CS_SCHED_PROOF_PRECEDENCE_H
#define CS_SCHED_PROOF_PRECEDENCE_H

#include "core/sched/program.h"

#define CS_PRECEDENCE_NONE UINT32_MAX

struct cs_precedence_node {
    int32_t rank;    /* of the action; of a meeting: its first member (message: the sender) */
    uint32_t action; /* id; CS_PRECEDENCE_NONE for a message nobody sends */
    bool is_meeting;
    bool is_dead; /* can never happen: no partner, or in no stream */
    uint32_t first_pred, n_preds;
};

/* k-th send and k-th receive of a pair of ranks; CS_PRECEDENCE_NONE: there is none */
struct cs_precedence_pair {
    int32_t from, to;
    uint32_t send, recv; /* action ids on from and to */
    bool is_match;
};

/* the n-th meeting of a collective group */
struct cs_precedence_group {
    int32_t comm, nth;
    int32_t absent; /* a rank that never comes, -1: complete */
    int32_t rank;   /* one that comes */
    uint32_t action;
};

struct cs_precedence {
    const struct cs_program *program;
    struct cs_precedence_node *node;
    uint32_t n_nodes, n_actions; /* actions are nodes 0..n_actions-1 */
    uint32_t *base;              /* (n_ranks + 1) first node of the rank's actions */
    uint32_t *done;              /* (n_actions) node whose end completes the action */
    uint32_t *preds, n_preds;
    uint32_t *succs, *first_succ; /* (n_nodes + 1) */
    struct cs_precedence_pair *pair;
    uint32_t n_pairs;
    struct cs_precedence_group *group;
    uint32_t n_groups;
};

/* Indices of every action within their ranges, ids in order; streams complete when demanded. */
enum cs_status cs_precedence_check_shape(const struct cs_program *program, bool is_complete,
                                         struct cs_err *err) CS_NODISCARD;
/* The program must have passed cs_precedence_check_shape(.., false, ..). */
void cs_precedence_build(const struct cs_program *program, struct cs_arena *arena,
                         struct cs_precedence *graph);

#endif
