/* What a stage takes, found by rehearsal: its own functions run on the fullest slot that the
 * budgets allow, with operators that are only written down (worker/device/tape.h) and memory that
 * is only counted (cs_scratch_bind_counting). */
#ifndef CS_WORKER_MEMORY_REHEARSE_H
#define CS_WORKER_MEMORY_REHEARSE_H

#include "worker/model/stage.h"

/* Bytes of a stage and slot; all with alignment. */
struct cs_memory_stage {
    size_t keep;    /* from forward to backward, in training */
    size_t held;    /* from the input half of a split backward to the weight half */
    size_t scratch; /* while one of its actions runs */
};

/* What a rehearsal of a stage found. Programs of other numbers of slots have the same stages. */
struct cs_memory_rehearsal {
    bool is_done;
    bool leaves; /* its input half leaves something for the weight half */
    struct cs_memory_stage stage;
};

/* evaluation; training with split, split and whole, whole backwards */
enum { CS_MEMORY_KINDS = 4 };

struct cs_memory_config {
    const struct cs_graph *graph;
    const struct cs_plan *plan;
    struct cs_device *device;
    struct cs_stage_model *const *stage; /* (n_stages), NULL: other ranks' */
    const struct cs_fullest *fullest;    /* NULL: all that the program needs is rehearsed */
    struct cs_memory_rehearsal *known;   /* (n_stages, CS_MEMORY_KINDS), zero at first */
    int rank;                            /* in the replica */
};

/* How a program runs a stage: forward only, with split backwards, with whole ones (or both). */
struct cs_memory_kind {
    bool is_eval, is_split, is_whole;
};

/* stage: of the rank; config->fullest is set */
void cs_memory_rehearse(const struct cs_memory_config *config, struct cs_memory_kind kind,
                        int32_t stage, struct cs_memory_rehearsal *out);

#endif
