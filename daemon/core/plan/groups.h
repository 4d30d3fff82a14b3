/* Groups of ranks that talk: every communicator of a job, in one sorted order that is the same on
 * all ranks. Who belongs to a group is said here only; programs name a group by its index in the
 * plan's table, and the worker, the verifier and the simulator take its members from there. */
#ifndef CS_PLAN_GROUPS_H
#define CS_PLAN_GROUPS_H

#include <stdint.h>

#include "core/base/arena.h"

struct cs_plan;

enum cs_group_kind {
    CS_GROUP_NONE = -1,
    CS_GROUP_WORLD,  /* all ranks: the norm of the gradients */
    CS_GROUP_DP,     /* the same weights: the same place of every replica, all parts of a context */
    CS_GROUP_TIED,   /* of a replica: the ranks of both ends of a tied embedding that trains */
    CS_GROUP_COPIES, /* of a replica: the ranks that have a copy of a branch; of: the branch */
    CS_GROUP_TP,     /* of a stage: the ranks that share its tensors */
    CS_GROUP_CP,     /* ... its context */
    CS_GROUP_ITEMS, /* ... items of an encoder on them, beyond a context (cs_plan_shares_all): all */
    CS_GROUP_EP,    /* ... its experts, of several replicas too */
    CS_GROUP_EDP,   /* the same experts: every ep-th of those with the same weights */
    CS_GROUP_PP,    /* of a mesh (layout.h): the stages of a pipeline */
    CS_GROUP_CHANNEL, /* messages from one rank to another; of: the sender */
    CS_GROUP_KINDS
};

/* Its ranks run one program, as replicas do and those that share matrices: in programs they do not meet. */
static inline bool cs_group_runs_one_program(enum cs_group_kind kind)
{
    return kind == CS_GROUP_DP || kind == CS_GROUP_TP;
}

/* rank: n members, ascending, each once. Groups are sorted by kind, then of, then members; no two
 * are equal. */
struct cs_group {
    enum cs_group_kind kind;
    int32_t of; /* branch, sender; -1: the kind needs none */
    int32_t n;
    const int32_t *rank;
};

/* Fills plan->group from its stages, edges and replicas; arrays in the arena. The planner and the
 * reader of plans call it; who moves stages of a plan afterwards sets n_groups to 0. Kinds other
 * than WORLD and TIED have groups of two ranks or more only. */
void cs_plan_make_groups(struct cs_plan *plan, struct cs_arena *arena);
/* The same table without any but channels, for who counts these alone. */
void cs_plan_make_channels(struct cs_plan *plan, struct cs_arena *arena);
/* The plan itself where it has its table, else a copy in the arena that has one (plans made from
 * numbers). */
const struct cs_plan *cs_plan_with_groups(const struct cs_plan *plan, struct cs_arena *arena);
/* The index of the group of a kind that has a rank (of all) as a member; of as above, -1: any. -1:
 * there is none. */
int32_t cs_plan_group(const struct cs_plan *plan, enum cs_group_kind kind, int32_t of,
                      int32_t rank);
/* How many groups of the table actions can name: all before the channels, which messages find by
 * their peer. */
int32_t cs_plan_collectives(const struct cs_plan *plan);
/* The position of a rank among the members, -1: it is none. */
int32_t cs_group_position(const struct cs_group *group, int32_t rank);
/* Sorts groups and drops equal ones; returns how many are left. */
int32_t cs_groups_sort(struct cs_group *group, int32_t n);

#endif
