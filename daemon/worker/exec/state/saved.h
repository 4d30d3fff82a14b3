/* Sets of activations of the stages of a rank, one a slot from forward to backward. Used by the
 * thread that computes. */
#ifndef CS_WORKER_EXEC_SAVED_H
#define CS_WORKER_EXEC_SAVED_H

#include "worker/exec/state/state.h"

/* room for the sets of that many slots; between steps */
enum cs_status cs_exec_reserve_saved(struct cs_exec *exec, int32_t n_slots,
                                     struct cs_err *err) CS_NODISCARD;
void cs_exec_free_saved(struct cs_exec *exec);
/* an empty set for a stage's forward on a slot, in the place that the running program has for it */
struct cs_saved *cs_exec_take_saved(struct cs_exec *exec, int32_t stage, int32_t slot);
/* the stage is done with its set of the slot */
void cs_exec_give_saved(struct cs_exec *exec, int32_t stage, int32_t slot);
/* bytes that an action added to a set: they count towards the step's peak */
void cs_exec_count_saved(struct cs_exec *exec, size_t bytes);

#endif
