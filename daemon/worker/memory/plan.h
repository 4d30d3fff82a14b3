/* What a rank takes of its device's memory to run a program, known before it runs.
 *
 * Nothing is estimated. Every stage of the rank is rehearsed: its own functions run on the fullest
 * slot that the budgets allow, with operators that are only written down (worker/device/tape.h) and
 * memory that is only counted (cs_scratch_bind_counting), so there is no second formula that could
 * differ from what a step takes. Which activations are alive together follows from the order of the
 * program's actions; each set gets a fixed place for its life time (first fit, in order of time or
 * of size, with sizes as they are or a little larger and so more often equal: what needs least).
 * Rows between stages share buffers where the program itself proves that the one is read before the
 * other is written, whatever the speed of ranks and messages; nobody waits for a buffer. */
#ifndef CS_WORKER_MEMORY_PLAN_H
#define CS_WORKER_MEMORY_PLAN_H

#include "core/sched/program.h"
#include "worker/memory/rehearse.h"

/* Where a stage's activations of a slot lie in the kept area. */
struct cs_memory_place {
    size_t keep, held;
};

/* Activations of a stage of which so many slots are alive at once wait on the host
 * (core/plan/offload.h): slot s lies in the place of slot s % sets, and on the host `at` bytes and
 * s % alive sets from the beginning. sets 0: they stay. */
struct cs_memory_offload {
    int32_t sets, alive;
    size_t at;
};

struct cs_memory_plan {
    char program[65]; /* its hash */
    int32_t n_slots, n_stages;
    bool is_eval;
    struct cs_memory_stage *stage;     /* (n_stages), 0: other ranks' */
    struct cs_memory_place *place;     /* (n_slots, n_stages) */
    struct cs_memory_offload *offload; /* (n_stages) */
    size_t host;                       /* bytes of the host that they take */
    int32_t *n_buffers;                /* (n_edges) of boundaries, 0: other ranks' */
    int32_t *buffer;      /* (n_edges, n_slots, 2) of rows and of gradients, -1: none */
    size_t kept, scratch; /* bytes of both areas */
};

/* every stage of the rank was rehearsed as this program runs it */
bool cs_memory_is_rehearsed(const struct cs_memory_config *config,
                            const struct cs_program *program);

enum cs_status cs_memory_plan_new(const struct cs_memory_config *config,
                                  const struct cs_program *program, struct cs_memory_plan **out,
                                  struct cs_err *err) CS_NODISCARD;
void cs_memory_plan_free(struct cs_memory_plan *plan); /* accepts NULL */

/* One set of activations: alive from action `begin` to action `end` (ordinals, both included). */
struct cs_memory_life {
    size_t bytes;
    uint32_t begin, end;
    size_t at, room; /* result: bytes or a little more are taken there */
};

/* Give every life a place so that none that are alive together overlap; returns the bytes of all.
 * SIZE_MAX: no memory for it. */
size_t cs_memory_arrange(struct cs_memory_life *life, uint32_t n);

/* Buffers of the edges of a rank: which one rows of a slot and their gradient lie in, buffer
 * (n_edges, n_slots, 2) with -1 for none, and how many there are, n_buffers (n_edges). */
enum cs_status cs_memory_buffers(const struct cs_program *program, int rank, int32_t *buffer,
                                 int32_t *n_buffers, struct cs_err *err) CS_NODISCARD;

#endif
