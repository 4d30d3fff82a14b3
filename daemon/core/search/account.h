/* Private to core/search: memory, step and words of a lowered trial. */
#ifndef CS_SEARCH_ACCOUNT_H
#define CS_SEARCH_ACCOUNT_H

#include "core/search/buffers.h"
#include "core/search/trial.h"

/* stages with their memory, peak_bytes; activations over the replayed order; sets the trial's boundary. known: may be
 * NULL. CS_PLAN: no order. */
enum cs_status cs_account_memory(struct cs_trial *trial, const struct cs_replay *replay,
                                 struct cs_known_buffers *known, struct cs_buffer_slots slots,
                                 struct cs_arena *arena, struct cs_search_plan *plan,
                                 struct cs_err *err) CS_NODISCARD;
/* CS_PLAN: the rank that needs most is over the cap; sets nearest and tight_branch */
enum cs_status cs_account_check(struct cs_trial *trial, const struct cs_search_plan *plan,
                                struct cs_err *err) CS_NODISCARD;
/* gradients of the slowest stage, optimizer, step */
void cs_account_step(const struct cs_trial *trial, struct cs_search_plan *plan);
/* idle share of every stage's rank of a makespan */
void cs_account_bubbles(const struct cs_trial *trial, const struct cs_replay *replay,
                        const int64_t *cost, double makespan, struct cs_search_plan *plan);
void cs_account_say(const struct cs_trial *trial, struct cs_arena *arena,
                    struct cs_search_plan *plan);

#endif
