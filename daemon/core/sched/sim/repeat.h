/* Copies of a program for the simulator: data-parallel replicas, of which those that are alike are
 * simulated once. Private to core/sched. */
#ifndef CS_SCHED_SIM_REPEAT_H
#define CS_SCHED_SIM_REPEAT_H

#include "core/sched/program.h"

/* copies a and b have the same costs */
typedef bool (*cs_repeat_alike)(void *user, int32_t a, int32_t b);

struct cs_repeat {
    const struct cs_program *original;
    const struct cs_program *program; /* n_classes copies of its ranks, stages and edges */
    int32_t n_classes, n_copies;
    int32_t *class_of; /* (n_copies) */
    int32_t *first;    /* (n_classes) the first copy of the class */
};

/* alike NULL: every copy is a class of its own. A class comes where its first copy comes. CS_PLAN:
 * more ranks or stages than programs have. The actions' dependencies are the program's own. */
enum cs_status cs_repeat_make(const struct cs_program *program, int32_t n_copies,
                              cs_repeat_alike alike, void *user, struct cs_arena *arena,
                              struct cs_repeat *out, struct cs_err *err) CS_NODISCARD;

/* where an action of the repeated program comes from */
struct cs_repeat_origin {
    int32_t copy, rank; /* rank of the original */
    const struct cs_action *action;
};

static inline struct cs_repeat_origin cs_repeat_origin(const struct cs_repeat *repeat, int32_t rank,
                                                       uint32_t id)
{
    int32_t n = repeat->original->n_ranks, copy = rank < n ? 0 : rank / n, own = rank - copy * n;
    return (struct cs_repeat_origin){repeat->first[copy], own,
                                     &repeat->original->rank[own].actions[id]};
}

#endif
